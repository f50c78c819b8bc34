//! The layout of the store file. A test compares these constants with their description in
//! `docs/file-format.md`.
//!
//! The file is sparse. Its fixed-size parts (header, control page, process table, shards, heap
//! tables) precede the extents.

/// The offset of a block in the heap, in bytes from the start of the file. 0 means no block.
pub type Offset = u64;

/// The number of bytes in a page, the unit of slabs and page descriptors.
pub const PAGE: u64 = 4096;
/// The number of bytes in an extent, the unit in which heap memory is reserved.
pub const EXTENT: u64 = 64 * 1024;
/// The number of pages in an extent.
pub const EXTENT_PAGES: u64 = EXTENT / PAGE;
/// The maximum number of extents in a store, chosen so that a page number plus 1 fits in four
/// bytes.
pub const EXTENTS_MAX: u64 = 1 << 27;
/// The maximum number of shards in a store.
pub const SHARDS_MAX: usize = 64;
/// The number of entries in the process table.
pub const SLOTS: u64 = 4096;

/// The header page. Except for its last word, it is written only when the store is created.
pub mod header {
    /// Eight bytes that identify the format.
    pub const MAGIC: u64 = 0;
    /// The version of the format.
    pub const VERSION: u64 = 8;
    /// A word whose value shows the byte order.
    pub const BYTE_ORDER: u64 = 16;
    /// The hash of all layout constants.
    pub const FINGERPRINT: u64 = 24;
    /// The number of shards.
    pub const SHARDS: u64 = 32;
    /// The number of extents.
    pub const EXTENTS: u64 = 40;
    /// The length of the file in bytes.
    pub const FILE_LENGTH: u64 = 48;
    /// The creation time in Unix milliseconds.
    pub const CREATED: u64 = 56;
    /// The key of the hash function for the key space, in two words.
    pub const HASH_KEY: u64 = 64;
    /// The number of data bytes in the message ring.
    pub const RING: u64 = 80;
    /// The CRC-32 of the header bytes before this word.
    pub const CHECKSUM: u64 = 88;
    /// The boot during which the store was changed and not synced afterward. 0 means that all
    /// changes are on disk. The checksum does not cover this word, because the word changes.
    pub const UNSYNCED: u64 = 96;
    /// The first eight bytes of every store.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"UNDRCRFT");
    /// Incremented whenever the format changes.
    pub const VERSION_VALUE: u64 = 1;
    /// On a machine with the opposite byte order, this constant does not match the stored word.
    pub const BYTE_ORDER_VALUE: u64 = 0x0102_0304_0506_0708;
}

