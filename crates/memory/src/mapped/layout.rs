//! The layout of the store file. `docs/file-format.md` describes it, and a test checks that page
//! against these constants.
//!
//! The file is sparse. It starts with the parts at fixed places (header, control page, process
//! table, shards, heap tables) and ends with the extents.

/// Offset of a block in the heap, in bytes from the start of the file. 0 means none.
pub type Offset = u64;

/// Number of bytes in a page, the unit of slabs and page descriptors.
pub const PAGE: u64 = 4096;
/// Number of bytes in an extent, the unit in which heap memory is reserved.
pub const EXTENT: u64 = 64 * 1024;
/// Number of pages in an extent.
pub const EXTENT_PAGES: u64 = EXTENT / PAGE;
/// Maximum number of extents in a store, chosen so that a page number plus 1 fits in four bytes.
pub const EXTENTS_MAX: u64 = 1 << 27;
/// Maximum number of shards in a store.
pub const SHARDS_MAX: usize = 64;
/// Number of entries in the process table.
pub const SLOTS: u64 = 4096;

/// The header page, written once at creation except for its last word.
pub mod header {
    /// Eight bytes that identify the format.
    pub const MAGIC: u64 = 0;
    /// Version of the format.
    pub const VERSION: u64 = 8;
    /// A word whose bytes reveal the byte order.
    pub const BYTE_ORDER: u64 = 16;
    /// Hash over all constants of the layout.
    pub const FINGERPRINT: u64 = 24;
    /// Number of shards.
    pub const SHARDS: u64 = 32;
    /// Number of extents.
    pub const EXTENTS: u64 = 40;
    /// Length of the file in bytes.
    pub const FILE_LENGTH: u64 = 48;
    /// Creation time in Unix milliseconds.
    pub const CREATED: u64 = 56;
    /// Key of the hash function for the key space, two words.
    pub const HASH_KEY: u64 = 64;
    /// Number of data bytes in the message ring.
    pub const RING: u64 = 80;
    /// CRC-32 of the header bytes before this word.
    pub const CHECKSUM: u64 = 88;
    /// The boot during which the store was changed since its last sync. 0 means that the disk is up
    /// to date. Not covered by the checksum, because it changes.
    pub const UNSYNCED: u64 = 96;
    /// The first eight bytes of every store.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"UNDRCRFT");
    /// Incremented with every change of the format.
    pub const VERSION_VALUE: u64 = 1;
    /// Reads as a different number in the opposite byte order.
    pub const BYTE_ORDER_VALUE: u64 = 0x0102_0304_0506_0708;
}

