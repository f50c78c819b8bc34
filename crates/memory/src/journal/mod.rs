//! The journal on disk (J1 to J7): a folder with segments, which contain the redo records of all
//! changes, and with checkpoints, which contain the store. The module `checkpoints` writes
//! checkpoints, and `store_file` recovers a store from both.
//!
//! From the lowest-level file to the highest:
//!
//! - `folder`: the names and headers of the files in a journal's folder.
//! - `folder_lock`: the lock of a folder, and the path of its store.
//! - `lock_holder`: finds a stopped process that holds the lock of a folder.
//! - `settling`: decides whether the records of dead processes count.
//! - `writer`: moves records from the ring to segments.
//! - `waiting`: waits until records are durable, or until the ring has space.
//! - `deferral`: defers the waits of a thread, so that several changes wait once.
//! - `keeping`: keeps the promise of the durability mode after a commit.

pub(crate) mod deferral;
pub(crate) mod folder;
pub(crate) mod folder_lock;
pub(crate) mod keeping;
pub(crate) mod lock_holder;
pub(crate) mod settling;
pub(crate) mod waiting;
pub(crate) mod writer;
