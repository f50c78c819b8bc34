//! Tests `undercroft serve` with TLS: redis-cli and rustls as clients, certificates that clients present,
//! certificates that are replaced, and peers that do not encrypt, stop midway or lie.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Output, Stdio};
use std::time::{Duration, Instant};

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::replication::{PATIENCE, field, host_and_port, spare_port, text};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{
    Kind, Server, Settings, start_undercroft, undercroft_binary,
};

/// The arguments with which openssl makes a new key, and a request or a certificate for it.
const NEW_KEY: &[&str] = &[
    "req",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
];

/// A private authority, and certificates that it has issued.
struct Authority {
    directory: tempfile::TempDir,
}

impl Authority {
    fn new() -> Authority {
        let authority = Authority {
            directory: tempfile::tempdir().expect("a directory"),
        };
        authority.openssl(
            &[
                NEW_KEY,
                &[
                    "-x509",
                    "-keyout",
                    "ca.key",
                    "-out",
                    "ca.pem",
                    "-days",
                    "2",
                    "-subj",
                    "/CN=authority",
                ],
            ]
            .concat(),
        );
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("ASCII").to_owned()
    }

    fn openssl(&self, arguments: &[&str]) {
        let output = Process::new("openssl")
            .args(arguments)
            .current_dir(self.directory.path())
            .output()
            .expect("openssl is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
    }

    /// Issues a certificate `NAME.pem` with the key `NAME.key`, which is valid for some days.
    fn issue(&self, name: &str, days: &str) {
        let (key, request, certificate) = (
            format!("{name}.key"),
            format!("{name}.csr"),
            format!("{name}.pem"),
        );
        let extensions = format!("subjectAltName=DNS:localhost,IP:127.0.0.1,URI:urn:user:{name}");
        std::fs::write(self.path("extensions"), extensions).expect("space");
        let subject = format!("/CN={name}");
        self.openssl(
            &[
                NEW_KEY,
                &["-keyout", &key, "-out", &request, "-subj", &subject],
            ]
            .concat(),
        );
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-out",
            &certificate,
            "-days",
            days,
            "-extfile",
            "extensions",
        ]);
    }
}

/// A server with a port for TLS.
struct Encrypted {
    server: Server,
    authority: Authority,
    port: u16,
}

impl Encrypted {
    fn start(lines: &str) -> Option<Encrypted> {
        let authority = Authority::new();
        authority.issue("server", "300");
        authority.issue("client", "300");
        let port = spare_port();
        let [certificate, key, ca] =
            ["server.pem", "server.key", "ca.pem"].map(|name| authority.text(name));
        let config = format!(
            "tls-port {port}\ntls-cert-file {certificate}\ntls-key-file {key}\n\
             tls-ca-cert-file {ca}\n{lines}"
        );
        let settings = Settings {
            files: vec![("undercroft.conf".into(), config.into_bytes())],
            // The address space of a replica's data set is as large as the store's.
            memory_max: None,
            ..Settings::default()
        };
        let server = start_undercroft(settings).expect("undercroft starts")?;
        Some(Encrypted {
            server,
            authority,
            port,
        })
    }

    fn plain(&self) -> Client {
        Client::connect(self.server.address()).expect("it accepts")
    }

    /// Runs redis-cli with TLS.
    fn cli(&self, options: &[&str], command: &[&str]) -> Output {
        let ca = self.authority.text("ca.pem");
        Process::new("redis-cli")
            .args([
                "--tls",
                "-h",
                "localhost",
                "-p",
                &self.port.to_string(),
                "--cacert",
                &ca,
            ])
            .args(options)
            .args(command)
            .stdin(Stdio::null())
            .output()
            .expect("redis-cli runs")
    }

    fn own_certificate(&self) -> [String; 4] {
        let [certificate, key] = ["client.pem", "client.key"].map(|name| self.authority.text(name));
        ["--cert".into(), certificate, "--key".into(), key]
    }