/// The control page: the heap's lock and counters, the number of used process table entries, and
/// settings that apply to the entire store.
pub mod control {
    use super::PAGE;
    /// The start of the control page.
    pub const START: u64 = PAGE;
    /// The heap's lock word (only the lower half is used).
    pub const HEAP_LOCK: u64 = START;
    /// The length of the heap's undo log, in bytes.
    pub const HEAP_LOG_TAIL: u64 = START + 64;
    /// The number of extents ever reserved. They are the first extents of the heap.
    pub const HEAP_HIGH: u64 = START + 128;
    /// The number of free pages in the reserved extents.
    pub const HEAP_FREE_PAGES: u64 = START + 136;
    /// The number of retired extents, whose memory is being returned to the system.
    pub const RETIRED_COUNT: u64 = START + 152;
    /// When an extent was last retired, as a Unix time in milliseconds.
    pub const RETIRED_SINCE: u64 = START + 160;
    /// The process that is punching a slice of the retired extents out of the file, encoded as in a
    /// lock word. 0 means no process.
    pub const RETIRED_OWNER: u64 = START + 168;
    /// The number of extents backed by memory: those ever reserved minus those returned to the
    /// system.
    pub const HEAP_RESERVED: u64 = START + 176;
    /// The number of process table entries ever claimed.
    pub const SLOTS_USED: u64 = START + 192;
    /// `maxmemory` in bytes. 0 means no limit.
    pub const MAX_MEMORY: u64 = START + 256;
    /// When a key was last watched, in milliseconds since boot. 0 means that no key was watched
    /// recently, and key changes are not counted.
    pub const WATCHED: u64 = START + 264;
    /// The number of times that the counting of key changes has been switched on.
    pub const WATCH_EPOCH: u64 = START + 272;
    /// The eviction policy, as a number that the engine defines. 0 means no eviction.
    pub const EVICTION_POLICY: u64 = START + 280;
    /// The number of keys sampled for each eviction, plus 1. 0 means the default.
    pub const EVICTION_SAMPLES: u64 = START + 288;
    /// `lfu-log-factor` plus 1. 0 means the default.
    pub const LFU_LOG_FACTOR: u64 = START + 296;
    /// `lfu-decay-time` in minutes, plus 1. 0 means the default.
    pub const LFU_DECAY_TIME: u64 = START + 304;
    /// The classes of keyspace events that are published, as bits that the engine defines. 0 means
    /// none.
    pub const TOLD_EVENTS: u64 = START + 312;
    /// Nonzero if the header on disk records that the store is being changed.
    pub const WRITING: u64 = START + 320;
    /// The state of the store's copy: 0 if none is being made, 1 if one is being made, 2 if that
    /// copy is lost.
    pub const COPY_STATE: u64 = START + 328;
    /// The offset of the copy's table, in bytes.
    pub const COPY_TABLE: u64 = START + 336;
    /// The number of extents whose pages the copy's table covers.
    pub const COPY_EXTENTS: u64 = START + 344;
    /// The number of pages that have been added to the copy's stock, into which writers save old
    /// content.
    pub const COPY_STOCKED: u64 = START + 352;
    /// Nonzero if any block has ever been pinned in this store.
    pub const PINNED: u64 = START + 360;
    /// Whether transactions append their changes to the journal: 0 if not, otherwise the
    /// durability mode.
    pub const JOURNALED: u64 = START + 368;
    /// When the next upkeep step is due, in milliseconds since boot.
    pub const UPKEEP: u64 = START + 384;
    /// Where upkeep resumes its search for expired keys, in the engine's encoding.
    pub const UPKEEP_PLACE: u64 = START + 392;
    /// The number of times that the script cache has been flushed.
    pub const SCRIPTS_FORGOTTEN: u64 = START + 400;
    /// The number of times that the function libraries have changed.
    pub const LIBRARIES_CHANGED: u64 = START + 408;
    /// The number of times that running scripts have been told to stop.
    pub const SCRIPTS_KILLED: u64 = START + 416;
    /// When a long-running script was last observed, in the engine's encoding. 0 means never.
    pub const SCRIPT_SEEN: u64 = START + 424;
    /// The number of times that the users of servers (ACL) have changed.
    pub const USERS_CHANGED: u64 = START + 432;
    /// The process that is copying the store, encoded as in a lock word. 0 means no process.
    pub const COPY_OWNER: u64 = START + 448;
    /// The first page in the list of runs allocated for the copy, plus 1. 0 means none.
    pub const COPY_RUNS: u64 = START + 456;
    /// The number of pages in the runs allocated for the copy.
    pub const COPY_PAGES: u64 = START + 464;
    /// The number of pages that writers have taken from the copy's stock.
    pub const COPY_TAKEN: u64 = START + 512;
    /// The lock of the journal's ring (only the lower half is used).
    pub const REDO_LOCK: u64 = START + 576;
    /// The journal position after the last record in the ring.
    pub const REDO_HEAD: u64 = START + 584;
    /// The journal position up to which the ring's records are in files, so that their space in the
    /// ring may be reused.
    pub const REDO_WRITTEN: u64 = START + 640;
    /// The journal position up to which the records are on disk.
    pub const REDO_DURABLE: u64 = START + 648;
    /// The length of the ring in bytes, a power of two. 0 means that it has no memory.
    pub const REDO_SIZE: u64 = START + 656;
    /// The process that writes the ring's records to files, encoded as in a lock word.
    pub const REDO_WRITER: u64 = START + 664;
    /// The lower half is the number of times that records were synced, and the futex word of processes
    /// that wait for durability. The upper half is a recent time before which all changes were made
    /// durable, in milliseconds since boot.
    pub const REDO_SYNCS: u64 = START + 672;
    /// The system's error number of the first failed write to a journal file, plus 1. 0 means that
    /// no write failed. Bit 32 means that a checkpoint is being written that will clear the failure.
    pub const REDO_FAILED: u64 = START + 680;
    /// The number of times that the journal was begun, continued by a new store file, or begun again
    /// after a failure.
    pub const REDO_EPOCH: u64 = START + 688;
    /// The length of the records in a segment of the journal, in bytes.
    pub const REDO_SEGMENT: u64 = START + 752;
    /// The lowest generation of a slot that a process may claim, minus 1. A recovered store begins
    /// above all generations of the store before it, because their names may be in its data.
    pub const GENERATION_BASE: u64 = START + 776;
    /// When a process last began the sync of each second, in milliseconds since boot.
    pub const REDO_SYNCER: u64 = START + 768;
    /// The number of times that a part of the ring was filled. Its lower half is the futex word of
    /// the threads that write records to files.
    pub const REDO_FILLED: u64 = START + 784;
    /// The rate of checkpoints that begin by themselves, in bytes a second, plus 1. 0 means the
    /// default.
    pub const CHECKPOINT_RATE: u64 = START + 792;
    /// By how many percent of the last checkpoint's size the journal grows before a checkpoint begins
    /// by itself, plus 1. 0 means the default, and 1 never.
    pub const CHECKPOINT_GROWTH: u64 = START + 800;
    /// 1 if the store is a replica: only a process that applies its source's changes may change keys.
    pub const REPLICA: u64 = START + 808;
    /// The places in the list of trackers that are in use, as bits. While it is 0, changed keys are
    /// not recorded. The same bits from [`TRACKS_ALL`] on: the places that track all keys.
    pub const TRACKED: u64 = START + 832;
    /// The lowest bit in [`TRACKED`] of the places that track all keys.
    pub const TRACKS_ALL: u64 = TRACKER_COUNT;
    /// The seats of the processes that read the changed keys, or 0 for an unused place.
    pub const TRACKERS: u64 = START + 840;
    /// The number of places in the list of trackers.
    pub const TRACKER_COUNT: u64 = 16;
    /// The position at which the records end that the current epoch continues, or `u64::MAX` if it
    /// continues none, because a checkpoint began it after a failure.
    pub const REDO_BEFORE: u64 = START + 696;
    /// The position at which the current epoch begins.
    pub const REDO_BEGIN: u64 = START + 760;
    /// The position, plus 1, of the record of the current heap step. 0 means none.
    pub const REDO_HEAP_STEP: u64 = START + 704;
    /// The state of the checkpoint: 0 if none is being written, 1 if one is, 2 if it is spoiled.
    pub const CHECKPOINT: u64 = START + 712;
    /// The process that writes a checkpoint, encoded as in a lock word.
    pub const CHECKPOINT_OWNER: u64 = START + 720;
    /// The journal position at which recovery from the last complete checkpoint starts.
    pub const CHECKPOINT_AT: u64 = START + 728;
    /// The size of the last complete checkpoint in bytes.
    pub const CHECKPOINT_BYTES: u64 = START + 736;
    /// When the last complete checkpoint was finished, in Unix milliseconds.
    pub const CHECKPOINT_TIME: u64 = START + 744;
}

