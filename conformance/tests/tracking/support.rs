//! Connections that separate invalidations from replies.

use std::collections::VecDeque;

use undercroft_conformance::client::Client;
use undercroft_conformance::command::Command;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

/// Starts `undercroft serve`. Returns `None` if the test is skipped.
pub(crate) fn serve(settings: Settings) -> Option<Server> {
    start_undercroft(settings).expect("our server starts")
}

/// Runs a test on our server and on a real Redis, so that the test itself is checked.
pub(crate) fn on_both(test: impl Fn(&Server)) {
    let Some(ours) = serve(Settings::default()) else {
        return;
    };
    let settings = Settings {
        arguments: ["--enable-debug-command", "yes"].map(str::to_owned).into(),
        ..Settings::default()
    };
    let judge = Server::start(Kind::Redis, settings).expect("redis-server starts");
    test(&judge);
    test(&ours);
}

/// A connection that keeps the pushes which it receives between replies.
pub(crate) struct Tracked {
    client: Client,
    pushes: VecDeque<Reply>,
}

impl Tracked {
    pub(crate) fn connect(server: &Server) -> Tracked {
        Tracked {
            client: Client::connect(server.address()).expect("the server accepts"),
            pushes: VecDeque::new(),
        }
    }

    /// Returns a connection that uses RESP3.
    pub(crate) fn resp3(server: &Server) -> Tracked {
        let mut client = Tracked::connect(server);
        client.call("HELLO 3");
        client
    }

    pub(crate) fn send(&mut self, line: &str) {
        let command = Command::parse(line).expect("a sound line");
        self.client.send(&command).expect("the server reads");
    }

    /// Receives a reply or a push.
    pub(crate) fn receive(&mut self) -> Reply {
        self.client.receive().expect("a reply")
    }

    /// Sends a line, and returns its reply. Keeps the pushes before it.
    pub(crate) fn call(&mut self, line: &str) -> Reply {
        self.send(line);
        self.reply()
    }

    /// Returns the next reply. Keeps the pushes before it.
    pub(crate) fn reply(&mut self) -> Reply {
        loop {
            match self.receive() {
                push @ Reply::Push(_) => self.pushes.push_back(push),
                reply => return reply,
            }
        }
    }

    /// Sends lines, whose replies must not be errors.
    pub(crate) fn calls(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let reply = self.call(line);
            assert!(!reply.is_error(), "{line}: {reply:?}");
        }
    }

    /// Returns the next invalidation, waiting for it.
    pub(crate) fn next(&mut self) -> Invalidated {
        let push = self.pushes.pop_front();
        invalidated(&push.unwrap_or_else(|| self.receive()))
    }

    /// Sends a command, and waits for its reply.
    pub(crate) fn run(&mut self, command: &Command) -> Reply {
        self.client.send(command).expect("the server reads");
        self.reply()
    }

    /// Returns the invalidations that have been received.
    pub(crate) fn taken(&mut self) -> Vec<Invalidated> {
        self.pushes
            .drain(..)
            .map(|push| invalidated(&push))
            .collect()
    }

    /// Returns all invalidations of changes that were replied to before this call.
    pub(crate) fn all(&mut self) -> Vec<Invalidated> {
        self.call("PING");
        self.taken()
    }

    /// Returns the keys of all invalidations, sorted. `*` stands for all keys.
    pub(crate) fn keys(&mut self) -> Vec<String> {
        let keys = |invalidated| match invalidated {
            Invalidated::Keys(keys) => keys,
            Invalidated::All => vec!["*".to_owned()],
            Invalidated::Broken(id) => panic!("the connection {id} is gone"),
        };
        let mut keys: Vec<String> = self.all().into_iter().flat_map(keys).collect();
        keys.sort();
        keys
    }

    /// Returns the ID of the connection.
    pub(crate) fn id(&mut self) -> i64 {
        match self.call("CLIENT ID") {
            Reply::Integer(id) => id,
            reply => panic!("{reply:?}"),
        }
    }

    /// Returns the text of a reply.
    pub(crate) fn text(&mut self, line: &str) -> String {
        text(&self.call(line))
    }
}

/// A connection that has subscribed to the invalidations of another one, in RESP2.
pub(crate) fn redirection(server: &Server) -> (Tracked, i64) {
    let mut client = Tracked::connect(server);
    let id = client.id();
    client.call("SUBSCRIBE __redis__:invalidate");
    (client, id)
}

/// A received invalidation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invalidated {
    Keys(Vec<String>),
    All,
    Broken(i64),
}

pub(crate) fn keys(names: &[&str]) -> Invalidated {
    Invalidated::Keys(names.iter().map(|&name| name.to_owned()).collect())
}

/// Returns the invalidation of a push in RESP3, or of a message in RESP2.
fn invalidated(reply: &Reply) -> Invalidated {
    let items = reply.items().unwrap_or_else(|| panic!("{reply:?}"));
    let subject = match items {
        [kind, subject] if text(kind) == "invalidate" => subject,
        [kind, Reply::Integer(id)] if text(kind) == "tracking-redir-broken" => {
            return Invalidated::Broken(*id);
        }
        [kind, channel, subject]
            if text(kind) == "message" && text(channel) == "__redis__:invalidate" =>
        {
            subject
        }
        _ => panic!("not an invalidation: {reply:?}"),
    };
    match subject.items() {
        Some(keys) => {
            let mut keys: Vec<String> = keys.iter().map(text).collect();
            keys.sort();
            Invalidated::Keys(keys)
        }
        None => {
            assert!(subject.is_null(), "{reply:?}");
            Invalidated::All
        }
    }
}

pub(crate) fn text(reply: &Reply) -> String {
    let bytes = match reply {
        Reply::Error(text) => text,
        reply => reply.bytes().unwrap_or_default(),
    };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a field of INFO.
pub(crate) fn info(client: &mut Tracked, field: &str) -> u64 {
    let text = client.text("INFO everything");
    let start = format!("{field}:");
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(&start));
    value.and_then(|value| value.parse().ok()).expect("a field")
}
