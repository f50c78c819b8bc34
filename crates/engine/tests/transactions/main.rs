//! Tests of transactions, and of the work that follows their commits.

mod after_commits;
mod outbox;
mod transact;
mod warm;
mod watch;