/// A process table entry.
pub mod slot {
    use super::PAGE;
    /// The start of the process table.
    pub const TABLE: u64 = 2 * PAGE;
    /// The distance in bytes from one process table entry to the next.
    pub const STRIDE: u64 = 3 * PAGE;
    /// The number of times that this entry has been claimed.
    pub const GENERATION: u64 = 0;
    /// The process ID, for display only.
    pub const PID: u64 = 8;
    /// When the entry was claimed, as a Unix time in milliseconds.
    pub const CLAIMED: u64 = 40;
    /// The process that claimed the entry and how it did so, in one word. 0 means that the entry
    /// has never been claimed.
    pub const TENANT: u64 = 48;
    /// The number of leading pins that the entry's process has ever used. All later pins are 0.
    pub const PINS_USED: u64 = 56;
    /// Pins of blocks that are being read in place (R7).
    pub const PINS: u64 = 64;
    /// The number of pins in an entry.
    pub const PIN_COUNT: u64 = 126;
    /// The distance in bytes from one pin to the next.
    pub const PIN_STRIDE: u64 = 32;
    /// In a pin: the block's first page plus 1 in the lower half, and the entry's generation in the
    /// upper half. 0 means that the pin is unused.
    pub const PIN: u64 = 0;
    /// In a pin: when the pin was set, as a Unix time in milliseconds.
    pub const PIN_SINCE: u64 = 8;
    /// In a pin: the number of bytes of the block that are being read.
    pub const PIN_BYTES: u64 = 16;
    /// Transaction records, one for each thread that writes.
    pub const RECORDS: u64 = PAGE;
    /// The number of records in an entry.
    pub const RECORD_COUNT: u64 = 64;
    /// The distance in bytes from one record to the next.
    pub const RECORD_STRIDE: u64 = 64;
    /// In a record: the number of the most recently started transaction.
    pub const NUMBER: u64 = 0;
    /// In a record: the number of the most recently committed transaction.
    pub const COMMITTED: u64 = 8;
    /// In a record: the set of shards that the transaction may lock, as bits.
    pub const SHARDS: u64 = 16;
    /// Seats, one for each waiting thread of the process. The lower half of a seat is the futex
    /// word on which its thread sleeps.
    pub const SEATS: u64 = 2 * PAGE;
    /// The number of seats in an entry.
    pub const SEAT_COUNT: u64 = 512;
    /// The distance in bytes from one seat to the next.
    pub const SEAT_STRIDE: u64 = 8;
    /// The first lock byte for pid namespaces, beyond the end of any file. A process that opens the
    /// store for writing acquires a shared lock on the byte at this offset plus its namespace
    /// number. Its forked children share the lock.
    pub const NAMESPACES: u64 = 1 << 62;
    /// The first lock byte for users of the store, beyond the end of any file. A process that maps
    /// the store acquires a shared lock on the byte at this offset plus its namespace number times
    /// 2^22 plus its pid. Its forked children share the lock.
    pub const USERS: u64 = 1 << 61;
    /// The byte, beyond the file's end, that the process locks that follows the source of a replica.
    pub const FOLLOWER: u64 = 1 << 60;
    /// The offset of the byte that the process locks which sends changes to replicas.
    pub const SENDER: u64 = FOLLOWER + 1;
}

