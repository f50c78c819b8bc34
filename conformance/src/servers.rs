//! Starts and stops servers: real ones of Redis and Valkey, and `undercroft serve`.
//!
//! Each server has a temporary directory and its own port on the loopback interface. Dropping the
//! server kills it through its process handle. If the thread that started the server ends without
//! dropping it, the kernel kills the server. Limits prevent a server from using up the machine's
//! memory, unless a test lifts them.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use tempfile::TempDir;

use crate::client::{Address, Client};

/// The time limit for a server to answer its first INFO.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The file name of the store in its server's directory.
const STORE: &str = "store";

/// The kind of server to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Debian's `redis-server`, or the program in `REDIS_SERVER`.
    Redis,
    /// Redis 8.2, which `scripts/setup/servers.sh` unpacks, or the program in `REDIS_8_SERVER`.
    Redis8,
    /// Valkey 9.1, which `scripts/setup/servers.sh` unpacks, or the program in `VALKEY_SERVER`.
    Valkey,
    /// `undercroft serve`; see [`undercroft_binary`].
    Undercroft,
}

impl Kind {
    /// Returns the program of a real server. For a server that `scripts/setup/servers.sh` unpacks,
    /// returns `None` if it is missing.
    pub fn program(self) -> Option<PathBuf> {
        let unpacked = |variable: &str, name: &str| {
            let named = std::env::var_os(variable).map(PathBuf::from);
            named.or_else(|| unpacked_file(name))
        };
        match self {
            Kind::Redis => {
                let named = std::env::var_os("REDIS_SERVER");
                Some(named.unwrap_or_else(|| "redis-server".into()).into())
            }
            Kind::Redis8 => unpacked("REDIS_8_SERVER", "redis-server-8"),
            Kind::Valkey => unpacked("VALKEY_SERVER", "valkey-server"),
            Kind::Undercroft => undercroft_binary(),
        }
    }
}

/// Returns a file that `scripts/setup/servers.sh` has unpacked, if it exists.
pub fn unpacked_file(name: &str) -> Option<PathBuf> {
    let test_program = std::env::current_exe().ok()?;
    let mut targets = test_program.ancestors().skip(1).take(4);
    targets.find_map(|target| {
        let path = target.join("servers").join(name);
        path.exists().then_some(path)
    })
}

/// Settings that both kinds support.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The maximum number of simultaneous connections.
    pub maxclients: u32,
    /// The password of the default user, or `None` for no password.
    pub password: Option<String>,
    /// The limit on the server's private memory in bytes, or `None` for no limit. The mapped store
    /// is not counted. Random scripts can build arbitrarily long strings, and Redis' `maxmemory`
    /// does not count the memory of a script.
    pub memory_max: Option<u64>,
    /// The store that `undercroft serve` serves, if not one in its own directory. Several servers can
    /// serve the same store.
    pub store: Option<PathBuf>,
    /// Further arguments of the program.
    pub arguments: Vec<String>,
    /// The names and contents of files to create in the server's directory before it starts.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Default for Settings {
    fn default() -> Self {
        // More than the torture test's 10,000 idle connections.
        Settings {
            maxclients: 12_000,
            password: None,
            // Several times the memory that the tests need.
            memory_max: Some(4 << 30),
            store: None,
            arguments: Vec::new(),
            files: Vec::new(),
        }
    }
}

/// A running server. Dropping it stops the server and removes its directory.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    settings: Settings,
    child: Child,
    address: Address,
    directory: TempDir,
}

/// A server that is restarted if it crashes.
pub trait Peer {
    /// Returns the address of the running server, restarting the server if it has died.
    ///
    /// # Errors
    /// Returns an error if the server cannot be started.
    fn address(&mut self) -> Result<Address>;

    /// Returns the server's last output, if known, such as the panic that terminated it.
    fn last_words(&self) -> Option<String> {
        None
    }
}

impl Peer for Address {
    fn address(&mut self) -> Result<Address> {
        Ok(self.clone())
    }
}

impl Peer for Server {
    fn address(&mut self) -> Result<Address> {
        if self.child.try_wait()?.is_some() {
            *self = Server::start(self.kind, self.settings.clone())?;
        }
        Ok(self.address.clone())
    }

    fn last_words(&self) -> Option<String> {
        Some(self.log()).filter(|log| !log.is_empty())
    }
}

