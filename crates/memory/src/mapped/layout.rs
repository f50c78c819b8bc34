//! Where everything lies in the store file. `docs/file-format.md` draws it, and
//! a test holds that page against these constants.
//!
//! The file is sparse. It starts with what has a fixed place (header, control
//! page, process table, shards, heap tables) and ends with the extents.

/// Offset of a block in the heap, in bytes from the start of the file; 0 is
/// none.
pub type Offset = u64;

/// Bytes in a page: the unit of slabs and of the page descriptors.
pub const PAGE: u64 = 4096;
/// Bytes in an extent: the unit in which heap memory is reserved.
pub const EXTENT: u64 = 64 * 1024;
/// Pages in an extent.
pub const EXTENT_PAGES: u64 = EXTENT / PAGE;
/// The most extents a store can have: the number of a page, plus 1, fits four
/// bytes.
pub const EXTENTS_MAX: u64 = 1 << 27;
/// The most shards a store can have.
pub const SHARDS_MAX: usize = 64;
/// Entries in the process table.
pub const SLOTS: u64 = 4096;

/// The header page: written once, at creation, but for its last word.
pub mod header {
    /// Eight bytes that name the format.
    pub const MAGIC: u64 = 0;
    /// The format's version.
    pub const VERSION: u64 = 8;
    /// A word whose bytes show the byte order.
    pub const BYTE_ORDER: u64 = 16;
    /// A hash over every constant of the layout.
    pub const FINGERPRINT: u64 = 24;
    /// Number of shards.
    pub const SHARDS: u64 = 32;
    /// Number of extents.
    pub const EXTENTS: u64 = 40;
    /// Length of the file in bytes.
    pub const FILE_LENGTH: u64 = 48;
    /// Creation time, Unix milliseconds.
    pub const CREATED: u64 = 56;
    /// The key of the key space's hash, two words.
    pub const HASH_KEY: u64 = 64;
    /// Bytes in the ring of messages.
    pub const RING: u64 = 80;
    /// CRC-32 of the bytes before it.
    pub const CHECKSUM: u64 = 88;
    /// The boot in which the store was changed since it was last synced; 0 is
    /// that all of it is on the disk. Not under the checksum, as it changes.
    pub const UNSYNCED: u64 = 96;
    /// The first eight bytes of every store.
    pub const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"UNDRCRFT");
    /// Changes with every change of the format.
    pub const VERSION_VALUE: u64 = 1;
    /// Reads differently in the other byte order.
    pub const BYTE_ORDER_VALUE: u64 = 0x0102_0304_0506_0708;
}