    /// Returns the output of redis-cli without a certificate of its own.
    fn ask(&self, command: &[&str]) -> String {
        let output = self.cli(&[], command);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Starts `openssl s_client`, which stays connected.
    fn stay(&self) -> Staying {
        let mut child = Process::new("openssl")
            .args([
                "s_client",
                "-quiet",
                "-connect",
                &format!("localhost:{}", self.port),
            ])
            .args(["-CAfile", &self.authority.text("ca.pem")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Staying {
            child,
            input: input.expect("a pipe"),
            output: output.expect("a pipe"),
        }
    }
}

/// Waits until a condition holds.
fn until(server: &Encrypted, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{}", server.server.log());
        std::thread::yield_now();
    }
}

/// A client that stays connected. It is killed on drop.
struct Staying {
    child: std::process::Child,
    input: std::process::ChildStdin,
    output: std::process::ChildStdout,
}

impl Staying {
    fn ping(&mut self) {
        self.input.write_all(b"PING\r\n").expect("it lives");
        let mut reply = [0; 7];
        self.output.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"+PONG\r\n");
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn redis_cli_reads_and_writes_values_of_every_size() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    assert_eq!(server.ask(&["PING"]), "PONG");
    let directory = server.authority.directory.path();
    for size in [0, 1, 4095, 4096, 16_384, 70_000, 3_000_000] {
        let value: Vec<u8> = (0..size).map(|at| b'a' + (at % 23) as u8).collect();
        let file = directory.join("value");
        std::fs::write(&file, &value).expect("space");
        let ca = server.authority.text("ca.pem");
        let set = Process::new("redis-cli")
            .args([
                "--tls",
                "-h",
                "localhost",
                "-p",
                &server.port.to_string(),
                "--cacert",
                &ca,
            ])
            .args(["-x", "SET", "key"])
            .stdin(std::fs::File::open(&file).expect("the file"))
            .output()
            .expect("redis-cli runs");
        assert_eq!(set.stdout, b"OK\n", "{set:?}");
        let got = server.cli(&[], &["GET", "key"]).stdout;
        assert!(got.strip_suffix(b"\n") == Some(&value), "{size} bytes");
        // The other port has the same value.
        let plain = server.plain().call(["GET", "key"]).expect("a reply");
        assert!(plain == Reply::Bulk(value), "{size} bytes");
    }
    // Messages and blocked commands arrive without a request.
    let mut staying = server.stay();
    staying.ping();
    staying
        .input
        .write_all(b"BLPOP list 0\r\n")
        .expect("it lives");
    let mut plain = server.plain();
    until(&server, || {
        field(&mut plain, "clients", "blocked_clients") == "1"
    });
    plain.call(["RPUSH", "list", "item"]).expect("a reply");
    let mut reply = [0; 24];
    staying.output.read_exact(&mut reply).expect("a reply");
    assert_eq!(&reply, b"*2\r\n$4\r\nlist\r\n$4\r\nitem\r\n");
}

#[test]
fn clients_need_a_certificate_as_configured() {
    for (auth, without, with_own) in [
        ("yes", false, true),
        ("optional", true, true),
        ("no", true, true),
    ] {
        let Some(server) = Encrypted::start(&format!("tls-auth-clients {auth}\n")) else {
            return;
        };
        assert_eq!(server.ask(&["PING"]) == "PONG", without, "{auth}");
        let own = server.own_certificate();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let output = server.cli(&own, &["PING"]);
        assert_eq!(output.stdout == b"PONG\n", with_own, "{auth}: {output:?}");
        // A certificate of another authority is refused, also if none is needed.
        let other = Authority::new();
        other.issue("client", "300");
        let (certificate, key) = (other.text("client.pem"), other.text("client.key"));
        let output = server.cli(&["--cert", &certificate, "--key", &key], &["PING"]);
        assert_eq!(
            output.stdout == b"PONG\n",
            auth == "no",
            "{auth}: {output:?}"
        );
    }
}

#[test]
fn certificate_names_the_user() {
    let Some(server) = Encrypted::start(
        "tls-auth-clients optional\ntls-auth-clients-user CN\n\
         user client on ~a:* +get +acl|whoami\n\
         user urn:user:second on ~* +acl|whoami\n\
         user disabled off nopass ~* +@all\n",
    ) else {
        return;
    };
    let mut plain = server.plain();
    let changed = plain.call(["ACL", "SETUSER", "default", "resetpass", ">password"]);
    assert_eq!(changed.expect("a reply"), Reply::Simple(b"OK".to_vec()));
    for name in ["second", "disabled"] {
        server.authority.issue(name, "300");
    }
    let ask = |name: &str, command: &[&str]| {
        let [certificate, key] =
            ["pem", "key"].map(|kind| server.authority.text(&format!("{name}.{kind}")));
        let output = server.cli(&["--cert", &certificate, "--key", &key], command);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let refusals = |plain: &mut Client| field(plain, "stats", "acl_access_denied_tls_cert");
    assert_eq!(ask("client", &["ACL", "WHOAMI"]), "client");
    assert_eq!(ask("client", &["GET", "a:1"]), "");
    assert!(ask("client", &["GET", "b:1"]).starts_with("NOPERM"));
    assert_eq!(refusals(&mut plain), "0");
    // Without a user of that name, a client must log in as without a certificate.
    for name in ["second", "disabled"] {
        assert!(
            ask(name, &["ACL", "WHOAMI"]).starts_with("NOAUTH"),
            "{name}"
        );
    }
    assert!(server.ask(&["ACL", "WHOAMI"]).starts_with("NOAUTH"));
    assert_eq!(refusals(&mut plain), "2");
    let entries = text(&plain.call(["ACL", "LOG"]).expect("a reply"));
    assert!(
        entries.contains("reason tls-cert context toplevel object disabled"),
        "{entries}"
    );
    plain
        .call(["CONFIG", "SET", "tls-auth-clients-user", "URI"])
        .expect("a reply");
    assert_eq!(ask("second", &["ACL", "WHOAMI"]), "urn:user:second");
    assert!(ask("client", &["ACL", "WHOAMI"]).starts_with("NOAUTH"));
    plain
        .call(["CONFIG", "SET", "tls-auth-clients-user", "off"])
        .expect("a reply");
    assert!(ask("second", &["ACL", "WHOAMI"]).starts_with("NOAUTH"));
}

#[test]
fn replaced_certificate_is_presented_to_new_connections_only() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let mut plain = server.plain();
    let left = |plain: &mut Client| -> i64 {
        let text = field(plain, "server", "tls_certificate_expires_in_seconds");
        text.parse().expect("a number")
    };
    let days = |seconds: i64| (seconds + 43_200) / 86_400;
    assert_eq!(days(left(&mut plain)), 300);
    let mut staying = server.stay();
    staying.ping();
    server.authority.issue("next", "20");
    let [certificate, key] = ["next.pem", "next.key"].map(|name| server.authority.text(name));
    // A certificate without its key changes nothing.
    let wrong = plain.call(["CONFIG", "SET", "tls-cert-file", &certificate]);
    assert!(matches!(wrong, Ok(Reply::Error(_))), "{wrong:?}");
    assert_eq!(days(left(&mut plain)), 300);
    let set = [
        "CONFIG",
        "SET",
        "tls-cert-file",
        &certificate,
        "tls-key-file",
        &key,
    ];
    assert_eq!(
        plain.call(set).expect("a reply"),
        Reply::Simple(b"OK".to_vec())
    );
    assert_eq!(days(left(&mut plain)), 20);
    assert!(
        server
            .server
            .log()
            .contains("the certificate of tls-cert-file expires in"),
        "{}",
        server.server.log()
    );
    assert_eq!(server.ask(&["PING"]), "PONG");
    staying.ping();
    // SIGHUP reads the same files again.
    server.authority.issue("next", "40");
    let pid = rustix::process::Pid::from_raw(server.server.pid() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it lives");
    until(&server, || days(left(&mut plain)) == 40);
    assert_eq!(server.ask(&["PING"]), "PONG");
    staying.ping();
}

#[test]
fn peers_of_the_wrong_kind_are_told_what_is_wrong() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let mut plain = Client::connect(&Address::Tcp(format!("127.0.0.1:{}", server.port)));
    let reply = plain.as_mut().expect("it accepts").call(["PING"]);
    let Ok(Reply::Error(text)) = reply else {
        panic!("{reply:?}");
    };
    assert!(String::from_utf8_lossy(&text).contains("expects TLS"));
    let (_, port) = host_and_port(server.server.address());
    let output = Process::new("redis-cli")
        .args(["--tls", "--insecure", "-p", port, "PING"])
        .output()
        .expect("redis-cli runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("version"), "{output:?}");
    assert!(
        server.server.log().contains("does not encrypt"),
        "{}",
        server.server.log()
    );
    assert_eq!(server.ask(&["PING"]), "PONG");
}

#[test]
fn unfinished_and_damaged_handshakes_end_without_harm() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let address = format!("127.0.0.1:{}", server.port);
    let seed = undercroft_conformance::seed::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let hello = hello(&server.authority.path("ca.pem"));
    let mut open = Vec::new();
    for _ in 0..300 {
        let mut bytes = hello.clone();
        if random.bool() {
            let at = random.usize(..bytes.len());
            bytes[at] ^= 1 << random.u32(..8);
        }
        bytes.truncate(random.usize(..=bytes.len()));
        let mut socket = TcpStream::connect(&address).expect("it accepts");
        // The server may have closed the connection.
        let _ = socket.write_all(&bytes);
        open.push(socket);
    }
    // The server continues to serve other clients.
    assert_eq!(server.ask(&["PING"]), "PONG");
    let mut plain = server.plain();
    // The server closes all of these connections, after a time also silent ones.
    until(&server, || {
        field(&mut plain, "clients", "connected_clients") == "1"
    });
    drop(open);
    assert_eq!(server.ask(&["PING"]), "PONG");
}

/// Returns the first message of a TLS client.
fn hello(ca: &Path) -> Vec<u8> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut child = Process::new("openssl")
        .args(["s_client", "-connect", &address.to_string(), "-CAfile"])
        .arg(ca)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let (mut socket, _) = listener.accept().expect("it connects");
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a socket");
    let mut header = [0; 5];
    socket.read_exact(&mut header).expect("a record");
    let mut bytes = header.to_vec();
    bytes.resize(
        5 + usize::from(u16::from_be_bytes([header[3], header[4]])),
        0,
    );
    socket.read_exact(&mut bytes[5..]).expect("a record");
    let _ = child.kill();
    let _ = child.wait();
    bytes
}

#[test]
fn settings_that_cannot_work_are_refused_at_the_start() {
    let authority = Authority::new();
    authority.issue("server", "300");
    let [certificate, key] = ["server.pem", "server.key"].map(|name| authority.text(name));
    for (lines, expected) in [
        (String::new(), "tls-cert-file must name a file"),
        (
            format!("tls-cert-file {certificate}\n"),
            "tls-key-file must name a file",
        ),
        (
            format!("tls-cert-file {certificate}\ntls-key-file {key}\n"),
            "tls-auth-clients needs tls-ca-cert-file",
        ),
        (
            format!(
                "tls-cert-file {certificate}\ntls-key-file {key}\ntls-auth-clients no\ntls-protocols SSLv3\n"
            ),
            "expected TLSv1.2 or TLSv1.3, found SSLv3",
        ),
        (
            format!(
                "tls-cert-file {certificate}\ntls-key-file {key}\ntls-auth-clients no\ntls-ciphers RC4\n"
            ),
            "found RC4",
        ),
        (
            format!("tls-cert-file {key}\ntls-key-file {key}\n"),
            "contains no certificate in PEM form",
        ),
    ] {
        let config = format!("tls-port {}\n{lines}", spare_port());
        let settings = Settings {
            files: vec![("undercroft.conf".into(), config.into_bytes())],
            ..Settings::default()
        };
        match start_undercroft(settings) {
            Ok(None) => return,
            Ok(Some(_)) => panic!("{lines} was accepted"),
            Err(error) => assert!(
                format!("{error:#}").contains(expected),
                "{lines}: {error:#}"
            ),
        }
    }
}

#[test]
fn key_with_a_password_is_decrypted() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    server.authority.openssl(&[
        "pkcs8",
        "-topk8",
        "-in",
        "server.key",
        "-out",
        "locked.key",
        "-passout",
        "pass:secret",
    ]);
    let locked = server.authority.text("locked.key");
    let mut plain = server.plain();
    let wrong = plain.call([
        "CONFIG",
        "SET",
        "tls-key-file",
        &locked,
        "tls-key-file-pass",
        "no",
    ]);
    let Ok(Reply::Error(text)) = wrong else {
        panic!("{wrong:?}");
    };
    assert!(String::from_utf8_lossy(&text).contains("does not decrypt"));
    let set = [
        "CONFIG",
        "SET",
        "tls-key-file",
        &locked,
        "tls-key-file-pass",
        "secret",
    ];
    assert_eq!(
        plain.call(set).expect("a reply"),
        Reply::Simple(b"OK".to_vec())
    );
    assert_eq!(server.ask(&["PING"]), "PONG");
}