impl Server {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// Returns an error if the program does not exist, exits early (the error contains the end of
    /// its log), or does not answer within 30 seconds.
    pub fn start(kind: Kind, settings: Settings) -> Result<Self> {
        // Retry, because another process can bind the free port in the meantime.
        let mut last = None;
        for _ in 0..3 {
            match Self::start_at(spare_port()?, kind, &settings) {
                Ok(server) => return Ok(server),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("no attempt was made")))
    }

    fn start_at(port: u16, kind: Kind, settings: &Settings) -> Result<Self> {
        raise_descriptor_limit();
        let directory = directory_for(kind)?;
        let mut process = match kind {
            Kind::Redis | Kind::Redis8 | Kind::Valkey => {
                redis_process(kind, directory.path(), port, settings)?
            }
            Kind::Undercroft => undercroft_process(directory.path(), port, settings)?,
        };
        process.args(&settings.arguments);
        for (name, content) in &settings.files {
            let path = directory.path().join(name);
            let folder = path.parent().context("a file in the directory")?;
            fs::create_dir_all(folder)?;
            fs::write(&path, content)?;
        }
        let out = File::create(directory.path().join("log"))?;
        let child = process
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| {
                format!(
                    "starting {:?} (apt-get install util-linux); for the real Redis: apt-get install redis-server",
                    process.get_program()
                )
            })?;
        bound_memory(&child, settings.memory_max)?;
        let mut server = Server {
            kind,
            settings: settings.clone(),
            child,
            address: Address::Tcp(format!("127.0.0.1:{port}")),
            directory,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "{:?} ended at once ({status}); its output:\n{}",
                    self.kind,
                    self.log()
                );
            }
            if let Ok(mut client) = Client::connect(&self.address) {
                // Check the process id: if another process bound the port first, its server answers
                // instead.
                match self.process_at(&mut client) {
                    Ok(Some(process)) if process == self.pid() => return Ok(()),
                    Ok(Some(process)) => bail!("process {process} already has the chosen port"),
                    _ => {}
                }
            }
            if start.elapsed() > START_LIMIT {
                bail!(
                    "{:?} did not report its process within 30 s; its output:\n{}",
                    self.kind,
                    self.log()
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the id of the process at the other end of a connection, if the server reports it.
    fn process_at(&self, client: &mut Client) -> Result<Option<u32>> {
        if let Some(password) = &self.settings.password {
            client.call(["AUTH", password.as_str()])?;
        }
        let reply = client.call(["INFO", "server"])?;
        let text = String::from_utf8_lossy(reply.bytes().unwrap_or_default());
        let process = text
            .lines()
            .find_map(|line| line.strip_prefix("process_id:"));
        Ok(process.and_then(|number| number.parse().ok()))
    }

    /// Returns the last 20 lines that the server printed.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the path of the store file, which a Redis server does not have.
    pub fn store(&self) -> PathBuf {
        let own = || self.directory.path().join(STORE);
        self.settings.store.clone().unwrap_or_else(own)
    }

    /// Returns the server's directory, in which a Redis server writes its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the server's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Kill the server without a shutdown, because its data is not needed. Use the process
        // handle, never the process name.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates a directory for the log and the store. For undercroft it is in shared memory, as a store
/// requires.
fn directory_for(kind: Kind) -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder
        .prefix("conform-")
        .permissions(Permissions::from_mode(0o700));
    let shared = Path::new("/dev/shm");
    Ok(match kind {
        Kind::Undercroft if shared.is_dir() => builder.tempdir_in(shared)?,
        _ => builder.tempdir()?,
    })
}

/// Returns a process that the kernel kills when the thread that starts it ends, so that a killed
/// run leaves no server running.
fn mortal(program: impl AsRef<OsStr>) -> Process {
    let mut process = Process::new("setpriv");
    process.args(["--pdeathsig", "KILL", "--"]).arg(program);
    process
}

fn bound_memory(child: &Child, memory_max: Option<u64>) -> Result<()> {
    let limit = Rlimit {
        current: memory_max,
        maximum: memory_max,
    };
    prlimit(Some(Pid::from_child(child)), Resource::Data, limit).context("bounding its memory")?;
    Ok(())
}

fn redis_process(kind: Kind, directory: &Path, port: u16, settings: &Settings) -> Result<Process> {
    let program = kind.program();
    let program = program.context("the server is missing; type: scripts/setup/servers.sh")?;
    let mut process = mortal(program);
    process
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--databases", "16"])
        .args(["--maxclients", &settings.maxclients.to_string()])
        .args(["--enable-debug-command", "yes"])
        // Set the limit that undercroft always has. Redis does not limit replies by default.
        .args([
            "--client-output-buffer-limit",
            "normal 67108864 33554432 10",
        ])
        .arg("--dir")
        .arg(directory);
    if let Some(password) = &settings.password {
        process.args(["--requirepass", password]);
    }
    Ok(process)
}

fn undercroft_process(directory: &Path, port: u16, settings: &Settings) -> Result<Process> {
    let binary = undercroft_binary().context("the undercroft binary has not been built")?;
    let config = directory.join("undercroft.conf");
    fs::write(&config, "enable-debug-command yes\n")?;
    let mut process = mortal(binary);
    process
        .arg("serve")
        .arg("--store")
        .arg(settings.store.clone().unwrap_or(directory.join(STORE)))
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--maxclients", &settings.maxclients.to_string()])
        .arg("--config")
        .arg(&config)
        // Exclude the user's configuration from the tests.
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("RUST_BACKTRACE", "1")
        .current_dir(directory);
    if let Some(password) = &settings.password {
        process.args(["--requirepass", password]);
    }
    Ok(process)
}

/// Returns the `undercroft` program under test. This is `UNDERCROFT_BIN` if set, otherwise the
/// newer of `release/undercroft` and `debug/undercroft` in this build's target directory that
/// supports `serve`. Returns `None` if neither exists.
pub fn undercroft_binary() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("UNDERCROFT_BIN") {
        // Make the path absolute, because the server starts in another directory.
        return std::path::absolute(named).ok();
    }
    let test_program = std::env::current_exe().ok()?;
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = Vec::new();
    // Search the ancestors, because tests run from target/debug/deps and `conform` from
    // target/debug.
    for target in test_program.ancestors().skip(1).take(4) {
        for profile in ["release", "debug"] {
            let path = target.join(profile).join("undercroft");
            if let Ok(changed) = path.metadata().and_then(|m| m.modified()) {
                found.push((changed, path));
            }
        }
    }
    found.sort();
    let (_, newest) = found.pop()?;
    let help = Process::new(&newest)
        .args(["serve", "--help"])
        .output()
        .ok()?;
    let knows_serve = help.status.success() && !help.stdout.is_empty();
    knows_serve.then_some(newest)
}