/// A shard: a control page, a page of roots, access hints, modification counters and the undo log.
pub mod shard {
    use super::PAGE;
    /// The lock word (only the lower half is used).
    pub const LOCK: u64 = 0;
    /// The version counter, which is odd while a transaction changes the shard. Its second bit is
    /// set if the word [`MARK`] is not 0.
    pub const COUNTER: u64 = 64;
    /// Cleanup that must run before the shard is read or changed, as bits that the engine defines.
    /// 0 means no cleanup.
    pub const MARK: u64 = 72;
    /// Undo log: the process table entry and the record of the transaction that wrote the log.
    pub const LOG_OWNER: u64 = 128;
    /// Undo log: the number of the transaction that wrote the log.
    pub const LOG_NUMBER: u64 = 136;
    /// Undo log: the length in bytes. 0 means empty.
    pub const LOG_TAIL: u64 = 144;
    /// Undo log: the number of bytes that a transaction may write, all of them backed by memory.
    pub const LOG_RESERVED: u64 = 152;
    /// Undo log: the number of bytes that may be backed by memory, at least [`LOG_RESERVED`].
    pub const LOG_BACKED: u64 = 160;
    /// Undo log: when the log was last long, in milliseconds since boot.
    pub const LOG_LONG: u64 = 168;
    /// Undo log: when the log was last shrunk to its minimum, in milliseconds since boot.
    pub const LOG_RETIRED: u64 = 176;
    /// Undo log: the process that is growing the log or returning its memory, encoded as in a lock
    /// word. 0 means no process.
    pub const LOG_PUNCHER: u64 = 184;
    /// The number of bytes in allocated blocks.
    pub const USED_BYTES: u64 = 192;
    /// The number of pages that the heap granted to the shard.
    pub const PAGES: u64 = 200;
    /// The first page in the list of free single pages, plus 1. 0 means none.
    pub const FREE_LIST: u64 = 208;
    /// The length of the list of free single pages.
    pub const FREE_COUNT: u64 = 216;
    /// The first page in the graveyard (the list of runs to be returned to the heap), plus 1. 0
    /// means that the graveyard is empty.
    pub const GRAVEYARD: u64 = 224;
    /// The first page of the run that is being returned to the heap, plus 1. 0 means none.
    pub const RETURNING: u64 = 232;
    /// The first page in the list of staged blocks, which are filled without the lock, plus 1. 0
    /// means none.
    pub const STAGING: u64 = 240;
    /// The binary logarithm of the number of entries in the hint table.
    pub const HINT_BITS: u64 = 248;
    /// For each size class, the first page of the first slab that has a free block, plus 1. 0 means
    /// none.
    pub const CLASSES: u64 = 256;
    /// The shard's age, a number that changes whenever a flush abandons all of the shard's memory.
    /// A run belongs to the shard only if it records the same age.
    pub const AGE: u64 = 1024;
    /// The age of the oldest runs that a flush abandoned and that may not have been freed yet.
    pub const LEFT_SINCE: u64 = 1032;
    /// The number of bytes in the blocks that flushes abandoned.
    pub const LEFT_BYTES: u64 = 1040;
    /// The extent at which the search for abandoned runs resumes, plus 1. 0 means that no abandoned
    /// runs remain.
    pub const LEFT_PLACE: u64 = 1048;
    /// The extent at which the search for abandoned runs ends. If this extent is not after the
    /// current one, the search first wraps around at the last extent.
    pub const LEFT_UNTIL: u64 = 1056;
    /// The number of abandoned objects, as defined by the engine.
    pub const LEFT_OBJECTS: u64 = 1064;
    /// The end of the words that describe abandoned memory.
    pub const LEFT_END: u64 = 1072;
    /// Roots of the engine's data structures, in two pages.
    pub const ROOTS: u64 = PAGE;
    /// The number of words in the roots.
    pub const ROOT_WORDS: u64 = 2 * PAGE / 8;
    /// The hint table, with 32-bit entries.
    pub const HINTS: u64 = ROOTS + 8 * ROOT_WORDS;
    /// The binary logarithm of the maximum length of the hint table.
    pub const HINT_BITS_MAX: u64 = 20;
    /// The binary logarithm of the hint table's length in a new store.
    pub const HINT_BITS_MIN: u64 = 10;
    /// The modification counters (M2), with 32-bit entries.
    pub const CHANGES: u64 = HINTS + (4 << HINT_BITS_MAX);
    /// The number of modification counters.
    pub const CHANGE_COUNT: u64 = 4096;
    /// The number of modification counters that a change to a key increments.
    pub const CHANGES_A_KEY: u64 = 2;
    /// The ring of changed keys: a page with the word [`CHANGED_ANNOUNCED`], and the data.
    pub const CHANGED: u64 = CHANGES + 4 * CHANGE_COUNT;
    /// In the ring of changed keys: the position up to which writers may have started to write
    /// records. Data more than a ring's length before this position may have been overwritten.
    pub const CHANGED_ANNOUNCED: u64 = 0;
    /// In the ring of changed keys: the data.
    pub const CHANGED_DATA: u64 = PAGE;
    /// The length of the data of the ring of changed keys in bytes, a power of two.
    pub const CHANGED_BYTES: u64 = 256 * 1024;
    /// The filter of tracked keys: a bit set of the places in the list of trackers, in 16 bits, for
    /// each slot of keys.
    pub const TRACKED_KEYS: u64 = CHANGED + CHANGED_DATA + CHANGED_BYTES;
    /// The number of slots in the filter of tracked keys, a power of two.
    pub const TRACKED_SLOTS: u64 = 32 * 1024;
    /// The undo log.
    pub const LOG: u64 = TRACKED_KEYS + 2 * TRACKED_SLOTS;
    /// The number of bytes of the undo log that are backed by memory in a new store.
    pub const LOG_RESERVED_MIN: u64 = 4 * PAGE;
}

