//! Builds the commands that implement the methods of the cache trait.

use std::time::Duration;

use undercroft_engine::leases::{LEASE_SCRIPT, lease_key};

use crate::error::{Error, Result};
use crate::set_options::{Deadline, SetOptions};

/// Commands that change the state of their connection. On a shared connection, these commands would
/// affect other callers.
const OF_CONNECTIONS: &[&str] = &[
    "ASKING",
    "AUTH",
    "DISCARD",
    "EXEC",
    "HELLO",
    "MONITOR",
    "MULTI",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "QUIT",
    "READONLY",
    "READWRITE",
    "RESET",
    "SELECT",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SYNC",
    "UNSUBSCRIBE",
    "UNWATCH",
    "WATCH",
];

/// Subcommands of CLIENT that change the state of their connection.
const OF_CLIENT: &[&str] = &["CACHING", "REPLY", "TRACKING"];

/// Returns the words of a command, or an error if the command must not run on a shared connection.
pub(crate) fn shared<'a>(words: &[&'a [u8]]) -> Result<Vec<&'a [u8]>> {
    let words = words.to_vec();
    let Some(name) = words.first() else {
        return Err(Error::argument("expected the name of a command, got none"));
    };
    let is = |word: &[u8], others: &[&str]| {
        let mut others = others.iter().map(|other| other.as_bytes());
        others.any(|other| word.eq_ignore_ascii_case(other))
    };
    let of_client =
        || is(name, &["CLIENT"]) && words.get(1).is_some_and(|word| is(word, OF_CLIENT));
    if is(name, OF_CONNECTIONS) || of_client() {
        return Err(Error::argument(format!(
            "{} cannot run on a shared connection; use a separate connection",
            String::from_utf8_lossy(name)
        )));
    }
    Ok(words)
}

/// Returns the words of a command that has a list of arguments.
pub(crate) fn with<'a>(name: &'a [u8], arguments: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut words = Vec::with_capacity(1 + arguments.len());
    words.push(name);
    words.extend(arguments);
    words
}