/// Starts `undercroft serve`, or prints the reason for skipping the test and returns `None`.
///
/// # Errors
/// Returns an error if the binary exists but does not start. If `UNDERCROFT_REQUIRED` is set, as by
/// `make test`, a missing binary is an error.
pub fn start_undercroft(settings: Settings) -> Result<Option<Server>> {
    if undercroft_binary().is_none() {
        if std::env::var_os("UNDERCROFT_REQUIRED").is_some() {
            bail!("UNDERCROFT_REQUIRED is set, but no undercroft binary was found");
        }
        println!(
            "skipped: our server (found no undercroft binary that can serve; build crates/cli)"
        );
        return Ok(None);
    }
    Server::start(Kind::Undercroft, settings).map(Some)
}

/// Starts two servers of one store. Returns `None` as [`start_undercroft`] does.
///
/// # Errors
/// Returns the errors of [`start_undercroft`].
pub fn start_two() -> Result<Option<(Server, Server)>> {
    let Some(one) = start_undercroft(Settings::default())? else {
        return Ok(None);
    };
    let settings = Settings {
        store: Some(one.store()),
        ..Settings::default()
    };
    Ok(start_undercroft(settings)?.map(|two| (one, two)))
}

fn spare_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Raises the soft limit on open descriptors to the hard limit, and returns it. Servers started
/// later inherit the limit.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If the system refuses, the old limit remains in effect and is returned.
    let _ = setrlimit(Resource::Nofile, wanted);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns a process's private memory in bytes, which includes its allocations but not the mapped
/// store. Returns `None` if the system does not report it.
pub fn private_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|l| l.starts_with("RssAnon:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_server_whose_port_is_taken_has_not_started() {
        let first = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
        let Address::Tcp(address) = first.address() else {
            panic!("{} is no port", first.address());
        };
        let port = TcpStream::connect(address)
            .and_then(|stream| stream.peer_addr())
            .expect("it listens")
            .port();
        let second = Server::start_at(port, Kind::Redis, &Settings::default());
        assert!(second.is_err(), "it chose {} itself", first.pid());
    }
}
