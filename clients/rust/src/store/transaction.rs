//! Runs transactions, which run again if a watched key changes.

use crate::command::{Args, Pipeline, ToArgs, cmd};
use crate::store::{Session, Store};

impl Store {
    /// Begins a pipeline for this store (see [`pipe`](crate::pipe)).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let mut pipeline = store.pipeline();
    /// pipeline.cmd("SET").arg(("key", 1)).ignore().cmd("INCR").arg("key");
    /// assert_eq!(pipeline.query::<(u8,)>(&store)?, (2,));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn pipeline(&self) -> Pipeline {
        Pipeline::new()
    }

    /// Runs a transaction. `body` reads the watched keys through the session, adds its changes to
    /// the pipeline, which is atomic, and runs it with [`query`](Pipeline::query). If another client
    /// changed a watched key in the meantime, `query` returns `None`, changes nothing, and the body
    /// runs again. Returns the body's result once it is not `None`.
    ///
    /// # Errors
    /// The errors of `body`, and the errors of [`command`](Self::command).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// use undercroft::cmd;
    /// store.set("balance", 5)?;
    /// let (balance,): (i64,) = store.transaction("balance", |session, pipe| {
    ///     let balance: i64 = cmd("GET").arg("balance").query(&mut *session)?;
    ///     pipe.cmd("SET").arg(("balance", balance * 2)).ignore().cmd("GET").arg("balance").query(session)
    /// })?;
    /// assert_eq!(balance, 10);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn transaction<T, E: From<crate::Error>>(
        &self,
        keys: impl ToArgs,
        mut body: impl FnMut(&mut Session, &mut Pipeline) -> std::result::Result<Option<T>, E>,
    ) -> std::result::Result<T, E> {
        let mut watch = cmd("WATCH");
        watch.arg(&keys);
        let watches = !Args::of(&keys).to_vec().is_empty();
        loop {
            // A new session watches nothing, so an error or a panic of the body leaves no watch.
            let mut session = self.session();
            if watches {
                watch.exec(&mut session)?;
            }
            let mut pipeline = Pipeline::new();
            pipeline.atomic();
            if let Some(done) = body(&mut session, &mut pipeline)? {
                return Ok(done);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;

    #[test]
    fn no_increment_of_concurrent_transactions_is_lost() -> Result<()> {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = 200;
        let directory = undercroft_testkit::fresh::directory();
        let store = Store::open_path(directory.path().join("store"))?;
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let done: Result<()> = store.transaction(["n", "m"], |session, pipe| {
                            let n: Option<u64> = cmd("GET").arg("n").query(&mut *session)?;
                            let next = n.unwrap_or(0) + 1;
                            pipe.cmd("MSET").arg(("n", next, "m", next)).query(session)
                        });
                        done.expect("a transaction");
                    }
                });
            }
        });
        assert_eq!(
            store.command(("MGET", "n", "m"))?.to::<Vec<u64>>()?,
            [THREADS * ROUNDS; 2]
        );
        Ok(())
    }

    #[test]
    fn transaction_runs_again_after_a_change_and_ends_with_its_error() -> Result<()> {
        let directory = undercroft_testkit::fresh::directory();
        let store = Store::open_path(directory.path().join("store"))?;
        let mut runs = 0;
        let (value,): (u8,) = store.transaction("key", |session, pipe| {
            runs += 1;
            if runs < 3 {
                store.set("key", runs)?;
            }
            pipe.cmd("INCR").arg("key").query(session)
        })?;
        assert_eq!((runs, value), (3, 3));
        let failed: Result<()> = store.transaction("key", |session, pipe| {
            pipe.cmd("INCR").arg("key").cmd("NOSUCH").query(session)
        });
        assert!(failed.expect_err("unknown").to_string().contains("NOSUCH"));
        assert_eq!(store.get("key")?.as_deref(), Some(&b"3"[..]), "nothing ran");
        Ok(())
    }
}
