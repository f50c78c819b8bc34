//! Compares the replies of a real Redis 7.0 and of `undercroft serve`.

use undercroft_conformance::client::Client;
use undercroft_conformance::command::Command;
use undercroft_conformance::servers::{Kind, Server, Settings};

/// A real Redis and `undercroft serve`, with the same lines of configuration.
pub(crate) struct Both {
    pub(crate) judge: Server,
    pub(crate) ours: Server,
}

impl Both {
    /// Starts both. Words of the configuration must not contain spaces.
    pub(crate) fn start(config: &str, password: Option<&str>) -> Both {
        let settings = Settings {
            password: password.map(str::to_owned),
            ..Settings::default()
        };
        let words = config.lines().flat_map(|line| {
            let words = line.split(' ').map(|word| match word {
                "\"\"" => String::new(),
                word => word.to_owned(),
            });
            let mut words: Vec<String> = words.collect();
            words[0].insert_str(0, "--");
            words
        });
        let judge = Settings {
            arguments: words.collect(),
            ..settings.clone()
        };
        let ours = Settings {
            files: vec![("undercroft.conf".into(), config.into())],
            ..settings
        };
        Both {
            judge: Server::start(Kind::Redis, judge).expect("redis-server starts"),
            ours: Server::start(Kind::Undercroft, ours).expect("our server starts"),
        }
    }

    /// Sends lines to both servers, on one connection to each, and checks that the replies are equal.
    pub(crate) fn same(&self, lines: &str) {
        let connect = |server: &Server| Client::connect(server.address()).expect("it accepts");
        let (mut judge, mut ours) = (connect(&self.judge), connect(&self.ours));
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let call = |client: &mut Client| {
                let command = Command::parse(line).expect("a sound line");
                client.call(command.0).expect("a reply")
            };
            assert_eq!(call(&mut ours), call(&mut judge), "{line}");
        }
    }
}