/// The control page: the heap's lock and counts, how much of the process table is in use, and
/// settings of the whole store.
pub mod control {
    use super::PAGE;
    /// Start of the control page.
    pub const START: u64 = PAGE;
    /// The heap's lock word (only the low half is used).
    pub const HEAP_LOCK: u64 = START;
    /// Number of bytes in use in the heap's undo log.
    pub const HEAP_LOG_TAIL: u64 = START + 64;
    /// Number of extents ever reserved, counted from the first.
    pub const HEAP_HIGH: u64 = START + 128;
    /// Number of free pages in the reserved extents.
    pub const HEAP_FREE_PAGES: u64 = START + 136;
    /// Number of retired extents, whose memory is being returned to the system.
    pub const RETIRED_COUNT: u64 = START + 152;
    /// When an extent was last retired, in Unix milliseconds.
    pub const RETIRED_SINCE: u64 = START + 160;
    /// The process that is punching a slice of the retired extents out of the file, encoded as in a
    /// lock word. 0 means none.
    pub const RETIRED_OWNER: u64 = START + 168;
    /// Number of extents backed by memory: those ever reserved minus those returned to the system.
    pub const HEAP_RESERVED: u64 = START + 176;
    /// Number of process table entries ever claimed.
    pub const SLOTS_USED: u64 = START + 192;
    /// `maxmemory` in bytes. 0 means no limit.
    pub const MAX_MEMORY: u64 = START + 256;
    /// When a key was last watched, in milliseconds since boot. 0 means not recently, and key
    /// changes are not counted.
    pub const WATCHED: u64 = START + 264;
    /// Number of times that counting of key changes was switched on.
    pub const WATCH_EPOCH: u64 = START + 272;
    /// Eviction policy, in the engine's numbering. 0 means none.
    pub const EVICTION_POLICY: u64 = START + 280;
    /// Number of keys sampled per eviction, plus 1. 0 means the default.
    pub const EVICTION_SAMPLES: u64 = START + 288;
    /// `lfu-log-factor` plus 1. 0 means the default.
    pub const LFU_LOG_FACTOR: u64 = START + 296;
    /// `lfu-decay-time` in minutes, plus 1. 0 means the default.
    pub const LFU_DECAY_TIME: u64 = START + 304;
    /// Classes of keyspace events that are published, in the engine's numbering. 0 means none.
    pub const TOLD_EVENTS: u64 = START + 312;
    /// Nonzero if the header on disk says that the store is being changed.
    pub const WRITING: u64 = START + 320;
    /// State of the copy of the store: 0 means none is being made, 1 means one is being made, 2
    /// means that the one being made is lost.
    pub const COPY_STATE: u64 = START + 328;
    /// Offset of the copy's table, in bytes.
    pub const COPY_TABLE: u64 = START + 336;
    /// Number of extents whose pages the copy's table covers.
    pub const COPY_EXTENTS: u64 = START + 344;
    /// Number of pages that were put into the copy's stock.
    pub const COPY_STOCKED: u64 = START + 352;
    /// Nonzero if a block was ever pinned in this store.
    pub const PINNED: u64 = START + 360;
    /// When the next step of upkeep is due, in milliseconds since boot.
    pub const UPKEEP: u64 = START + 384;
    /// Where upkeep continues its search for expired keys, in the engine's encoding.
    pub const UPKEEP_PLACE: u64 = START + 392;
    /// Number of times that the cached scripts were flushed.
    pub const SCRIPTS_FORGOTTEN: u64 = START + 400;
    /// Number of times that the function libraries changed.
    pub const LIBRARIES_CHANGED: u64 = START + 408;
    /// Number of times that running scripts were told to stop.
    pub const SCRIPTS_KILLED: u64 = START + 416;
    /// When a long-running script was last seen, in the engine's encoding. 0 means never.
    pub const SCRIPT_SEEN: u64 = START + 424;
    /// The process that makes a copy, encoded as in a lock word. 0 means none.
    pub const COPY_OWNER: u64 = START + 448;
    /// First run in the list of runs that the copy has taken, plus 1. 0 means none.
    pub const COPY_RUNS: u64 = START + 456;
    /// Number of pages in the runs that the copy has taken.
    pub const COPY_PAGES: u64 = START + 464;
    /// Number of pages that writers took out of the copy's stock.
    pub const COPY_TAKEN: u64 = START + 512;
}

/// An entry of the process table.
pub mod slot {
    use super::PAGE;
    /// Start of the process table.
    pub const TABLE: u64 = 2 * PAGE;
    /// Distance in bytes from one process table entry to the next.
    pub const STRIDE: u64 = 3 * PAGE;
    /// Number of times this entry was claimed.
    pub const GENERATION: u64 = 0;
    /// Process ID, for display only.
    pub const PID: u64 = 8;
    /// When the entry was claimed, in Unix milliseconds.
    pub const CLAIMED: u64 = 40;
    /// The entry's holder and how it was claimed, in one word. 0 means that the entry was never
    /// claimed.
    pub const TENANT: u64 = 48;
    /// Number of leading pins that the holder has ever used. All later pins are 0.
    pub const PINS_USED: u64 = 56;
    /// Pins of blocks that are being read in place (R7).
    pub const PINS: u64 = 64;
    /// Number of pins in an entry.
    pub const PIN_COUNT: u64 = 126;
    /// Distance in bytes from one pin to the next.
    pub const PIN_STRIDE: u64 = 32;
    /// In a pin: the block's first page plus 1 in the low half, and the entry's generation in the
    /// high half. 0 means none.
    pub const PIN: u64 = 0;
    /// In a pin: when the pin was set, in Unix milliseconds.
    pub const PIN_SINCE: u64 = 8;
    /// In a pin: number of bytes of the block that are being read.
    pub const PIN_BYTES: u64 = 16;
    /// Transaction records, one for each writing thread.
    pub const RECORDS: u64 = PAGE;
    /// Number of records in an entry.
    pub const RECORD_COUNT: u64 = 64;
    /// Distance in bytes from one record to the next.
    pub const RECORD_STRIDE: u64 = 64;
    /// In a record: number of the transaction begun most recently.
    pub const NUMBER: u64 = 0;
    /// In a record: number of the transaction committed most recently.
    pub const COMMITTED: u64 = 8;
    /// In a record: bit set of the shards that the transaction may lock.
    pub const SHARDS: u64 = 16;
    /// Seats, one for each waiter of the process. A seat's low half is the word that its waiter
    /// sleeps on.
    pub const SEATS: u64 = 2 * PAGE;
    /// Number of seats in an entry.
    pub const SEAT_COUNT: u64 = 512;
    /// Distance in bytes from one seat to the next.
    pub const SEAT_STRIDE: u64 = 8;
    /// First lock byte for pid namespaces, beyond the end of any file. A process that opens the
    /// store for writing takes a shared lock on the byte at this offset plus its namespace number.
    /// Its forked children share the lock.
    pub const NAMESPACES: u64 = 1 << 62;
    /// First lock byte for users of the store, beyond the end of any file. A process that maps the
    /// store takes a shared lock on the byte at this offset plus its namespace number times 2^22
    /// plus its pid. Its forked children share the lock.
    pub const USERS: u64 = 1 << 61;
}

