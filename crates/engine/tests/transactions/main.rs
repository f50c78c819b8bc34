//! Transactions, and what follows their commits.

mod after_commits;
mod outbox;
mod transact;
mod warm;
mod watch;
