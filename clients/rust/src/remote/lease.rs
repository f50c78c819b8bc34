//! Implements leases on a server.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use undercroft_engine::leases::{LEASE_SCRIPT, lease_key};

use crate::address::Server;
use crate::command::Reply;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::options::CacheOptions;
use crate::remote::commands::SetWords;
use crate::remote::connection::Connection;
use crate::set_options::SetOptions;

/// The words of a command, owned by a task that outlives its call.
pub(crate) type Words = Vec<Vec<u8>>;

/// Runs commands in tasks that outlive the call that started them.
pub(crate) trait Errands: Clone + Send + Sync + 'static {
    /// Sends a command and waits for its reply. If a later release could overtake the command,
    /// continues to wait after the call's deadline.
    fn run(&self, words: Words) -> impl Future<Output = Result<Reply>> + Send;

    /// Sends a command even if the cache has been closed in the meantime.
    fn run_last(&self, words: Words) -> impl Future<Output = Result<Reply>> + Send;
}

/// Acquires the lease on a key's value, unless another caller holds it.
///
/// A separate task sends the SET and waits for the reply. If the caller's future is dropped first,
/// the task releases the lease after the reply. If a release were sent immediately on another
/// connection, it could overtake the SET, and the lease would remain until its term ends.
pub(crate) async fn take(
    errands: impl Errands,
    deadline: Duration,
    key: &[u8],
    term: Duration,
) -> Result<Option<Lease>> {
    let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
    let (name, token) = (lease_key(key), token());
    let once = SetOptions::new().ttl(term).if_missing();
    let words = SetWords::new(&name, &token, once)?.into_owned();
    let (back, of) = (errands.clone(), runtime.clone());
    let give_back = move |key: &[u8], token: &[u8]| {
        let (back, words) = (back.clone(), release(key, token));
        // If the server cannot be reached, the lease remains until its term ends.
        of.spawn(async move { drop(back.run_last(words).await) });
    };
    let mut lease = Lease::new(key, token, None, give_back);
    let (tell, told) = oneshot::channel();
    runtime.spawn(async move {
        // The lease is also released after an error, because the server may have executed the SET.
        let taken = errands.run(words).await.and_then(|reply| reply.to());
        if matches!(taken, Ok(false)) {
            lease.is_ended();
        }
        // If the caller has given up, `send` returns the lease, and dropping it releases it.
        drop(tell.send(taken.map(|is_taken: bool| is_taken.then_some(lease))));
    });
    match timeout(deadline, told).await {
        Ok(Ok(taken)) => taken,
        // The runtime is shutting down.
        Ok(Err(_)) => Err(Error::Closed),
        Err(_) => Err(Error::TimedOut(deadline)),
    }
}

/// Returns a random token that is unique to a lease and stored as the lease's value.
pub(crate) fn token() -> Vec<u8> {
    format!("{:032x}", fastrand::u128(..)).into_bytes()
}

/// Returns the command that stores the value of a leased key. `time` is the expiry in milliseconds,
/// or 0 for none.
pub(crate) fn set(key: &[u8], token: &[u8], value: &[u8], time: &[u8]) -> Words {
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

/// Runs a command on a separate connection.
pub(crate) async fn run_alone(
    server: &Server,
    options: CacheOptions,
    words: Words,
) -> Result<Reply> {
    let mut connection = Connection::open(server, options.deadline).await?;
    let answered = timeout(options.deadline, connection.call(&borrowed(&words))).await;
    answered.map_err(|_| Error::TimedOut(options.deadline))?
}

/// Borrows the words for a call.
pub(crate) fn borrowed(words: &Words) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}