/// One shard: a control page, a page of roots, access hints, modification counters and the undo
/// log.
pub mod shard {
    use super::PAGE;
    /// The lock word (only the low half is used).
    pub const LOCK: u64 = 0;
    /// The version counter, odd while a transaction changes the shard. Its second bit is the mark,
    /// set while the word [`MARK`] is not 0.
    pub const COUNTER: u64 = 64;
    /// Cleanup required before the shard is read or changed, as bits that the engine defines. 0
    /// means none.
    pub const MARK: u64 = 72;
    /// Undo log: the process table entry and the record of the transaction.
    pub const LOG_OWNER: u64 = 128;
    /// Undo log: number of the transaction.
    pub const LOG_NUMBER: u64 = 136;
    /// Undo log: number of bytes in use. 0 means empty.
    pub const LOG_TAIL: u64 = 144;
    /// Undo log: number of bytes that may be used, all of them backed by memory.
    pub const LOG_RESERVED: u64 = 152;
    /// Undo log: number of bytes that may be backed by memory, at least [`LOG_RESERVED`].
    pub const LOG_BACKED: u64 = 160;
    /// Undo log: when it was last long, in milliseconds since boot.
    pub const LOG_LONG: u64 = 168;
    /// Undo log: when it was last shrunk to its minimum, in milliseconds since boot.
    pub const LOG_RETIRED: u64 = 176;
    /// Undo log: the process that is returning its memory or growing it, encoded as in a lock word.
    /// 0 means none.
    pub const LOG_PUNCHER: u64 = 184;
    /// Number of bytes in allocated blocks.
    pub const USED_BYTES: u64 = 192;
    /// Number of pages granted by the heap.
    pub const PAGES: u64 = 200;
    /// First page in the list of free single pages, plus 1. 0 means none.
    pub const FREE_LIST: u64 = 208;
    /// Length of the list of free single pages.
    pub const FREE_COUNT: u64 = 216;
    /// First run in the graveyard, the list of runs to be returned to the heap, plus 1. 0 means
    /// none.
    pub const GRAVEYARD: u64 = 224;
    /// The run that is being returned to the heap, plus 1. 0 means none.
    pub const RETURNING: u64 = 232;
    /// First run in the list of staged blocks, which are filled outside the lock, plus 1. 0 means
    /// none.
    pub const STAGING: u64 = 240;
    /// Binary logarithm of the hint table's length.
    pub const HINT_BITS: u64 = 248;
    /// For each size class: the first slab with a free block, plus 1. 0 means none.
    pub const CLASSES: u64 = 256;
    /// The shard's age, which changes each time a flush leaves all of its memory behind. A run
    /// belongs to the shard only if the ages match.
    pub const AGE: u64 = 1024;
    /// Age of the oldest runs that a flush may have left behind.
    pub const LEFT_SINCE: u64 = 1032;
    /// Number of bytes in blocks that flushes left behind.
    pub const LEFT_BYTES: u64 = 1040;
    /// Extent where freeing the runs left behind continues, plus 1. 0 means that no runs are left.
    pub const LEFT_PLACE: u64 = 1048;
    /// Extent where freeing the runs left behind ends. If it is not after the current extent, the
    /// search wraps around at the last extent first.
    pub const LEFT_UNTIL: u64 = 1056;
    /// Number of objects left behind, as counted by the engine.
    pub const LEFT_OBJECTS: u64 = 1064;
    /// End of the words about memory left behind.
    pub const LEFT_END: u64 = 1072;
    /// Roots of the engine's data structures, one page.
    pub const ROOTS: u64 = PAGE;
    /// Number of words in the roots.
    pub const ROOT_WORDS: u64 = PAGE / 8;
    /// The hint table, with 32-bit entries.
    pub const HINTS: u64 = 2 * PAGE;
    /// Binary logarithm of the maximum length of the hint table.
    pub const HINT_BITS_MAX: u64 = 20;
    /// Binary logarithm of the hint table's length in a new store.
    pub const HINT_BITS_MIN: u64 = 10;
    /// The modification counters (M2), with 32-bit entries.
    pub const CHANGES: u64 = HINTS + (4 << HINT_BITS_MAX);
    /// Number of modification counters.
    pub const CHANGE_COUNT: u64 = 4096;
    /// Number of modification counters that a change of one key increments.
    pub const CHANGES_A_KEY: u64 = 2;
    /// The undo log.
    pub const LOG: u64 = CHANGES + 4 * CHANGE_COUNT;
    /// Number of bytes of the undo log that are backed by memory in a new store.
    pub const LOG_RESERVED_MIN: u64 = 4 * PAGE;
}

