//! Tests encrypted connections.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures_util::future::join_all;
use tempfile::TempDir;
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

/// Starts a Redis server with a certificate from the CA in the returned directory.
fn start() -> Option<(TempDir, Redis)> {
    let directory = tempfile::tempdir().expect("a directory");
    certificates(directory.path())?;
    let file = |name: &str| directory.path().join(name).display().to_string();
    let redis = Redis::start_with_tls(&[
        "--tls-cert-file",
        &file("certificate.pem"),
        "--tls-key-file",
        &file("key.pem"),
        "--tls-auth-clients",
        "no",
    ])?;
    Some((directory, redis))
}

#[tokio::test]
async fn server_certificates_are_verified() {
    let Some((directory, redis)) = start() else {
        return;
    };
    let authority = directory.path().join("ca.pem").display().to_string();
    let url = |host: &str| format!("{}?ssl_ca_certs={}", redis.tls(host), authority);
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

/// The runtime lets a task make a limited number of operations in a turn. A socket then accepts no more
/// bytes, although it has room, and encrypted bytes wait until the socket is flushed.
#[tokio::test]
async fn many_calls_of_one_task_are_sent_completely() {
    let Some((directory, redis)) = start() else {
        return;
    };
    let authority = directory.path().join("ca.pem").display().to_string();
    let url = format!("{}?ssl_ca_certs={}", redis.tls("127.0.0.1"), authority);
    let options = CacheOptions::new()
        .connections(200)
        .deadline(Duration::from_secs(30));
    let cache = PooledCache::open(&url, options).expect("a cache");
    for _ in 0..10 {
        let calls = (0..200).map(|number: u32| {
            let cache = &cache;
            async move {
                let key = number.to_le_bytes();
                cache.set(&key, &key).await.expect("set");
                cache.get(&key).await.expect("get")
            }
        });
        for (number, found) in (0_u32..).zip(join_all(calls).await) {
            assert_eq!(found.as_deref(), Some(&number.to_le_bytes()[..]));
        }
    }
}
