//! The program `conform`, which compares a server with the judge, a real Redis, in long runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use undercroft_conformance::bridge::Bridge;
use undercroft_conformance::canary::{self, FAULTS};
use undercroft_conformance::cases::{self, Report};
use undercroft_conformance::client::Address;
use undercroft_conformance::command::Command;
use undercroft_conformance::compare::Rules;
use undercroft_conformance::differential::{self, Plan, Session};
use undercroft_conformance::generate::FAMILIES;
use undercroft_conformance::limits::Limits;
use undercroft_conformance::servers::{Kind, Peer, Server, Settings, undercroft_binary};
use undercroft_conformance::torture;

/// Compares a server with a real Redis 7.0, which it starts.
///
/// Without a subcommand, it sends the same random commands to both servers, whose replies and data
/// must be equal. A failing run is reduced to a few redis-cli lines.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:
  conform --commands 1000000 --seed 42
  conform --against 127.0.0.1:6380 --families strings,expire
  conform --canary 0                   a wrong server, to see a failure
  conform cases                        the case files
  conform through conformance/clients/c.txt target/test/c/bin/bridge
                                       the case files through a client
  conform replay failed.txt            the commands that a failed run printed
  conform torture --idle 10000         malformed protocol input

The subject is `undercroft serve` from this build (or UNDERCROFT_BIN), unless
--against names an address. FLUSHALL deletes all data of the subject."
)]
struct Options {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    random: Random,
    /// Address of the subject: host:port or the path of a socket; `redis` starts a second real
    /// Redis.
    #[arg(long, global = true, value_name = "ADDR")]
    against: Option<String>,
}

#[derive(Debug, Args)]
struct Random {
    /// Number of commands to send.
    #[arg(long, default_value_t = 1_000_000)]
    commands: usize,
    /// Seed of the random commands [default: a new one].
    #[arg(long, env = "UNDERCROFT_SEED")]
    seed: Option<u64>,
    /// Commands per pipeline; the data is compared after each.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Families of commands to draw from [default: all].
    #[arg(long, value_delimiter = ',')]
    families: Vec<String>,
    /// Require DUMP payloads to be equal byte for byte.
    #[arg(long)]
    dump_bytes: bool,
    /// Do not compare OBJECT ENCODING.
    #[arg(long)]
    any_encoding: bool,
    /// Test the judge with this built-in fault instead (0, 1, ...).
    #[arg(long, conflicts_with = "against")]
    canary: Option<usize>,
}

impl Random {
    fn rules(&self) -> Rules {
        Rules {
            dump_bytes: self.dump_bytes,
            encodings: !self.any_encoding,
        }
    }
}

#[derive(Debug, Subcommand)]
enum What {
    /// Runs the case files.
    Cases {
        /// Directory of the case files.
        #[arg(long, default_value_os_t = cases::directory())]
        directory: PathBuf,
        /// Writes the replies of a real Redis into cases whose expected replies are missing or wrong; review
        /// the diff before committing it.
        #[arg(long, conflicts_with = "against")]
        bless: bool,
    },
    /// Runs the case files through a client library on a store. COMMAND is a bridge: a program that takes
    /// the paths of a new store and of a socket, listens on the socket as a server, and runs each
    /// command with the library.
    Through {
        /// File with the limits of the client, such as conformance/clients/c.txt.
        limits: PathBuf,
        /// The bridge and its arguments.
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// Sends the commands in a file to both servers. The file contains one redis-cli line per
    /// command, as a failed run prints them.
    Replay {
        /// The file with the commands.
        file: PathBuf,
    },
    /// Sends malformed protocol input, opens many connections, and leaves replies unread.
    Torture {
        /// Number of idle connections to open.
        #[arg(long, default_value_t = 10_000)]
        idle: usize,
        /// Number of malformed inputs to send.
        #[arg(long, default_value_t = 2_000)]
        damaged: usize,
        /// Seed of the malformed inputs [default: a new one].
        #[arg(long, env = "UNDERCROFT_SEED")]
        seed: Option<u64>,
    },
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conform: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<bool> {
    match &options.what {
        None => run_random(options),
        Some(What::Cases { directory, bless }) => {
            let mut files = cases::read_all(directory)?;
            if *bless {
                let redis = Server::start(Kind::Redis, Settings::default())?;
                for file in &mut files {
                    file.bless(redis.address())?;
                }
                return Ok(true);
            }
            let mut subject = subject(options)?;
            let address = subject.peer().address()?;
            let mut report = Report::default();
            for file in &files {
                file.run(&address, &mut report)?;
            }
            for failure in &report.failures {
                println!("{failure}\n");
            }
            println!("{} cases, {} failed", report.cases, report.failures.len());
            Ok(report.failures.is_empty())
        }
        Some(What::Through { limits, command }) => run_through(limits, command),
        Some(What::Replay { file }) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("reading {}", file.display()))?;
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let commands = lines.map(Command::parse).collect::<Result<Vec<_>>>()?;
            let mut judge = Server::start(Kind::Redis, Settings::default())?;
            let mut subject = subject(options)?;
            let mut session = Session::fresh(&mut judge, subject.peer(), options.random.rules())?;
            let difference = session.play(&commands)?;
            match &difference {
                None => println!("{} commands: all equal", commands.len()),
                Some(difference) => println!("{difference}"),
            }
            Ok(difference.is_none())
        }
        Some(What::Torture {
            idle,
            damaged,
            seed,
        }) => {
            let seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
            println!("seed {seed}");
            let judge = Server::start(Kind::Redis, torture::settings())?;
            let mut subject = subject_of(options, torture::settings())?;
            let pid = subject.pid();
            let address = subject.peer().address()?;
            let target = torture::Target { address, pid };
            let load = torture::Load {
                idle: *idle,
                damaged: *damaged,
                seed,
            };
            let failures = torture::run_all(&target, judge.address(), &load)?;
            Ok(failures == 0)
        }
    }
}