/// The message ring: a control page, counters and data.
pub mod ring {
    use super::PAGE;
    /// The lock word (only the low half is used).
    pub const LOCK: u64 = 0;
    /// Position after the last complete record. It only grows.
    pub const TAIL: u64 = 64;
    /// Position up to which writers may have begun to write records. Data more than a ring's length
    /// below it may have been overwritten.
    pub const ANNOUNCED: u64 = 72;
    /// Number of data bytes that are backed by memory.
    pub const RESERVED: u64 = 128;
    /// Number of records ever appended.
    pub const RECORDS: u64 = 136;
    /// Position, plus 1, of the first record that the counters may not include yet. 0 means none.
    pub const UNCOUNTED: u64 = 144;
    /// Number of records ever appended, indexed by the low bits of the hash of the record's name.
    pub const COUNTERS: u64 = PAGE;
    /// Number of per-name counters.
    pub const COUNTER_COUNT: u64 = 4096;
    /// The data, whose length is a power of two.
    pub const DATA: u64 = COUNTERS + COUNTER_COUNT * 8;
    /// Minimum length of the data in bytes.
    pub const DATA_MIN: u64 = 64 * 1024;
    /// Maximum length of the data in bytes.
    pub const DATA_MAX: u64 = 1 << 32;
}

/// One record in the ring, followed by its name and its body, each padded to whole words.
pub mod record {
    /// Length of the whole record in bytes in the low half, and its kind in the high half.
    pub const LENGTH: u64 = 0;
    /// Hash of the record's name.
    pub const HASH: u64 = 8;
    /// Sequence number of the record in the ring, starting at 1.
    pub const NUMBER: u64 = 16;
    /// Sequence number of the record among those with the same counter, starting at 1.
    pub const COUNT: u64 = 24;
    /// Length of the name in bytes in the low half, and of the body in the high half.
    pub const PARTS: u64 = 32;
    /// Start of the name.
    pub const NAME: u64 = 40;
}

/// The descriptor of a page.
pub mod descriptor {
    /// Distance in bytes from one descriptor to the next.
    pub const STRIDE: u64 = 64;
    /// The heap's word: owner and length of the run that starts at this page, or 0.
    pub const RUN: u64 = 0;
    /// The shard's word: the page's use and size class.
    pub const KIND: u64 = 8;
    /// Next page in the list that contains this page, plus 1.
    pub const NEXT: u64 = 16;
    /// Previous page in the list that contains this page, plus 1.
    pub const PREVIOUS: u64 = 24;
    /// In a slab: a bitmap of the free blocks, four words. In a staged run: its owner.
    pub const BITMAP: u64 = 32;
    /// In a run of an arena: the arena's next run, plus 1, in the low half, and the previous run,
    /// plus 1, in the high half. It takes the fourth word of the bitmap, which slabs of arenas do
    /// not need.
    pub const SIBLINGS: u64 = 56;
}