/// The control page: the heap's lock and counts, and how far the process table
/// has been used.
pub mod control {
    use super::PAGE;
    /// Start of the page.
    pub const START: u64 = PAGE;
    /// The heap's lock word (the low half is used).
    pub const HEAP_LOCK: u64 = START;
    /// Bytes in use in the heap's undo log.
    pub const HEAP_LOG_TAIL: u64 = START + 64;
    /// Extents that were ever reserved, from the first on.
    pub const HEAP_HIGH: u64 = START + 128;
    /// Free pages in the reserved extents.
    pub const HEAP_FREE_PAGES: u64 = START + 136;
    /// Extents that are being given back to the system.
    pub const RETIRED_COUNT: u64 = START + 152;
    /// When the last of them was retired, Unix milliseconds.
    pub const RETIRED_SINCE: u64 = START + 160;
    /// Who punches a slice of them out of the file, as in a lock word; 0 is nobody yet.
    pub const RETIRED_OWNER: u64 = START + 168;
    /// Extents backed by memory: those reserved less those given back.
    pub const HEAP_RESERVED: u64 = START + 176;
    /// Entries of the process table that were ever claimed.
    pub const SLOTS_USED: u64 = START + 192;
    /// `maxmemory` in bytes; 0 is none.
    pub const MAX_MEMORY: u64 = START + 256;
    /// When a key was last watched, milliseconds since boot; 0 is not lately,
    /// and then changes are not counted.
    pub const WATCHED: u64 = START + 264;
    /// How often the counting of changes began.
    pub const WATCH_EPOCH: u64 = START + 272;
    /// Which keys make room for others, as the engine numbers the policies; 0
    /// is none.
    pub const EVICTION_POLICY: u64 = START + 280;
    /// Keys looked at for each that is evicted, plus 1; 0 is the default.
    pub const EVICTION_SAMPLES: u64 = START + 288;
    /// `lfu-log-factor` plus 1; 0 is the default.
    pub const LFU_LOG_FACTOR: u64 = START + 296;
    /// `lfu-decay-time` in minutes plus 1; 0 is the default.
    pub const LFU_DECAY_TIME: u64 = START + 304;
    /// Which classes of keyspace events are told, as the engine numbers them; 0
    /// is none.
    pub const TOLD_EVENTS: u64 = START + 312;
    /// Other than 0 where the header says, on the disk, that the store is being
    /// changed.
    pub const WRITING: u64 = START + 320;
    /// Whether a copy of the store is being made: 0 none, 1 one is, 2 one was, and what it was to show is lost.
    pub const COPY_STATE: u64 = START + 328;
    /// Where the copy's table lies, in bytes.
    pub const COPY_TABLE: u64 = START + 336;
    /// Extents that the table has pages of.
    pub const COPY_EXTENTS: u64 = START + 344;
    /// Pages that were put into the copy's stock.
    pub const COPY_STOCKED: u64 = START + 352;
    /// Whether a block was ever pinned in this store; 0 is never.
    pub const PINNED: u64 = START + 360;
    /// When the next step of upkeep is due, milliseconds since boot.
    pub const UPKEEP: u64 = START + 384;
    /// Where upkeep goes on looking for expired keys, as the engine counts.
    pub const UPKEEP_PLACE: u64 = START + 392;
    /// How often the texts of scripts were forgotten.
    pub const SCRIPTS_FORGOTTEN: u64 = START + 400;
    /// How often the libraries of functions were changed.
    pub const LIBRARIES_CHANGED: u64 = START + 408;
    /// How often scripts that ran were told to end.
    pub const SCRIPTS_KILLED: u64 = START + 416;
    /// When a script that takes long was last seen running, as the engine notes it; 0 is never.
    pub const SCRIPT_SEEN: u64 = START + 424;
    /// Who makes a copy, as in a lock word; 0 is nobody.
    pub const COPY_OWNER: u64 = START + 448;
    /// First run of the list of runs that the copy has taken, plus 1.
    pub const COPY_RUNS: u64 = START + 456;
    /// Pages in them.
    pub const COPY_PAGES: u64 = START + 464;
    /// Pages that writers took out of the copy's stock.
    pub const COPY_TAKEN: u64 = START + 512;
}

