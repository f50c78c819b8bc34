//! Defines the options of the subcommands `recover` and `journal`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::store::StoreArgument;

/// Recover a store from dead processes now, or as it was at an earlier time
#[derive(Debug, Args)]
#[command(after_help = "\
Without --until: rarely needed. The next process that meets the lock of a dead process rolls back its unfinished write, \
and writers do upkeep in small steps. This command does all of it now: it removes expired keys, frees flushed data and \
returns free memory to the system.

With --until: creates the store as it was at a position of its journal, at a time, or at the journal's end. A change is \
recovered completely or not at all. The store must not exist, or --to must name another one. It has no journal until \
undercroft durability begins one. The journal is only read; if it is in the place of the new store's journal, its \
folder is renamed, so that no later recovery repeats the changes that were left out. The journal reaches back to the \
last checkpoint; undercroft journal dump lists its positions and times.

Examples:
  undercroft recover cache
  undercroft recover cache --until 4711 --to cache-before
  undercroft recover cache --until 2026-11-30T14:05:00Z
  undercroft recover cache --journal /backup/cache --until end")]
pub(crate) struct Recover {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
    /// Recover everything up to this position, this time (2026-11-30T14:05:00Z) or the 'end' of the journal
    #[arg(long, value_name = "MOMENT")]
    pub(crate) until: Option<String>,
    /// Folder of the journal [default: the folder of the store's journal]
    #[arg(long, value_name = "FOLDER", requires = "until")]
    pub(crate) journal: Option<PathBuf>,
    /// The store to create [default: STORE]
    #[arg(long, value_name = "STORE", requires = "until")]
    pub(crate) to: Option<String>,
}

/// Show, verify or copy the journal of a store
#[derive(Debug, Args)]
#[command(after_help = "\
These commands only read the journal, while processes use the store or after its file is gone.

Examples:
  undercroft journal list cache
  undercroft journal verify cache
  undercroft journal dump cache --since 2026-11-30T14:00:00Z --keys
  undercroft journal backup cache /backup/cache-monday")]
pub(crate) struct Journal {
    #[command(subcommand)]
    pub(crate) action: JournalAction,
}

/// The operation on a journal.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum JournalAction {
    /// List the files of a journal
    #[command(after_help = "\
Shows each checkpoint and each segment with its epoch, its first position and the one after its last, its size, and \
when it was last written.

Examples:
  undercroft journal list cache
  undercroft journal list --journal /backup/cache --json")]
    List(JournalOf),
    /// Read all files of a journal and verify their checksums
    #[command(after_help = "\
The exit status is 0 if the journal is intact and 1 if it is damaged; each line then names a file and the offset of its \
first damage. An incomplete end is normal after a power cut.

Examples:
  undercroft journal verify cache
  undercroft journal verify --journal /backup/cache")]
    Verify(JournalOf),
    Dump(JournalDump),
    /// Copy a journal while processes use the store
    #[command(after_help = "\
A plain copy of the folder of a journal in use may not be valid: use this command. It copies the last checkpoint and all \
changes since, verifies them, and gives the copy its name when it is complete. undercroft recover --journal FOLDER \
--until end makes a store of it.

Examples:
  undercroft journal backup cache /backup/cache-monday")]
    Backup(JournalBackup),
}

/// A journal, named by its store or by its folder.
#[derive(Debug, Args)]
pub(crate) struct JournalOf {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
    /// Folder of the journal [default: the folder of the store's journal]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) journal: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the changes in a journal
#[derive(Debug, Args)]
#[command(after_help = "\
Shows each transaction since the oldest checkpoint: its position, the time of the last sync before it, the slot of its \
process (undercroft stat lists slots), its shards, and the number of changed bytes. --since TIME begins at the last sync \
that is not later. --json prints one object per line.

--keys also shows which keys were added, changed and removed. It recovers the store into a temporary file in /dev/shm \
and repeats the changes there. A change deep in a large collection may be shown without its key.

Examples:
  undercroft journal dump cache
  undercroft journal dump cache --since 2026-11-30T14:00:00Z
  undercroft journal dump cache --since 4711 --json")]
pub(crate) struct JournalDump {
    #[command(flatten)]
    pub(crate) of: JournalOf,
    /// Begin at this position or time (2026-11-30T14:05:00Z)
    #[arg(long, value_name = "MOMENT")]
    pub(crate) since: Option<String>,
    /// Show the keys that were changed
    #[arg(long)]
    pub(crate) keys: bool,
    /// Include steps of the heap, syncs and steps that had no effect
    #[arg(long)]
    pub(crate) all: bool,
}

/// Copy a journal
#[derive(Debug, Args)]
pub(crate) struct JournalBackup {
    /// The store: NAME, undercroft://NAME, undercroft:///PATH, or a path with a '/'; or --journal
    #[arg(required = true, num_args = 1..=2, value_name = "STORE FOLDER")]
    pub(crate) words: Vec<PathBuf>,
    /// Folder of the journal [default: the folder of the store's journal]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) journal: Option<PathBuf>,
}
