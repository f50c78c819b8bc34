//! Follows all masters of a cluster, each on a connection of its own.
//!
//! The stream of each master is a *lane* with its own place, which is recorded together with each of
//! its changes. A master that takes a failed one's place continues its lane. The streams have no common
//! order, so the following decides which of them a key belongs to.
//!
//! # Which changes apply
//! Each slot has an owner, a lane. A change applies if it is a change of its owner; [`routes`] records
//! the owners. While a slot moves from lane A to lane B, the cluster moves its keys one by one:
//! `MIGRATE` restores a key at B, then deletes it at A. From then on only B changes the key, because A
//! redirects clients that do not find it. A key that A never had is created at B at once. So in each
//! stream, the changes of a key are in the order in which they were made, and all changes of A that
//! precede the restore are obsolete once B's first change of the key is applied. Hence the rule: **a key
//! of a moving slot belongs to A until B has changed it, then to B.** The set of keys that B has changed
//! is kept in memory until the move is over. In particular:
//!
//! - A's deletion that arrives after B's restore does not apply, nor does any earlier change of A that
//!   was late.
//! - A's deletion that arrives first applies, so a key can look missing until B's restore arrives.
//! - A deletion by B of a key that B has never changed does not apply: B did not have the key.
//! - A change of A that reads keys that B has changed already (`SUNIONSTORE`) cannot be made, so A's data
//!   set is loaded again.
//!
//! A move begins when a change of B arrives for a slot of A, and B itself says that it imports or owns
//! the slot, or when B says so in its answer to a question every second. The store records that it has
//! begun before any such change is applied.
//!
//! A move is over once B says that it owns the slot, A says that it does not, and all changes are applied
//! that A had made when it said so. From then on A has nothing to say about the slot: a deletion of
//! remains by A does not apply. If both say that the move has ended without success, B's keys are
//! unreachable for clients, so A's data set is loaded again. If A cannot be asked for some time, because
//! its node is gone, the slot becomes B's, and B's data set is loaded again.
//!
//! A change that arrives from a lane that neither owns nor imports its slot, as of now, does not apply.
//! Valkey's atomic migration is such a case: B receives the keys of a slot before it owns or imports it.
//! The slot is then in doubt: before it can become B's, B's data set is loaded again.
//!
//! If the following process dies, the sets of changed keys are lost. The next process loads the data sets
//! of all lanes that take part in moves that are not over.
//!
//! # Data sets
//! The data sets of several lanes are loaded together, next to the keys that the store has, and become
//! visible in one step ([`install`]). For lanes that are not loaded, the keys of their slots are copied to
//! the new ones first; their changes wait in the meantime. While a data set is loaded, a key of a slot
//! that moves to its lane goes to a separate database, because the data set of the other lane can also
//! contain it, and B's key wins.
//!
//! From the lowest-level file to the highest:
//!
//! - `topology`: what a node says about the cluster.
//! - `confirming`: confirms that the masters own the slots that the store has recorded.
//! - `routes`: which lane each key belongs to.
//! - `routed`: the changes of a lane that apply.
//! - `rendezvous`: lanes wait for each other to load their data sets together.
//! - `shared`: what the threads of the lanes and the thread that coordinates them share.
//! - `lane`: follows a master.
//! - `install`: makes loaded data sets visible.
//! - `settling`: begins and ends moves of slots.
//! - `members`: finds the masters.
//! - `run`: coordinates all lanes.

mod confirming;
mod install;
mod lane;
mod members;
mod rendezvous;
mod routed;
mod routes;
mod run;
mod settling;
mod shared;
mod topology;

pub(super) use self::confirming::{LaneClient, confirm};
pub(super) use self::run::run;
