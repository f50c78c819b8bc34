//! Follows a Redis or Valkey server as its replica: first loads the server's data set, then applies
//! its changes one after the other.
//!
//! The follower speaks the replication protocol (PSYNC) of Redis 5 to 8 and Valkey. Every process that
//! has the store open reads the data, and no process but the follower changes it. The store records
//! the place in the source's stream of changes together with each change, so a follower that was
//! killed, or another one in its place, continues with exactly the next change, if the source still
//! has it. Otherwise the data set is loaded again, and replaces the old one in a single step.
//!
//! From the lowest-level file to the highest:
//!
//! - `error`: the reasons why following ended.
//! - `source_url`: where a source is, and how to log in.
//! - `filter`: the part of a source that a store follows.
//! - `stream`: a connection over TCP, TLS or a unix socket.
//! - `link`: the connection with its buffer, and the commands that begin the replication.
//! - `sentinel`: asks Sentinels for the address of a source.
//! - `client`: runs ordinary commands on a source.
//! - `probe`: asks a source every second for its position.
//! - `transfer`: loads the data set that a source sends.
//! - `newer`: commands of later versions, as commands that a store has.
//! - `handshake`: begins the replication on a connection.
//! - `part`: decides which changes of a stream a store applies.
//! - `changes`: applies the source's changes.
//! - `state`: the state of a follower, for reports.
//! - `applying`: applies changes as they arrive, and acknowledges them.
//! - `options`: how to follow a source.
//! - `cluster`: follows all masters of a cluster.
//! - `follower`: follows a source until it is told to stop.
//! - `promotion`: compares a store with its source and makes it an ordinary one.

mod applying;
mod changes;
mod client;
mod cluster;
mod error;
mod filter;
mod follower;
mod handshake;
mod link;
mod newer;
mod options;
mod part;
mod probe;
mod promotion;
mod sentinel;
mod source_url;
mod state;
mod stream;
mod transfer;

pub use self::client::{SourceClient, SourcePosition};
pub use self::error::FollowError;
pub use self::filter::KeyFilter;
pub use self::follower::Follower;
pub use self::options::FollowOptions;
pub use self::promotion::{Compared, Promotion, promote};
pub use self::source_url::{Address, SourceUrl, TlsFiles};
pub use self::state::{FollowState, Progress};
pub use self::stream::{Encryption, Stream, Tls};
