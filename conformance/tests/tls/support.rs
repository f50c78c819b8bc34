//! A private authority, and a server with a port for TLS.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command as Process, Output, Stdio};
use std::time::Instant;

use undercroft_conformance::client::Client;
use undercroft_conformance::replication::{PATIENCE, spare_port};
use undercroft_conformance::servers::{Server, Settings, start_undercroft};

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
pub(crate) struct Authority {
    directory: tempfile::TempDir,
}

impl Authority {
    pub(crate) fn new() -> Authority {
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

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("ASCII").to_owned()
    }

    pub(crate) fn openssl(&self, arguments: &[&str]) {
        let output = Process::new("openssl")
            .args(arguments)
            .current_dir(self.directory.path())
            .output()
            .expect("openssl is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
    }

    /// Issues a certificate `NAME.pem` with the key `NAME.key`, which is valid for some days.
    pub(crate) fn issue(&self, name: &str, days: &str) {
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
pub(crate) struct Encrypted {
    pub(crate) server: Server,
    pub(crate) authority: Authority,
    pub(crate) port: u16,
}

impl Encrypted {
    pub(crate) fn start(lines: &str) -> Option<Encrypted> {
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

    pub(crate) fn plain(&self) -> Client {
        Client::connect(self.server.address()).expect("it accepts")
    }

    /// Runs redis-cli with TLS.
    pub(crate) fn cli(&self, options: &[&str], command: &[&str]) -> Output {
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

    pub(crate) fn own_certificate(&self) -> [String; 4] {
        let [certificate, key] = ["client.pem", "client.key"].map(|name| self.authority.text(name));
        ["--cert".into(), certificate, "--key".into(), key]
    }

    /// Returns the output of redis-cli without a certificate of its own.
    pub(crate) fn ask(&self, command: &[&str]) -> String {
        let output = self.cli(&[], command);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Starts `openssl s_client`, which stays connected.
    pub(crate) fn stay(&self) -> Staying {
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
pub(crate) fn until(server: &Encrypted, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{}", server.server.log());
        std::thread::yield_now();
    }
}

/// A client that stays connected. It is killed on drop.
pub(crate) struct Staying {
    child: std::process::Child,
    pub(crate) input: std::process::ChildStdin,
    pub(crate) output: std::process::ChildStdout,
}

impl Staying {
    pub(crate) fn ping(&mut self) {
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