/// The first page of an arena. The words for slabs ([`shard::USED_BYTES`] to [`shard::FREE_COUNT`],
/// and [`shard::CLASSES`]) have the same offsets as in a shard.
pub mod arena {
    /// First run in the list of the arena's runs, plus 1.
    pub const RUNS: u64 = 0;
    /// A word for the user of the arena, initially 0.
    pub const NOTE: u64 = 8;
}

/// Length of the heap's undo log in bytes.
pub const HEAP_LOG: u64 = 1 << 20;
/// Number of bytes of the heap's undo log that are backed by memory from the start.
pub const HEAP_LOG_RESERVED: u64 = 64 * 1024;

/// Offsets and lengths that depend on the numbers of shards and extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of shards.
    pub shards: usize,
    /// Number of extents.
    pub extents: u64,
    /// Start of the first shard.
    pub shard_start: u64,
    /// Bytes from one shard to the next.
    pub shard_stride: u64,
    /// Length of a shard's undo log in bytes, most of them not backed by memory until needed.
    pub log_capacity: u64,
    /// Start of the heap's undo log.
    pub heap_log: u64,
    /// Start of the message ring.
    pub ring: u64,
    /// Length of the ring's data in bytes, a power of two.
    pub ring_size: u64,
    /// Bitmap of extents that are backed by memory.
    pub reserved_map: u64,
    /// Bitmap of extents that have a free page.
    pub some_free_map: u64,
    /// Bitmap of extents whose pages are all free.
    pub all_free_map: u64,
    /// Bitmap of retired extents, whose memory is being returned to the system.
    pub retired_map: u64,
    /// Masks of free pages, 16 bits for each extent.
    pub page_masks: u64,
    /// Start of the page descriptors.
    pub descriptors: u64,
    /// Start of the extents.
    pub heap: u64,
    /// Length of the file in bytes.
    pub file_length: u64,
}

impl Layout {
    /// Returns the number of extents in a heap of `capacity` bytes.
    pub(crate) fn extents(capacity: u64) -> u64 {
        (capacity / EXTENT).clamp(8, EXTENTS_MAX)
    }

    /// Returns the layout of a store.
    ///
    /// The number of shards must be a power of two from 1 to 64. The capacity of the heap in bytes
    /// is rounded down to whole extents, with a minimum of eight. The size of the ring in bytes is
    /// rounded up to a power of two within its limits.
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
        let reserved_map = ring + ring::DATA + ring_size;
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

    /// Returns the start of a shard.
    #[inline(always)]
    pub fn shard(&self, index: usize) -> u64 {
        debug_assert!(index < self.shards);
        self.shard_start + self.shard_stride * index as u64
    }

    /// Returns the start of an entry of the process table.
    pub fn slot(&self, index: u64) -> u64 {
        slot::TABLE + slot::STRIDE * index
    }

    /// Returns the start of a transaction record.
    pub fn record(&self, slot_index: u64, record: u64) -> u64 {
        self.slot(slot_index) + slot::RECORDS + slot::RECORD_STRIDE * record
    }

    /// Returns the start of a pin in an entry of the process table.
    pub fn pin(&self, slot_index: u64, pin: u64) -> u64 {
        self.slot(slot_index) + slot::PINS + slot::PIN_STRIDE * pin
    }

    /// Returns the start of a seat in an entry of the process table.
    pub fn seat(&self, slot_index: u64, seat: u64) -> u64 {
        self.slot(slot_index) + slot::SEATS + slot::SEAT_STRIDE * seat
    }

    /// Returns the number of pages in the heap.
    pub fn pages(&self) -> u64 {
        self.extents * EXTENT_PAGES
    }

    /// Returns the start of a page's descriptor.
    #[inline(always)]
    pub fn descriptor(&self, page: u64) -> u64 {
        self.descriptors + page * descriptor::STRIDE
    }

    /// Returns the start of a page.
    #[inline(always)]
    pub fn page(&self, page: u64) -> u64 {
        self.heap + page * PAGE
    }
}
