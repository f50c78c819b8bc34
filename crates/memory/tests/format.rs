//! Compares `docs/file-format.md` with the constants of `layout.rs`: the document must list each
//! constant exactly once, with its value, and no other constants.

use std::collections::BTreeMap;

use undercroft_memory::layout;

const PAGE: &str = include_str!("../../../docs/file-format.md");
const SOURCE: &str = include_str!("../src/mapped/layout.rs");

macro_rules! constants {
    ($($module:ident: $($name:ident)*;)*) => {
        [$($((
            concat!(stringify!($module), "::", stringify!($name)),
            layout::$module::$name,
        )),*),*]
    };
}

/// Returns every constant and its value. The value of a field is its offset in its structure.
fn constants() -> BTreeMap<String, u64> {
    let in_modules = constants! {
        header: MAGIC VERSION BYTE_ORDER FINGERPRINT SHARDS EXTENTS FILE_LENGTH CREATED HASH_KEY
            RING CHECKSUM UNSYNCED MAGIC_VALUE VERSION_VALUE BYTE_ORDER_VALUE;
        control: START HEAP_LOCK HEAP_LOG_TAIL HEAP_HIGH HEAP_FREE_PAGES
            RETIRED_COUNT RETIRED_SINCE RETIRED_OWNER HEAP_RESERVED SLOTS_USED MAX_MEMORY WATCHED
            WATCH_EPOCH EVICTION_POLICY EVICTION_SAMPLES LFU_LOG_FACTOR LFU_DECAY_TIME
            TOLD_EVENTS WRITING COPY_STATE COPY_TABLE COPY_EXTENTS COPY_STOCKED PINNED JOURNALED UPKEEP UPKEEP_PLACE
            SCRIPTS_FORGOTTEN LIBRARIES_CHANGED SCRIPTS_KILLED SCRIPT_SEEN USERS_CHANGED
            COPY_OWNER COPY_RUNS COPY_PAGES COPY_TAKEN REDO_LOCK REDO_HEAD REDO_WRITTEN
            REDO_DURABLE REDO_SIZE REDO_WRITER REDO_SYNCS REDO_FAILED REDO_EPOCH REDO_BEFORE
            REDO_HEAP_STEP CHECKPOINT CHECKPOINT_OWNER CHECKPOINT_AT CHECKPOINT_BYTES
            CHECKPOINT_TIME REDO_SEGMENT REDO_SYNCER REDO_FILLED CHECKPOINT_RATE CHECKPOINT_GROWTH REPLICA REDO_BEGIN
            TRACKED TRACKS_ALL TRACKERS TRACKER_COUNT
            GENERATION_BASE;
        slot: TABLE STRIDE GENERATION PID CLAIMED TENANT NAMESPACES USERS FOLLOWER SENDER PINS_USED PINS PIN_COUNT PIN_STRIDE
            PIN PIN_SINCE PIN_BYTES RECORDS RECORD_COUNT
            RECORD_STRIDE NUMBER COMMITTED SHARDS SEATS SEAT_COUNT SEAT_STRIDE;
        shard: LOCK COUNTER MARK LOG_OWNER LOG_NUMBER LOG_TAIL LOG_RESERVED LOG_BACKED LOG_LONG LOG_RETIRED
            LOG_PUNCHER USED_BYTES PAGES FREE_LIST
            FREE_COUNT GRAVEYARD RETURNING STAGING HINT_BITS CLASSES AGE LEFT_SINCE LEFT_BYTES
            LEFT_PLACE LEFT_UNTIL LEFT_OBJECTS LEFT_END ROOTS ROOT_WORDS HINTS
            HINT_BITS_MAX HINT_BITS_MIN CHANGES CHANGE_COUNT CHANGES_A_KEY CHANGED CHANGED_ANNOUNCED
            CHANGED_DATA CHANGED_BYTES TRACKED_KEYS TRACKED_SLOTS LOG LOG_RESERVED_MIN;
        ring: LOCK TAIL ANNOUNCED RESERVED RECORDS UNCOUNTED COUNTERS COUNTER_COUNT DATA DATA_MIN
            DATA_MAX;
        redo: PATH_LENGTH PATH PATH_MAX DATA DATA_MIN DATA_MAX;
        record: LENGTH HASH NUMBER COUNT PARTS NAME;
        descriptor: STRIDE RUN KIND NEXT PREVIOUS BITMAP SIBLINGS;
        arena: RUNS NOTE;
    };
    let top = [
        ("PAGE", layout::PAGE),
        ("EXTENT", layout::EXTENT),
        ("EXTENT_PAGES", layout::EXTENT_PAGES),
        ("EXTENTS_MAX", layout::EXTENTS_MAX),
        ("SHARDS_MAX", layout::SHARDS_MAX as u64),
        ("SLOTS", layout::SLOTS),
        ("HEAP_LOG", layout::HEAP_LOG),
        ("HEAP_LOG_RESERVED", layout::HEAP_LOG_RESERVED),
    ];
    let in_page = |(name, value): (&'static str, u64)| {
        let field = name.starts_with("control::")
            && !matches!(
                name,
                "control::START" | "control::TRACKER_COUNT" | "control::TRACKS_ALL"
            );
        (name, value - if field { layout::control::START } else { 0 })
    };
    let all = in_modules.map(in_page).into_iter().chain(top);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the names of the constants that the source declares.
fn declared() -> Vec<String> {
    let mut module = "";
    let mut names = Vec::new();
    for line in SOURCE.lines() {
        if let Some(name) = line.strip_prefix("pub mod ") {
            module = name.trim_end_matches(" {");
        } else if line == "}" {
            module = "";
        } else if let Some(rest) = line.trim_start().strip_prefix("pub const ") {
            let name = rest.split(':').next().expect("a name");
            let prefix = if module.is_empty() { "" } else { "::" };
            names.push(format!("{module}{prefix}{name}"));
        }
    }
    names
}

/// Returns the number and the name in each table row of the document whose second cell contains a
/// constant.
fn rows() -> Vec<(u64, String)> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells.get(2)?.strip_prefix('`')?.strip_suffix('`')?;
        Some((cells[1].parse().expect("a number"), name.to_owned()))
    };
    PAGE.lines()
        .filter(|line| line.starts_with('|'))
        .filter_map(row)
        .collect()
}