/// One entry of the process table.
pub mod slot {
    use super::PAGE;
    /// Start of the table.
    pub const TABLE: u64 = 2 * PAGE;
    /// Bytes from one entry to the next.
    pub const STRIDE: u64 = 3 * PAGE;
    /// Counts the claims of this entry.
    pub const GENERATION: u64 = 0;
    /// Process id, for people.
    pub const PID: u64 = 8;
    /// When it was claimed, Unix milliseconds.
    pub const CLAIMED: u64 = 40;
    /// Who holds the entry, and how, in one word; 0 is nobody yet.
    pub const TENANT: u64 = 48;
    /// How many of the entry's pins were ever used by its holder: those behind them are 0.
    pub const PINS_USED: u64 = 56;
    /// Pins of blocks that are read in place (R7).
    pub const PINS: u64 = 64;
    /// Number of pins.
    pub const PIN_COUNT: u64 = 126;
    /// Bytes from one pin to the next.
    pub const PIN_STRIDE: u64 = 32;
    /// In a pin: the block's first page, plus 1, in the low half, and the entry's generation in the high half; 0 is none.
    pub const PIN: u64 = 0;
    /// In a pin: when it was taken, Unix milliseconds.
    pub const PIN_SINCE: u64 = 8;
    /// In a pin: bytes of the block that are read.
    pub const PIN_BYTES: u64 = 16;
    /// Transaction records, one a writing thread.
    pub const RECORDS: u64 = PAGE;
    /// Number of records.
    pub const RECORD_COUNT: u64 = 64;
    /// Bytes from one record to the next.
    pub const RECORD_STRIDE: u64 = 64;
    /// In a record: number of the transaction begun last.
    pub const NUMBER: u64 = 0;
    /// In a record: number of the transaction committed last.
    pub const COMMITTED: u64 = 8;
    /// In a record: bit set of the shards the transaction may lock.
    pub const SHARDS: u64 = 16;
    /// Seats, one for each waiter of the process: the word it waits on, in the
    /// low half.
    pub const SEATS: u64 = 2 * PAGE;
    /// Number of seats.
    pub const SEAT_COUNT: u64 = 512;
    /// Bytes from one seat to the next.
    pub const SEAT_STRIDE: u64 = 8;
    /// Beyond every file: each process that has the store open for writing, and
    /// those it forked, have a shared lock on the byte that is the number of its
    /// pid namespace behind this one.
    pub const NAMESPACES: u64 = 1 << 62;
    /// Beyond every file: each process that has the store mapped, and those it
    /// forked, have a shared lock on the byte so far behind this one as its pid
    /// namespace's number times 2^22 and its own number say.
    pub const USERS: u64 = 1 << 61;
}

/// One shard: a control page, a page of roots, access hints, modification
/// counters and the undo log.
pub mod shard {
    use super::PAGE;
    /// The lock word (the low half is used).
    pub const LOCK: u64 = 0;
    /// The version counter: odd while a transaction changes the shard. Its
    /// second bit is the mark: set where the next word is not 0.
    pub const COUNTER: u64 = 64;
    /// What has to be looked after before the shard is read or changed, as the
    /// engine numbers it in bits; 0 is nothing.
    pub const MARK: u64 = 72;
    /// Undo log: slot, generation and record of the transaction.
    pub const LOG_OWNER: u64 = 128;
    /// Undo log: the transaction's number.
    pub const LOG_NUMBER: u64 = 136;
    /// Undo log: bytes in use; 0 is empty.
    pub const LOG_TAIL: u64 = 144;
    /// Undo log: bytes that are backed by memory.
    pub const LOG_RESERVED: u64 = 152;
    /// Undo log: bytes that may have memory, no fewer than those.
    pub const LOG_BACKED: u64 = 160;
    /// Undo log: when it was last long, milliseconds since boot.
    pub const LOG_LONG: u64 = 168;
    /// Undo log: when it was last cut down to the least, milliseconds since boot.
    pub const LOG_RETIRED: u64 = 176;
    /// Undo log: who gives memory of it back, or has it grow, as in a lock word; 0 is nobody.
    pub const LOG_PUNCHER: u64 = 184;
    /// Bytes in allocated blocks.
    pub const USED_BYTES: u64 = 192;
    /// Pages granted by the heap.
    pub const PAGES: u64 = 200;
    /// First page of the list of free single pages.
    pub const FREE_LIST: u64 = 208;
    /// Length of that list.
    pub const FREE_COUNT: u64 = 216;
    /// First run of the list of runs that go back to the heap.
    pub const GRAVEYARD: u64 = 224;
    /// The run that is on its way to the heap now.
    pub const RETURNING: u64 = 232;
    /// First run of the list of blocks being filled outside the lock.
    pub const STAGING: u64 = 240;
    /// Binary logarithm of the hint table's length.
    pub const HINT_BITS: u64 = 248;
    /// Per size class: first slab with a free block.
    pub const CLASSES: u64 = 256;
    /// How often all of the shard's memory was left behind: which runs are its
    /// own.
    pub const AGE: u64 = 1024;
    /// The age of the oldest runs that may be left.
    pub const LEFT_SINCE: u64 = 1032;
    /// Bytes in blocks that were left behind.
    pub const LEFT_BYTES: u64 = 1040;
    /// The extent where freeing them goes on, plus 1; 0 is none are left.
    pub const LEFT_PLACE: u64 = 1048;
    /// The extent where freeing them ends: behind the last one and from the first
    /// on, unless it is still ahead.
    pub const LEFT_UNTIL: u64 = 1056;
    /// Objects left behind, as the engine counts them.
    pub const LEFT_OBJECTS: u64 = 1064;
    /// End of these words.
    pub const LEFT_END: u64 = 1072;
    /// The engine's roots: one page.
    pub const ROOTS: u64 = PAGE;
    /// Words in the roots.
    pub const ROOT_WORDS: u64 = PAGE / 8;
    /// The hint table: 32-bit entries.
    pub const HINTS: u64 = 2 * PAGE;
    /// Binary logarithm of the longest hint table.
    pub const HINT_BITS_MAX: u64 = 20;
    /// Binary logarithm of a new store's hint table.
    pub const HINT_BITS_MIN: u64 = 10;
    /// The modification counters (M2): 32-bit entries.
    pub const CHANGES: u64 = HINTS + (4 << HINT_BITS_MAX);
    /// Number of modification counters.
    pub const CHANGE_COUNT: u64 = 4096;
    /// How many of them a change of a key adds to.
    pub const CHANGES_A_KEY: u64 = 2;
    /// The undo log.
    pub const LOG: u64 = CHANGES + 4 * CHANGE_COUNT;
    /// Bytes of the undo log backed by memory in a new store.
    pub const LOG_RESERVED_MIN: u64 = 4 * PAGE;
}