/// The message ring: a control page, counters and data.
pub mod ring {
    use super::PAGE;
    /// The lock word (only the lower half is used).
    pub const LOCK: u64 = 0;
    /// The position after the last complete record. Positions only increase.
    pub const TAIL: u64 = 64;
    /// The position up to which writers may have started to write records. Data more than a ring's
    /// length before this position may have been overwritten.
    pub const ANNOUNCED: u64 = 72;
    /// The number of data bytes that are backed by memory.
    pub const RESERVED: u64 = 128;
    /// The number of records ever appended.
    pub const RECORDS: u64 = 136;
    /// The position, plus 1, of the first record that may be missing from the counters. 0 means
    /// none.
    pub const UNCOUNTED: u64 = 144;
    /// The numbers of records ever appended, indexed by the low bits of the hash of the record's
    /// name.
    pub const COUNTERS: u64 = PAGE;
    /// The number of per-name counters.
    pub const COUNTER_COUNT: u64 = 4096;
    /// The data, whose length is a power of two.
    pub const DATA: u64 = COUNTERS + COUNTER_COUNT * 8;
    /// The minimum length of the data in bytes.
    pub const DATA_MIN: u64 = 64 * 1024;
    /// The maximum length of the data in bytes.
    pub const DATA_MAX: u64 = 1 << 32;
}

