//! Implements leases on a server.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use undercroft_engine::leases::lease_key;

use crate::address::Server;
use crate::command::Reply;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::options::CacheOptions;
use crate::remote::commands::{SetWords, Words, release, token};
use crate::remote::connection::Connection;
use crate::set_options::SetOptions;

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