/// The ring of messages: a control page, counters, and the data.
pub mod ring {
    use super::PAGE;
    /// The lock word (the low half is used).
    pub const LOCK: u64 = 0;
    /// Position behind the last whole record; grows for ever.
    pub const TAIL: u64 = 64;
    /// No record above this position was ever begun: what lies a ring's length
    /// below it may be overwritten.
    pub const ANNOUNCED: u64 = 72;
    /// Bytes of the data that are backed by memory.
    pub const RESERVED: u64 = 128;
    /// Records ever appended.
    pub const RECORDS: u64 = 136;
    /// Position, plus 1, of the first of the records that may not be counted
    /// yet; 0 is none.
    pub const UNCOUNTED: u64 = 144;
    /// Records ever appended, by the low bits of their names' hashes.
    pub const COUNTERS: u64 = PAGE;
    /// Number of these counters.
    pub const COUNTER_COUNT: u64 = 4096;
    /// The data, a power of two in length.
    pub const DATA: u64 = COUNTERS + COUNTER_COUNT * 8;
    /// Shortest data.
    pub const DATA_MIN: u64 = 64 * 1024;
    /// Longest data.
    pub const DATA_MAX: u64 = 1 << 32;
}

/// One record in the ring, followed by its name and its body, each padded to
/// whole words.
pub mod record {
    /// Bytes of the whole record in the low half, its kind above.
    pub const LENGTH: u64 = 0;
    /// Hash of the name.
    pub const HASH: u64 = 8;
    /// Number of the record in the ring, from 1 on.
    pub const NUMBER: u64 = 16;
    /// Its number among the records of its counter, from 1 on.
    pub const COUNT: u64 = 24;
    /// Bytes of the name in the low half, of the body in the high half.
    pub const PARTS: u64 = 32;
    /// Start of the name.
    pub const NAME: u64 = 40;
}

