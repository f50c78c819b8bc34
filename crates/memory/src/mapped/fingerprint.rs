//! The fingerprint of the file layout, which shows whether two builds use the same layout.

use crate::mapped::classes::SIZES;
use crate::mapped::layout::{
    EXTENT, Layout, PAGE, SLOTS, arena, control, descriptor, header, record, redo, ring, shard,
    slot,
};

/// Returns an FNV-1a hash of all constants, including the size classes, that two builds must share
/// in order to use the same file.
pub(crate) fn fingerprint() -> u64 {
    let sample = Layout::new(4, 1 << 30, 1 << 20);
    let constants = [
        PAGE,
        EXTENT,
        SLOTS,
        control::HEAP_LOG_TAIL,
        control::HEAP_HIGH,
        control::RETIRED_COUNT,
        control::SLOTS_USED,
        control::MAX_MEMORY,
        control::WATCHED,
        control::WATCH_EPOCH,
        control::LFU_DECAY_TIME,
        header::UNSYNCED,
        control::WRITING,
        control::UPKEEP,
        control::COPY_STATE,
        control::COPY_STOCKED,
        control::PINNED,
        control::COPY_OWNER,
        control::COPY_PAGES,
        control::COPY_TAKEN,
        control::JOURNALED,
        control::REDO_LOCK,
        control::REDO_EPOCH,
        control::REDO_BEGIN,
        control::CHECKPOINT,
        control::CHECKPOINT_TIME,
        control::REDO_SYNCER,
        control::REDO_FILLED,
        control::CHECKPOINT_RATE,
        control::CHECKPOINT_GROWTH,
        control::REPLICA,
        control::TRACKED,
        control::TRACKERS,
        control::TRACKER_COUNT,
        control::TRACKS_ALL,
        control::USERS_CHANGED,
        slot::STRIDE,
        slot::TENANT,
        slot::PINS_USED,
        slot::PIN_STRIDE,
        slot::NAMESPACES,
        slot::USERS,
        slot::FOLLOWER,
        slot::SENDER,
        slot::RECORDS,
        slot::RECORD_STRIDE,
        shard::COUNTER,
        shard::MARK,
        shard::LOG_OWNER,
        shard::LOG_RESERVED_MIN,
        shard::LOG_BACKED,
        shard::LOG_PUNCHER,
        shard::USED_BYTES,
        shard::CLASSES,
        shard::AGE,
        shard::LEFT_END,
        shard::ROOTS,
        shard::HINTS,
        shard::CHANGES,
        shard::CHANGES_A_KEY,
        shard::CHANGED,
        shard::CHANGED_DATA,
        shard::CHANGED_BYTES,
        shard::LOG,
        slot::SEATS,
        slot::SEAT_STRIDE,
        ring::TAIL,
        ring::ANNOUNCED,
        ring::RESERVED,
        ring::UNCOUNTED,
        ring::COUNTERS,
        ring::DATA,
        redo::PATH,
        redo::DATA,
        record::PARTS,
        record::NAME,
        descriptor::STRIDE,
        descriptor::BITMAP,
        descriptor::SIBLINGS,
        arena::RUNS,
        sample.shard_stride,
        sample.descriptors,
        sample.heap,
        sample.file_length,
    ];
    let classes = SIZES.iter().map(|&size| u64::from(size));
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for value in constants.into_iter().chain(classes) {
        for byte in value.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}