/// Runs the case files through a client library. Prints the cases that it skips.
fn run_through(limits: &Path, command: &[String]) -> Result<bool> {
    let limits = Limits::read(limits)?;
    let bridge = Bridge::start(command)?;
    let mut report = Report::default();
    let mut files = cases::read_all(&cases::directory())?;
    files.extend(cases::read_all(&cases::own_directory())?);
    for file in &files {
        file.run_through(bridge.address(), &limits, &mut report)?;
    }
    for skipped in &report.skipped {
        println!("skipped: {skipped}");
    }
    let unused = limits.unused();
    for text in report.failures.iter().chain(&unused) {
        println!("{text}\n");
    }
    println!(
        "{} cases, {} failed, {} skipped",
        report.cases,
        report.failures.len(),
        report.skipped.len()
    );
    Ok(report.failures.is_empty() && unused.is_empty())
}

/// The server under test.
enum Subject {
    Started(Server),
    Named(Address),
    /// A proxy's address, and the server to which it forwards, which must outlive the proxy.
    Proxy(
        Address,
        #[expect(dead_code, reason = "held until the process ends")] Server,
    ),
}

impl Subject {
    fn peer(&mut self) -> &mut dyn Peer {
        match self {
            Subject::Started(server) => server,
            Subject::Named(address) | Subject::Proxy(address, _) => address,
        }
    }

    fn pid(&self) -> Option<u32> {
        match self {
            Subject::Started(server) => Some(server.pid()),
            Subject::Named(_) | Subject::Proxy(..) => None,
        }
    }
}

fn subject(options: &Options) -> Result<Subject> {
    subject_of(options, Settings::default())
}

fn subject_of(options: &Options, settings: Settings) -> Result<Subject> {
    if let Some(number) = options.random.canary {
        let Some(fault) = FAULTS.get(number) else {
            bail!(
                "expected a fault from 0 to {}, got {number}",
                FAULTS.len() - 1
            );
        };
        println!("fault: {}", fault.name);
        let behind = Server::start(Kind::Redis, Settings::default())?;
        let proxy = canary::start(behind.address(), *fault)?;
        return Ok(Subject::Proxy(proxy, behind));
    }
    Ok(match options.against.as_deref() {
        Some("redis") => Subject::Started(Server::start(Kind::Redis, settings)?),
        Some(address) => {
            let Ok(address) = address.parse();
            Subject::Named(address)
        }
        None => {
            if undercroft_binary().is_none() {
                bail!(
                    "found no undercroft binary that can serve; build crates/cli or use --against"
                );
            }
            Subject::Started(Server::start(Kind::Undercroft, settings)?)
        }
    })
}

fn run_random(options: &Options) -> Result<bool> {
    let random = &options.random;
    let mut families = FAMILIES.to_vec();
    if !random.families.is_empty() {
        families.retain(|family| random.families.iter().any(|name| name == family.name));
        if families.len() != random.families.len() {
            let known: Vec<_> = FAMILIES.iter().map(|f| f.name).collect();
            bail!(
                "expected families from {known:?}, got {:?}",
                random.families
            );
        }
    }
    let seed = random.seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
    println!("seed {seed}");
    let plan = Plan {
        commands: random.commands,
        seed,
        batch: random.batch as usize,
        families,
        rules: Rules {
            dump_bytes: random.dump_bytes,
            encodings: !random.any_encoding,
        },
    };
    let mut judge = Server::start(Kind::Redis, Settings::default())?;
    let mut subject = subject(options)?;
    let bar = ProgressBar::new(plan.commands as u64);
    bar.set_style(ProgressStyle::with_template(
        "{bar:40} {human_pos}/{human_len} commands, {per_sec}, {eta} left",
    )?);
    let outcome = differential::run(&mut judge, subject.peer(), &plan, |done| {
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    match outcome? {
        None => {
            println!("{} commands: all replies and all data equal", plan.commands);
            Ok(true)
        }
        Some(failure) => {
            println!("{failure}");
            Ok(false)
        }
    }
}