/// One page's descriptor.
pub mod descriptor {
    /// Bytes from one descriptor to the next.
    pub const STRIDE: u64 = 64;
    /// The heap's word: owner and length of the run that starts here, or 0.
    pub const RUN: u64 = 0;
    /// The shard's word: what the page is used for, and its size class.
    pub const KIND: u64 = 8;
    /// Next page of the list this page is in, plus 1.
    pub const NEXT: u64 = 16;
    /// Previous page of that list, plus 1.
    pub const PREVIOUS: u64 = 24;
    /// Slab: which blocks are free, four words. Staged run: its owner.
    pub const BITMAP: u64 = 32;
    /// Run of an arena: the next one of that arena, plus 1, in the low half,
    /// and the one before it in the high half. Slabs of arenas need no more
    /// than three words for their blocks.
    pub const SIBLINGS: u64 = 56;
}

/// The first page of an arena. It has the words of a shard's own slabs
/// ([`shard::USED_BYTES`] to [`shard::FREE_COUNT`], and [`shard::CLASSES`]) at
/// the same places.
pub mod arena {
    /// First run of the list of the arena's runs, plus 1.
    pub const RUNS: u64 = 0;
    /// A word of whoever uses the arena; 0 at first.
    pub const NOTE: u64 = 8;
}

/// Bytes of the heap's undo log.
pub const HEAP_LOG: u64 = 1 << 20;
/// Bytes of it backed by memory from the start.
pub const HEAP_LOG_RESERVED: u64 = 64 * 1024;

/// Places and lengths that depend on the number of shards and extents.
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
    /// Bytes of a shard's undo log, most of them without memory until needed.
    pub log_capacity: u64,
    /// Start of the heap's undo log.
    pub heap_log: u64,
    /// Start of the ring of messages.
    pub ring: u64,
    /// Bytes of its data, a power of two.
    pub ring_size: u64,
    /// A bit an extent: backed by memory.
    pub reserved_map: u64,
    /// A bit an extent: has a free page.
    pub some_free_map: u64,
    /// A bit an extent: all pages are free.
    pub all_free_map: u64,
    /// A bit an extent: on its way back to the system.
    pub retired_map: u64,
    /// 16 bits an extent: its free pages.
    pub page_masks: u64,
    /// Page descriptors.
    pub descriptors: u64,
    /// The extents.
    pub heap: u64,
    /// Length of the file.
    pub file_length: u64,
}

impl Layout {
    /// Extents of a heap of so many bytes.
    pub(crate) fn extents(capacity: u64) -> u64 {
        (capacity / EXTENT).clamp(8, EXTENTS_MAX)
    }

    /// The layout of a store with so many shards (1 to 64, a power of two), so
    /// much heap, in bytes (rounded down to whole extents, at least eight), and
    /// a ring of so many bytes (rounded up to a power of two within its limits).
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

    /// Start of a shard.
    #[inline(always)]
    pub fn shard(&self, index: usize) -> u64 {
        debug_assert!(index < self.shards);
        self.shard_start + self.shard_stride * index as u64
    }

    /// Start of an entry of the process table.
    pub fn slot(&self, index: u64) -> u64 {
        slot::TABLE + slot::STRIDE * index
    }

    /// Start of a transaction record.
    pub fn record(&self, slot_index: u64, record: u64) -> u64 {
        self.slot(slot_index) + slot::RECORDS + slot::RECORD_STRIDE * record
    }

    /// Start of a pin in an entry of the process table.
    pub fn pin(&self, slot_index: u64, pin: u64) -> u64 {
        self.slot(slot_index) + slot::PINS + slot::PIN_STRIDE * pin
    }

    /// Start of a seat in an entry of the process table.
    pub fn seat(&self, slot_index: u64, seat: u64) -> u64 {
        self.slot(slot_index) + slot::SEATS + slot::SEAT_STRIDE * seat
    }

    /// Number of heap pages.
    pub fn pages(&self) -> u64 {
        self.extents * EXTENT_PAGES
    }

    /// Start of a page's descriptor.
    #[inline(always)]
    pub fn descriptor(&self, page: u64) -> u64 {
        self.descriptors + page * descriptor::STRIDE
    }

    /// Start of a page.
    #[inline(always)]
    pub fn page(&self, page: u64) -> u64 {
        self.heap + page * PAGE
    }
}