/// Converts the reply of PTTL, which is negative if the key is missing or does not expire.
pub(crate) fn remaining(milliseconds: i64) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// The words of a SET command.
pub(crate) struct SetWords<'a> {
    words: [&'a [u8]; 3],
    digits: itoa::Buffer,
    /// The keyword for the expiry, and its number if it has one.
    expiry: Option<(&'static [u8], Option<u64>)>,
    condition: Option<&'static [u8]>,
    /// Whether the reply is the previous value.
    gets_old: bool,
}

impl<'a> SetWords<'a> {
    pub(crate) fn new(key: &'a [u8], value: &'a [u8], options: SetOptions) -> Result<Self> {
        Ok(SetWords {
            words: [b"SET", key, value],
            digits: itoa::Buffer::new(),
            expiry: match options.deadline()? {
                Deadline::Never => None,
                Deadline::Keep => Some((b"KEEPTTL", None)),
                Deadline::After(after) => Some((b"PX", Some(after))),
                Deadline::At(at) => Some((b"PXAT", Some(at))),
            },
            condition: options.word(),
            gets_old: false,
        })
    }

    /// Returns the words of a SET whose reply is the previous value.
    pub(crate) fn getting_old(self) -> Self {
        SetWords {
            gets_old: true,
            ..self
        }
    }

    /// Returns a copy of the words for a task that outlives the call.
    #[cfg(feature = "async")]
    pub(crate) fn into_owned(mut self) -> Vec<Vec<u8>> {
        let (words, count) = self.words();
        words[..count].iter().map(|word| word.to_vec()).collect()
    }

    /// Returns the command's words and their count.
    pub(crate) fn words(&mut self) -> ([&[u8]; 7], usize) {
        let [set, key, value] = self.words;
        let mut words: [&[u8]; 7] = [set, key, value, b"", b"", b"", b""];
        let mut count = 3;
        if let Some((word, number)) = self.expiry {
            words[count] = word;
            count += 1;
            if let Some(number) = number {
                words[count] = self.digits.format(number).as_bytes();
                count += 1;
            }
        }
        if let Some(condition) = self.condition {
            words[count] = condition;
            count += 1;
        }
        if self.gets_old {
            words[count] = b"GET";
            count += 1;
        }
        (words, count)
    }
}

/// The words of a command, owned by a task that outlives its call.
pub(crate) type Words = Vec<Vec<u8>>;

/// Returns a random token that is unique to a lease and stored as the lease's value.
pub(crate) fn token() -> Vec<u8> {
    format!("{:032x}", fastrand::u128(..)).into_bytes()
}

/// Returns the command that stores the value of a leased key. `time` is the expiry in milliseconds,
/// or 0 for none.
pub(crate) fn set_leased(key: &[u8], token: &[u8], value: &[u8], time: &[u8]) -> Words {
    let mut words = release(key, token);
    words.extend([value.to_vec(), time.to_vec()]);
    words
}

/// Returns the command that releases a lease.
pub(crate) fn release(key: &[u8], token: &[u8]) -> Words {
    let words: [&[u8]; 4] = [b"EVAL", LEASE_SCRIPT.as_bytes(), b"2", key];
    let mut words: Words = words.map(<[u8]>::to_vec).into();
    words.extend([lease_key(key), token.to_vec()]);
    words
}

/// The return type of the trait's `get`.
#[cfg(feature = "async")]
pub(crate) type Getting<'a> =
    std::pin::Pin<Box<dyn Future<Output = Result<Option<Vec<u8>>>> + Send + 'a>>;

/// Implements the cache trait for the type of a cache on a server, which must have the methods
/// `call`, `fetch`, `errands`, `receive`, `server` and `end`.
#[cfg(feature = "async")]
macro_rules! remote_cache {
    ($cache:ident) => {
        impl $crate::cache::sealed::Sealed for $cache {}

        #[async_trait::async_trait]
        impl $crate::cache::Cache for $cache {
            // This method is written out as the attribute would expand an `async fn`, but without
            // the wrapper that stores the arguments twice.
            fn get<'cache, 'key, 'async_trait>(
                &'cache self,
                key: &'key [u8],
            ) -> $crate::remote::commands::Getting<'async_trait>
            where
                'cache: 'async_trait,
                'key: 'async_trait,
                Self: 'async_trait,
            {
                let call = self.fetch(key);
                Box::pin($crate::observe::call(stringify!($cache), "get", call))
            }

            async fn mget(&self, keys: &[&[u8]]) -> $crate::Result<Vec<Option<Vec<u8>>>> {
                if keys.is_empty() {
                    return Ok(Vec::new());
                }
                let words = $crate::remote::commands::with(b"MGET", keys);
                $crate::observe::call(stringify!($cache), "mget", async {
                    self.call(&words).await?.to()
                })
                .await
            }

            async fn set(&self, key: &[u8], value: &[u8]) -> $crate::Result<()> {
                $crate::observe::call(stringify!($cache), "set", async {
                    self.call(&[b"SET", key, value]).await?.to()
                })
                .await
            }

            async fn set_options(
                &self,
                key: &[u8],
                value: &[u8],
                options: $crate::SetOptions,
            ) -> $crate::Result<bool> {
                let mut words = $crate::remote::commands::SetWords::new(key, value, options)?;
                let (words, count) = words.words();
                $crate::observe::call(stringify!($cache), "set", async {
                    self.call(&words[..count]).await?.to()
                })
                .await
            }

            async fn set_get_old(
                &self,
                key: &[u8],
                value: &[u8],
                options: $crate::SetOptions,
            ) -> $crate::Result<Option<Vec<u8>>> {
                let words = $crate::remote::commands::SetWords::new(key, value, options)?;
                let mut words = words.getting_old();
                let (words, count) = words.words();
                $crate::observe::call(stringify!($cache), "set_get_old", async {
                    self.call(&words[..count]).await?.to()
                })
                .await
            }

            async fn del(&self, keys: &[&[u8]]) -> $crate::Result<u64> {
                if keys.is_empty() {
                    return Ok(0);
                }
                let words = $crate::remote::commands::with(b"DEL", keys);
                $crate::observe::call(stringify!($cache), "del", async {
                    self.call(&words).await?.to()
                })
                .await
            }

            async fn exists(&self, keys: &[&[u8]]) -> $crate::Result<u64> {
                if keys.is_empty() {
                    return Ok(0);
                }
                let words = $crate::remote::commands::with(b"EXISTS", keys);
                $crate::observe::call(stringify!($cache), "exists", async {
                    self.call(&words).await?.to()
                })
                .await
            }

            async fn expire(&self, key: &[u8], after: std::time::Duration) -> $crate::Result<bool> {
                let mut digits = itoa::Buffer::new();
                let after = digits.format($crate::set_options::expiry_milliseconds(after)?);
                $crate::observe::call(stringify!($cache), "expire", async {
                    let words: [&[u8]; 3] = [b"PEXPIRE", key, after.as_bytes()];
                    self.call(&words).await?.to()
                })
                .await
            }

            async fn ttl(&self, key: &[u8]) -> $crate::Result<Option<std::time::Duration>> {
                $crate::observe::call(stringify!($cache), "ttl", async {
                    let left = self.call(&[b"PTTL", key]).await?.to()?;
                    Ok($crate::remote::commands::remaining(left))
                })
                .await
            }

            async fn incr(&self, key: &[u8], delta: i64) -> $crate::Result<i64> {
                let mut digits = itoa::Buffer::new();
                let delta = digits.format(delta);
                $crate::observe::call(stringify!($cache), "incr", async {
                    let words: [&[u8]; 3] = [b"INCRBY", key, delta.as_bytes()];
                    self.call(&words).await?.to()
                })
                .await
            }

            async fn command(&self, words: &[&[u8]]) -> $crate::Result<$crate::Reply> {
                $crate::observe::call(stringify!($cache), "command", self.command(words)).await
            }

            async fn take_lease(
                &self,
                key: &[u8],
                term: std::time::Duration,
            ) -> $crate::Result<Option<$crate::Lease>> {
                let (errands, deadline) = (self.errands(), self.options.deadline);
                let taken = $crate::remote::lease::take(errands, deadline, key, term).await?;
                let Some(mut lease) = taken else {
                    return Ok(None);
                };
                lease.value = self.call(&[b"GET", key]).await?.to()?;
                Ok(Some(lease))
            }

            async fn set_leased(
                &self,
                mut lease: $crate::Lease,
                value: &[u8],
                options: $crate::SetOptions,
            ) -> $crate::Result<bool> {
                let time = options.leased_milliseconds()?.unwrap_or(0).to_string();
                let words = $crate::remote::commands::set_leased(
                    &lease.key,
                    &lease.token,
                    value,
                    time.as_bytes(),
                );
                let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
                let done = self.call(&words).await?.to::<bool>()?;
                lease.is_ended();
                Ok(done)
            }

            async fn publish(&self, channel: &[u8], message: &[u8]) -> $crate::Result<u64> {
                $crate::observe::call(stringify!($cache), "publish", async {
                    self.call(&[b"PUBLISH", channel, message]).await?.to()
                })
                .await
            }

            async fn subscribe(&self, channels: &[&[u8]]) -> $crate::Result<$crate::Subscription> {
                let call = self.receive(b"SUBSCRIBE", channels);
                $crate::observe::call(stringify!($cache), "subscribe", call).await
            }

            async fn psubscribe(&self, patterns: &[&[u8]]) -> $crate::Result<$crate::Subscription> {
                let call = self.receive(b"PSUBSCRIBE", patterns);
                $crate::observe::call(stringify!($cache), "psubscribe", call).await
            }

            async fn run_batch(
                &self,
                batch: &$crate::command::Batch<'_>,
            ) -> $crate::Result<$crate::Reply> {
                for words in &batch.commands {
                    $crate::remote::commands::shared(words)?;
                }
                $crate::observe::call(stringify!($cache), "pipeline", self.batch(batch)).await
            }

            fn place(&self) -> u64 {
                self.server().keys()
            }

            async fn close(&self) {
                self.end().await;
            }
        }
    };
}
#[cfg(feature = "async")]
pub(crate) use remote_cache;