#[test]
fn certificates_of_tls_init_encrypt_and_identify() {
    let Some(program) = undercroft_binary() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let folder = directory.path().join("certificates");
    let init = || {
        let mut command = Process::new(&program);
        command.args(["tls", "init"]).arg(&folder);
        let output = command.args(["--host", "cache.example.com"]).output();
        output.expect("undercroft runs")
    };
    let made = init();
    assert!(made.status.success(), "{made:?}");
    for name in ["ca", "server", "client"] {
        let key = folder.join(format!("{name}.key"));
        let mode = std::fs::metadata(&key).expect("a file").permissions();
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
            0o600
        );
    }
    let before = std::fs::read(folder.join("ca.pem")).expect("a file");
    let again = init();
    let errors = String::from_utf8_lossy(&again.stderr);
    assert!(
        !again.status.success() && errors.contains("is not replaced"),
        "{errors}"
    );
    assert_eq!(
        std::fs::read(folder.join("ca.pem")).expect("a file"),
        before
    );
    let text = |name: &str| folder.join(name).to_str().expect("ASCII").to_owned();
    let port = spare_port();
    let config = format!(
        "tls-port {port}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\n",
        text("server.pem"),
        text("server.key"),
        text("ca.pem")
    );
    let settings = Settings {
        files: vec![("undercroft.conf".into(), config.into_bytes())],
        ..Settings::default()
    };
    let _server = start_undercroft(settings).expect("undercroft starts");
    for (host, with_own, works) in [
        ("localhost", true, true),
        ("127.0.0.1", true, true),
        ("localhost", false, false),
    ] {
        let mut cli = Process::new("redis-cli");
        cli.args(["--tls", "-h", host, "-p", &port.to_string()]);
        cli.args(["--cacert", &text("ca.pem")]);
        if with_own {
            cli.args(["--cert", &text("client.pem"), "--key", &text("client.key")]);
        }
        let output = cli.arg("PING").output().expect("redis-cli runs");
        assert_eq!(output.stdout == b"PONG\n", works, "{host}: {output:?}");
    }
    // OpenSSL judges the chain and the name.
    let verified = Process::new("openssl")
        .args(["verify", "-verify_hostname", "cache.example.com", "-CAfile"])
        .args([text("ca.pem"), text("server.pem")])
        .output()
        .expect("openssl is installed");
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn real_replica_receives_changes_over_tls() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let mut plain = server.plain();
    plain.call(["SET", "before", "1"]).expect("a reply");
    let [ca, certificate, key] =
        ["ca.pem", "client.pem", "client.key"].map(|name| server.authority.text(name));
    let port = server.port.to_string();
    let arguments = [
        ["--tls-ca-cert-file", &ca],
        ["--tls-cert-file", &certificate],
        ["--tls-key-file", &key],
        ["--tls-replication", "yes"],
    ];
    let arguments = [
        &arguments.concat()[..],
        &["--replicaof", "localhost", &port],
    ]
    .concat();
    let settings = Settings {
        arguments: arguments.into_iter().map(str::to_owned).collect(),
        ..Settings::default()
    };
    let replica = Server::start(Kind::Redis, settings).expect("redis-server starts");
    let mut there = Client::connect(replica.address()).expect("it accepts");
    until(&server, || {
        field(&mut there, "replication", "master_link_status") == "up"
    });
    plain.call(["SET", "after", "2"]).expect("a reply");
    let waited = plain.call(["WAIT", "1", "60000"]).expect("a reply");
    assert_eq!(waited, Reply::Integer(1), "{}", replica.log());
    for (key, value) in [("before", "1"), ("after", "2")] {
        let got = there.call(["GET", key]).expect("a reply");
        assert_eq!(got, Reply::Bulk(value.into()), "{key}");
    }
}

#[test]
fn certificate_that_is_a_device_is_refused() {
    let Some(server) = Encrypted::start("tls-auth-clients no\n") else {
        return;
    };
    let pipe = server.authority.text("pipe");
    let made = Process::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is installed").success());
    let mut plain = server.plain();
    for path in ["/dev/zero", &pipe] {
        let refused = plain.call(["CONFIG", "SET", "tls-cert-file", path]);
        let Ok(Reply::Error(text)) = refused else {
            panic!("{path}: {refused:?}");
        };
        assert!(String::from_utf8_lossy(&text).contains("expected a regular file"));
    }
    assert_eq!(server.ask(&["PING"]), "PONG");
}