#[test]
fn documented_constants_match_the_source() {
    let constants = constants();
    let mut missing = declared();
    assert!(missing.len() > 60, "constants in the source: {missing:?}");
    for name in &missing {
        assert!(
            constants.contains_key(name),
            "this test does not know {name}"
        );
    }
    for (number, name) in rows() {
        let place = missing.iter().position(|wanted| *wanted == name);
        let place = place.unwrap_or_else(|| panic!("{name} is not a constant or exists twice"));
        missing.swap_remove(place);
        assert_eq!(number, constants[&name], "{name}");
    }
    assert_eq!(missing, Vec::<String>::new(), "not on the page");
}

#[test]
fn documented_offsets_match_those_of_a_store() {
    let small = layout::Layout::new(2, 8 << 20, 1 << 20);
    let number = |bytes: u64| {
        let digits = bytes.to_string();
        let groups = digits.as_bytes().rchunks(3).rev();
        let groups: Vec<_> = groups.map(|group| String::from_utf8_lossy(group)).collect();
        groups.join(",")
    };
    for place in [
        format!("| {} | shards |", number(small.shard_start)),
        format!("each {} plus", number(layout::shard::LOG)),
    ] {
        assert!(PAGE.contains(&place), "{place:?} is not on the page");
    }
    let after_shards = small.shard_start + 2 * small.shard_stride;
    assert_eq!(small.heap_log, after_shards);
    assert_eq!(small.ring, after_shards + layout::HEAP_LOG);
    assert_eq!(small.redo, small.ring + layout::ring::DATA + (1 << 20));
    assert_eq!(
        small.reserved_map,
        small.redo + layout::redo::DATA + (2 << 20)
    );
    assert!(small.heap.is_multiple_of(2 << 20));
    assert_eq!(small.log_capacity, (8 << 20) / 16);
}