/// A record in the ring. Its name and its body follow, each padded to a multiple of 8 bytes.
pub mod record {
    /// The length of the entire record in bytes in the lower half, and the record's kind in the
    /// upper half.
    pub const LENGTH: u64 = 0;
    /// The hash of the record's name.
    pub const HASH: u64 = 8;
    /// The sequence number of the record in the ring, starting at 1.
    pub const NUMBER: u64 = 16;
    /// The sequence number of the record among all records that share its per-name counter,
    /// starting at 1.
    pub const COUNT: u64 = 24;
    /// The length of the name in bytes in the lower half, and the length of the body in the upper
    /// half.
    pub const PARTS: u64 = 32;
    /// The start of the name.
    pub const NAME: u64 = 40;
}

/// The journal's ring: a page with the path of the journal's folder, and the records that are not in
/// a file yet.
pub mod redo {
    use super::PAGE;
    /// The length of the folder's path in bytes.
    pub const PATH_LENGTH: u64 = 0;
    /// The folder's path.
    pub const PATH: u64 = 8;
    /// The maximum length of the folder's path in bytes.
    pub const PATH_MAX: u64 = PAGE - PATH;
    /// The records.
    pub const DATA: u64 = PAGE;
    /// The minimum length of the address range for records, in bytes.
    pub const DATA_MIN: u64 = 1 << 20;
    /// The maximum length of the address range for records, in bytes.
    pub const DATA_MAX: u64 = 1 << 32;
}

/// A page descriptor.
pub mod descriptor {
    /// The distance in bytes from one descriptor to the next.
    pub const STRIDE: u64 = 64;
    /// The heap's word: the owner and length of the run that starts at this page. 0 means that no
    /// run starts here.
    pub const RUN: u64 = 0;
    /// The shard's word: what the page is used for, and its size class.
    pub const KIND: u64 = 8;
    /// The next page in the list that contains this page, plus 1.
    pub const NEXT: u64 = 16;
    /// The previous page in the list that contains this page, plus 1.
    pub const PREVIOUS: u64 = 24;
    /// In a slab: a four-word bitmap of the free blocks. In a staged run: its owner.
    pub const BITMAP: u64 = 32;
    /// In a run of an arena: the arena's next run, plus 1, in the lower half, and the previous run,
    /// plus 1, in the upper half. This word is the fourth word of the bitmap, which the slabs of
    /// arenas do not need.
    pub const SIBLINGS: u64 = 56;
}

/// The first page of an arena, a set of runs that are freed together. The words that describe slabs
/// ([`shard::USED_BYTES`] to [`shard::FREE_COUNT`], and [`shard::CLASSES`]) have the same offsets
/// as in a shard.
pub mod arena {
    /// The first page of the first run in the list of the arena's runs, plus 1.
    pub const RUNS: u64 = 0;
    /// A word that the creator of the arena may use, initially 0.
    pub const NOTE: u64 = 8;
}

/// The length of the heap's undo log in bytes.
pub const HEAP_LOG: u64 = 1 << 20;
/// The number of bytes of the heap's undo log that are backed by memory from the start.
pub const HEAP_LOG_RESERVED: u64 = 64 * 1024;

/// Offsets and lengths that depend on the numbers of shards and extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of shards.
    pub shards: usize,
    /// The number of extents.
    pub extents: u64,
    /// The start of the first shard.
    pub shard_start: u64,
    /// The distance in bytes from one shard to the next.
    pub shard_stride: u64,
    /// The length of the address range reserved for a shard's undo log, in bytes. Most of the range
    /// is not backed by memory until needed.
    pub log_capacity: u64,
    /// The start of the heap's undo log.
    pub heap_log: u64,
    /// The start of the message ring.
    pub ring: u64,
    /// The length of the ring's data in bytes, a power of two.
    pub ring_size: u64,
    /// The start of the journal's ring.
    pub redo: u64,
    /// The length of the address range for the journal's records in bytes, a power of two. Most of
    /// the range is not backed by memory until needed.
    pub redo_capacity: u64,
    /// The bitmap of extents that are backed by memory.
    pub reserved_map: u64,
    /// The bitmap of extents that have a free page.
    pub some_free_map: u64,
    /// The bitmap of extents whose pages are all free.
    pub all_free_map: u64,
    /// The bitmap of retired extents, whose memory is being returned to the system.
    pub retired_map: u64,
    /// Masks of free pages, with 16 bits for each extent.
    pub page_masks: u64,
    /// The start of the page descriptors.
    pub descriptors: u64,
    /// The start of the extents.
    pub heap: u64,
    /// The length of the file in bytes.
    pub file_length: u64,
}

