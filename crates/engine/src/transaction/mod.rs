//! Changes to keys, made individually or in transactions of many commands, and the work that
//! follows a commit. The types and all higher modules use this folder.
//!
//! - `above`: calls from a transaction to higher modules, which it must not depend on.
//! - `access`: access to keys for commands, through the store itself or a running transaction.
//! - `change_log`: the keys that were changed since the changes were last sent to replicas.
//! - `changed`: the module through which every change to a key is reported.
//! - `effect`: the effects of changes, as watchers and followers see them.
//! - `keys`: inserting, removing, moving, renaming and copying keys.
//! - `load`: the expected size of a command's changes, announced before its first lock.
//! - `look_up`: the end of a lookup.
//! - `message`: messages that a transaction queues.
//! - `notice`: queues of waiting clients whose keys a transaction changed.
//! - `notify`: publishing keyspace events.
//! - `outbox`: the work and the notifications that a transaction postpones until after its commit.
//! - `read`: reading the keys of several shards in one consistent state.
//! - `retry`: retrying a transaction.
//! - `running`: a running transaction of many commands.
//! - `savepoint`: states to which a transaction can be rolled back.
//! - `tracking`: recording which keys change, for processes that track keys.
//! - `watch`: detecting whether a key has changed since it was watched.
//! - `write`: changing keys of several shards.
//! - `writer`: write access to keys within a transaction.

pub(crate) mod above;
pub(crate) mod access;
pub(crate) mod change_log;
mod changed;
pub(crate) mod effect;
mod keys;
pub(crate) mod load;
mod look_up;
pub(crate) mod message;
pub(crate) mod notice;
mod notify;
pub(crate) mod outbox;
mod read;
mod retry;
pub(crate) mod running;
pub(crate) mod savepoint;
pub(crate) mod tracking;
pub(crate) mod watch;
mod write;
pub(crate) mod writer;
