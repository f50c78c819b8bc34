//! Tests encrypted connections.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use undercroft::{Cache as _, CacheOptions, Error, Pool, PooledCache, SetOptions};

use crate::support::redis::Redis;

/// Creates a CA and a certificate for 127.0.0.1. If `openssl` is not installed, prints why the test
/// is skipped.
fn certificates(directory: &Path) -> Option<()> {
    let extensions = directory.join("extensions");
    std::fs::write(extensions, "subjectAltName=IP:127.0.0.1\n").expect("it is written");
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for words in [
        format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"),
        format!("req -new {key} -keyout key.pem -out request.pem -subj /CN=server"),
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out certificate.pem -days 2 \
         -extfile extensions"
            .to_owned(),
    ] {
        let made = Command::new("openssl")
            .args(words.split_whitespace())
            .current_dir(directory)
            .stderr(Stdio::null())
            .status();
        match made {
            Ok(status) => assert!(status.success(), "openssl {words}: {status}"),
            Err(error) => {
                println!("skipped: TLS to a real Redis (openssl: {error})");
                return None;
            }
        }
    }
    Some(())
}

#[tokio::test]
async fn server_certificates_are_verified() {
    let directory = tempfile::tempdir().expect("a directory");
    if certificates(directory.path()).is_none() {
        return;
    }
    let file = |name: &str| directory.path().join(name).display().to_string();
    let arguments = [
        "--tls-cert-file",
        &file("certificate.pem"),
        "--tls-key-file",
        &file("key.pem"),
        "--tls-auth-clients",
        "no",
    ];
    let Some(redis) = Redis::start_with_tls(&arguments) else {
        return;
    };
    let url = |host: &str| format!("{}?ssl_ca_certs={}", redis.tls(host), file("ca.pem"));
    crate::contract::check_all(&url("127.0.0.1")).await;

    let pool = Pool::open(&url("127.0.0.1"), CacheOptions::new()).expect("a pool");
    let large = vec![b'x'; 3_000_000];
    pool.set_options("key", &large, SetOptions::new())
        .expect("set");
    assert!(pool.get("key").expect("get").expect("it exists") == large);

    // The first host name is not in the certificate, and the second URL's certificate comes from a
    // CA that is not trusted.
    for url in [url("localhost"), redis.tls("127.0.0.1")] {
        let cache = undercroft::cache(&url).expect("a cache");
        let error = cache.set_options(b"key", b"value", SetOptions::new()).await;
        let error = error.expect_err("it is another server");
        assert!(matches!(error, Error::Connect { .. }), "{error}");
    }
}

/// Starts a proxy that takes little data at a time from clients, so that their sockets are full.
/// Returns its port.
fn slow_proxy(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(("127.0.0.1", port)).expect("the server");
            let ends = (client.try_clone(), server.try_clone());
            let (mut from, mut to) = (server, client);
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            std::thread::spawn(move || {
                let (Ok(mut from), Ok(mut to)) = ends else {
                    return;
                };
                let mut room = [0; 512];
                while let Ok(count @ 1..) = from.read(&mut room) {
                    if to.write_all(&room[..count]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    own
}

#[tokio::test]
async fn large_values_reach_a_server_that_reads_slowly() {
    let directory = tempfile::tempdir().expect("a directory");
    if certificates(directory.path()).is_none() {
        return;
    }
    let file = |name: &str| directory.path().join(name).display().to_string();
    let arguments = [
        "--tls-cert-file",
        &file("certificate.pem"),
        "--tls-key-file",
        &file("key.pem"),
        "--tls-auth-clients",
        "no",
    ];
    let Some(redis) = Redis::start_with_tls(&arguments) else {
        return;
    };
    let port = redis.tls("").rsplit(':').next().map(str::parse);
    let port = slow_proxy(port.expect("a port").expect("a number"));
    let url = format!("rediss://127.0.0.1:{port}?ssl_ca_certs={}", file("ca.pem"));
    let options = CacheOptions::new().deadline(Duration::from_secs(30));
    let pooled = PooledCache::open(&url, options).expect("a cache");
    let shared = undercroft::cache_with(&url, options).expect("a cache");
    for size in [5_000_000, 5_000_001, 6_000_000] {
        let large = vec![b'x'; size];
        pooled.set(b"key", &large).await.expect("set");
        let found = pooled.get(b"key").await.expect("get");
        assert!(found.as_deref() == Some(&large[..]));
        shared.set(b"key", &large).await.expect("set");
        let mut batch = undercroft::pipe();
        batch
            .cmd("SET")
            .arg(("key", &large))
            .ignore()
            .cmd("STRLEN")
            .arg("key");
        let (length,): (usize,) = batch.query_async(&pooled).await.expect("replies");
        assert_eq!(length, size);
    }
}