impl Layout {
    /// Returns the number of extents in a heap of `capacity` bytes.
    pub(crate) fn extents(capacity: u64) -> u64 {
        (capacity / EXTENT).clamp(8, EXTENTS_MAX)
    }

    /// Returns the layout of a store.
    ///
    /// The number of shards must be a power of two from 1 to 64. The capacity of the heap, in
    /// bytes, is rounded down to a multiple of the extent size, with a minimum of eight extents.
    /// The size of the ring, in bytes, is rounded up to a power of two and limited to the allowed
    /// range.
    pub fn new(shards: usize, capacity: u64, ring_size: u64) -> Layout {
        assert!(
            shards.is_power_of_two() && shards <= SHARDS_MAX,
            "shards: expected a power of two up to {SHARDS_MAX}, got {shards}"
        );
        let extents = Layout::extents(capacity);
        let log_capacity = (extents * EXTENT / 16)
            .clamp(256 * 1024, 256 << 20)
            .next_multiple_of(PAGE);
        let shard_start = slot::TABLE + SLOTS * slot::STRIDE;
        let shard_stride = shard::LOG + log_capacity;
        let heap_log = shard_start + shard_stride * shards as u64;
        let map_length = (extents.div_ceil(64) * 8).next_multiple_of(PAGE);
        let ring_size = ring_size
            .clamp(ring::DATA_MIN, ring::DATA_MAX)
            .next_power_of_two();
        let ring = heap_log + HEAP_LOG;
        let redo = ring + ring::DATA + ring_size;
        let redo_capacity = (extents * EXTENT / 4)
            .clamp(redo::DATA_MIN, redo::DATA_MAX)
            .next_power_of_two();
        let reserved_map = redo + redo::DATA + redo_capacity;
        let some_free_map = reserved_map + map_length;
        let all_free_map = some_free_map + map_length;
        let retired_map = all_free_map + map_length;
        let page_masks = retired_map + map_length;
        let descriptors = page_masks + (extents * 2).next_multiple_of(PAGE);
        let descriptors_end = descriptors + extents * EXTENT_PAGES * descriptor::STRIDE;
        let heap = descriptors_end.next_multiple_of(2 << 20);
        Layout {
            shards,
            extents,
            shard_start,
            shard_stride,
            log_capacity,
            heap_log,
            ring,
            ring_size,
            redo,
            redo_capacity,
            reserved_map,
            some_free_map,
            all_free_map,
            retired_map,
            page_masks,
            descriptors,
            heap,
            file_length: heap + extents * EXTENT,
        }
    }

    /// Returns the offset at which a shard starts.
    #[inline(always)]
    pub fn shard(&self, index: usize) -> u64 {
        debug_assert!(index < self.shards);
        self.shard_start + self.shard_stride * index as u64
    }

    /// Returns the offset at which a process table entry starts.
    pub fn slot(&self, index: u64) -> u64 {
        slot::TABLE + slot::STRIDE * index
    }

    /// Returns the offset at which a transaction record starts.
    pub fn record(&self, slot_index: u64, record: u64) -> u64 {
        self.slot(slot_index) + slot::RECORDS + slot::RECORD_STRIDE * record
    }

    /// Returns the offset at which a pin in a process table entry starts.
    pub fn pin(&self, slot_index: u64, pin: u64) -> u64 {
        self.slot(slot_index) + slot::PINS + slot::PIN_STRIDE * pin
    }

    /// Returns the offset at which a seat in a process table entry starts.
    pub fn seat(&self, slot_index: u64, seat: u64) -> u64 {
        self.slot(slot_index) + slot::SEATS + slot::SEAT_STRIDE * seat
    }

    /// Returns the number of pages in the heap.
    pub fn pages(&self) -> u64 {
        self.extents * EXTENT_PAGES
    }

    /// Returns the offset at which a page's descriptor starts.
    #[inline(always)]
    pub fn descriptor(&self, page: u64) -> u64 {
        self.descriptors + page * descriptor::STRIDE
    }

    /// Returns the offset at which a page of the heap starts.
    #[inline(always)]
    pub fn page(&self, page: u64) -> u64 {
        self.heap + page * PAGE
    }
}
