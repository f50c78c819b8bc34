//! Defines the command line: its options, subcommands and help texts.
//!
//! - `doctor`: defines the options of the subcommand `doctor`.
//! - `follow`: defines the options of the subcommand `follow`.
//! - `journal`: defines the options of the subcommands for journals.
//! - `store`: defines how the command line names a store.
//! - `tls`: defines the options of the subcommand `tls`.
//! - `writes`: defines what a server does with commands that change keys of a replica.

pub(crate) mod doctor;
pub(crate) mod follow;
pub(crate) mod journal;
pub(crate) mod store;
pub(crate) mod tls;
pub(crate) mod writes;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser};

use crate::arguments::doctor::Doctor;
use crate::arguments::follow::Follow;
use crate::arguments::journal::{Journal, Recover};
pub(crate) use crate::arguments::store::DEFAULT_STORE;
use crate::arguments::store::{StoreArgument, StoreOption};
use crate::arguments::tls::Tls;
use crate::arguments::writes::Writes;
use crate::size::parse_bytes;

const ABOUT: &str = "\
Redis data structures in shared memory.

A store is one file that any number of processes map and use at the same time, without a server. \
`undercroft serve` makes it available to Redis clients; the other commands inspect, repair and copy it.

A STORE is named in one of four ways:
  NAME                 a store in shared memory, in your directory under /dev/shm
  undercroft://NAME    the same, in the form that clients use
  undercroft:///PATH   a file, by its absolute path
  PATH                 a file, by a path with a '/' in it
The default is undercroft://default, or the value of UNDERCROFT_STORE.";

const EXAMPLES: &str = "\
Examples:
  undercroft serve                         serve undercroft://default on 127.0.0.1:6379
  undercroft exec --create SET a 1         run one command, without a server
  undercroft stat                          show what the store holds and which processes use it
  undercroft stat cache                    the same for the store undercroft://cache
  undercroft export backup.undercroft      copy the store to a file
  undercroft help serve                    show the help of a command

Exit status: 0 on success; 1 on failure, with one line on standard error; 2 on wrong usage; 130 if a signal ended it.";

/// The complete command line.
#[derive(Debug, Parser)]
#[command(
    name = "undercroft",
    bin_name = "undercroft",
    version,
    about = "Redis data structures in shared memory.",
    long_about = ABOUT,
    after_help = EXAMPLES,
    max_term_width = 110
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

impl Arguments {
    /// Parses a command line.
    ///
    /// # Errors
    /// Returns a usage error, or the requested help or version.
    pub(crate) fn read(words: &[OsString]) -> Result<Arguments, clap::Error> {
        let mut command = Arguments::command();
        let matches = command.try_get_matches_from_mut(words)?;
        if let Some((name, given)) = matches.subcommand()
            && names_two_stores(innermost(given))
        {
            let text = format!(
                "undercroft {name}: the store is named twice, as an argument and by --store; name it once"
            );
            return Err(command.error(ErrorKind::ArgumentConflict, text));
        }
        Arguments::from_arg_matches(&matches)
    }
}

/// Returns the arguments of the innermost subcommand.
fn innermost(given: &ArgMatches) -> &ArgMatches {
    given
        .subcommand()
        .map_or(given, |(_, given)| innermost(given))
}

/// Returns whether the command line names the store both by argument and by option. Undercroft
/// would then ignore one of the two names. A store named in the environment is only a default and
/// does not count.
fn names_two_stores(given: &ArgMatches) -> bool {
    let typed = |name: &str| {
        given.ids().any(|id| id == name)
            && given.value_source(name) == Some(ValueSource::CommandLine)
    };
    let two_words = || {
        let words = given.try_get_many::<PathBuf>("words").ok().flatten();
        words.is_some_and(|words| words.len() == 2)
    };
    typed("store") && (typed("store-option") || two_words())
}

/// The subcommand to run.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Serve(Box<Serve>),
    Exec(Exec),
    /// Show what a store holds and which processes use it
    #[command(after_help = "\
Shows sizes, keys, the processes that have the store open, and the locks that are held now, each with its holder \
and whether that process is running, stopped or dead. Changes nothing. --json prints the same as one JSON object, with \
sizes in bytes and times in milliseconds.

Examples:
  undercroft stat
  undercroft stat cache
  undercroft stat cache --json | jq .keys")]
    Stat(Stat),
    /// Check every structure of a store
    #[command(after_help = "\
Checks every table, key and block. Writers wait until the check is done. The exit status is 0 if the store is sound \
and 1 if it is damaged; each line then describes one fault and its place.

Examples:
  undercroft check
  undercroft check ./store && echo sound
  undercroft check --unclean /var/lib/app/store")]
    Check(Check),
    Doctor(Doctor),
    Follow(Follow),
    Recover(Recover),
    /// Write a store to the disk completely
    #[command(after_help = "\
A store on a disk that was changed after its last sync is refused after a power cut or a kernel crash, because its \
pages may have been written in any order. A store that was not changed since its sync is intact; its file can also be \
copied and opened on another machine. serve syncs when it stops, and import when it is done. The exit status is 1 if \
other processes kept changing the store during the sync.

Examples:
  undercroft sync /var/lib/app/store
  undercroft sync ./store && cp --sparse=always ./store backup")]
    Sync(OfStore),
    /// Write the entire store to its journal's folder
    #[command(after_help = "\
Writes a checkpoint, from which recovery starts, and removes the files that it replaces. Other processes read and write \
in the meantime. A store with a journal writes checkpoints by itself when the journal has grown enough. After an error \
of the disk, a checkpoint is what makes new changes durable again.

Examples:
  undercroft checkpoint cache")]
    Checkpoint(OfStore),
    Durability(SetDurability),
    Journal(Journal),
    Export(Export),
    Import(Import),
    /// List your stores in shared memory
    #[command(after_help = "\
Shows the stores named undercroft://NAME, their sizes, how many living processes have written to them, and how many \
others have them open. Stores at other paths are not listed: inspect one with undercroft stat --store PATH.

Examples:
  undercroft list")]
    List,
    Rm(Remove),
    Tls(Tls),
}

/// Serve a store to Redis clients
#[derive(Debug, Args)]
#[command(after_help = "\
Creates the store if it does not exist. Serves only clients on this machine unless --bind says otherwise; clients on \
other machines need a password: set one with --requirepass or UNDERCROFT_REQUIREPASS.

Stop it with Ctrl-C, SIGTERM or the SHUTDOWN command; the data stays in the store.

A configuration file has one name and value per line, as redis.conf does: the options above and the parameters of \
CONFIG GET (timeout, hz, slowlog-log-slower-than ...). appendonly yes begins a journal, and appendfsync selects its \
mode. Directives of redis.conf for replication, snapshots and the like are logged and ignored. The command line overrides the environment, which overrides the file.

Parameters that only the file can set: audit-log PATH records logins, refused and dangerous commands, and rename-command NAME NEWNAME renames a command, or removes it if NEWNAME is \"\".

Examples:
  undercroft serve
  undercroft serve cache --port 6400 --maxmemory 4gb
  undercroft serve cache --durability everysec
  undercroft serve cache --dir /var/backups/cache
  undercroft serve --port 0 --unixsocket /run/me/undercroft.sock
  UNDERCROFT_REQUIREPASS=secret undercroft serve --bind '* -::*'
  undercroft serve --config /etc/undercroft.conf")]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
    /// TCP port; 0 for no TCP [default: 6379]
    #[arg(
        long,
        value_name = "N",
        env = "UNDERCROFT_PORT",
        hide_env_values = true
    )]
    pub(crate) port: Option<String>,
    /// Addresses to listen on, separated by spaces; one that begins with '-' is skipped if this
    /// machine lacks it, '*' and '::*' are all IPv4 and IPv6 addresses [default: 127.0.0.1 -::1]
    #[arg(
        long,
        value_name = "ADDRESSES",
        env = "UNDERCROFT_BIND",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    pub(crate) bind: Option<String>,
    /// Unix socket to listen on, for this user only
    #[arg(
        long,
        value_name = "PATH",
        env = "UNDERCROFT_UNIXSOCKET",
        hide_env_values = true
    )]
    pub(crate) unixsocket: Option<String>,
    /// Password that clients must send (AUTH); prefer the environment variable or the configuration file, because
    /// other users of this machine can read the command line
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "UNDERCROFT_REQUIREPASS",
        hide_env_values = true,
        hide_env_values = true
    )]
    pub(crate) requirepass: Option<String>,
    /// Address space of a new store, the most it can ever hold; it uses no memory until data is
    /// stored [default: 64gb, or the file system's size]
    #[arg(
        long,
        value_name = "SIZE",
        env = "UNDERCROFT_CAPACITY",
        hide_env_values = true
    )]
    pub(crate) capacity: Option<String>,
    /// Limit on the store's data from now on, for all its users; 0 for no limit [default: 1gb for a
    /// new store]
    #[arg(
        long,
        value_name = "SIZE",
        env = "UNDERCROFT_MAXMEMORY",
        hide_env_values = true
    )]
    pub(crate) maxmemory: Option<String>,
    /// Which keys to evict at that limit, for all users of the store: noeviction, allkeys- or volatile- with lru,
    /// lfu or random, or volatile-ttl [default: noeviction for a new store]
    #[arg(
        long,
        value_name = "POLICY",
        env = "UNDERCROFT_MAXMEMORY_POLICY",
        hide_env_values = true
    )]
    pub(crate) maxmemory_policy: Option<String>,
    /// When changes survive a failure of the machine, for all users of the store from now on: everysec (a second
    /// later) or always (before the reply); begins a journal if the store has none [default: as the store has it]
    #[arg(
        long,
        value_name = "MODE",
        env = "UNDERCROFT_DURABILITY",
        hide_env_values = true
    )]
    pub(crate) durability: Option<String>,
    /// Folder of the journal, from which a store is recovered whose file is gone [default: the store's file with
    /// .journal, or a folder of that name in ~/.local/state/undercroft for a store in shared memory]
    #[arg(
        long,
        value_name = "PATH",
        env = "UNDERCROFT_JOURNAL",
        hide_env_values = true
    )]
    pub(crate) journal: Option<PathBuf>,
    /// Folder in which SAVE and BGSAVE write a snapshot in the format of Redis; clients cannot change it
    /// [default: none; both commands then write a checkpoint of the journal only]
    #[arg(
        long,
        value_name = "PATH",
        env = "UNDERCROFT_DIR",
        hide_env_values = true
    )]
    pub(crate) dir: Option<String>,
    /// Name of the snapshot in that folder [default: dump.rdb]
    #[arg(
        long,
        value_name = "NAME",
        env = "UNDERCROFT_DBFILENAME",
        hide_env_values = true
    )]
    pub(crate) dbfilename: Option<String>,
    /// TCP port for connections with TLS; 0 for none [default: 0]
    #[arg(
        long,
        value_name = "PORT",
        env = "UNDERCROFT_TLS_PORT",
        hide_env_values = true
    )]
    pub(crate) tls_port: Option<String>,
    /// Certificate of the server in PEM form, followed by those of its issuers
    #[arg(
        long,
        value_name = "FILE",
        env = "UNDERCROFT_TLS_CERT_FILE",
        hide_env_values = true
    )]
    pub(crate) tls_cert_file: Option<String>,
    /// Private key of the certificate in PEM form
    #[arg(
        long,
        value_name = "FILE",
        env = "UNDERCROFT_TLS_KEY_FILE",
        hide_env_values = true
    )]
    pub(crate) tls_key_file: Option<String>,
    /// Certificates of the authorities whose clients are accepted
    #[arg(
        long,
        value_name = "FILE",
        env = "UNDERCROFT_TLS_CA_CERT_FILE",
        hide_env_values = true
    )]
    pub(crate) tls_ca_cert_file: Option<String>,
    /// Whether clients need a certificate: yes, no or optional [default: yes]
    #[arg(
        long,
        value_name = "WORD",
        env = "UNDERCROFT_TLS_AUTH_CLIENTS",
        hide_env_values = true
    )]
    pub(crate) tls_auth_clients: Option<String>,
    /// Maximum number of clients at a time [default: 10000]
    #[arg(
        long,
        value_name = "N",
        env = "UNDERCROFT_MAXCLIENTS",
        hide_env_values = true
    )]
    pub(crate) maxclients: Option<String>,
    /// Threads that serve clients; with 1, commands run in the order in which they arrive, as in Redis
    /// [default: one per core]
    #[arg(
        long,
        value_name = "N",
        env = "UNDERCROFT_THREADS",
        hide_env_values = true
    )]
    pub(crate) threads: Option<String>,
    /// Handling of commands that change keys while the store follows a source: refuse them (READONLY), or
    /// forward them to the source
    #[arg(
        long,
        value_name = "HOW",
        env = "UNDERCROFT_WRITES",
        hide_env_values = true,
        default_value = "refuse"
    )]
    pub(crate) writes: Writes,
    /// Configuration file
    #[arg(
        long,
        value_name = "FILE",
        env = "UNDERCROFT_CONFIG",
        hide_env_values = true
    )]
    pub(crate) config: Option<PathBuf>,
}

/// Run one command on a store, without a server
#[derive(Debug, Args)]
#[command(after_help = "\
A missing store is created only with --create. Prints the reply as redis-cli does: with types and quotes on a \
terminal, plain otherwise (override with --raw or --no-raw). The exit status is 1 if the reply is an error.

Options of exec come before the command. Everything after the command is an argument of it; an argument that looks \
like an option of exec is refused unless '--' precedes the command.

Examples:
  undercroft exec --create SET greeting 'hello world' EX 60
  undercroft exec GET greeting
  undercroft exec --store cache --db 1 SCAN 0 MATCH 'user:*' COUNT 100
  undercroft exec -- LPUSH words --store --raw
  undercroft exec -x SET picture < picture.png
  undercroft exec INFO keyspace")]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) store: StoreOption,
    /// Database in which to run it
    #[arg(
        short = 'n',
        long = "db",
        alias = "database",
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) database: u32,
    /// Print plain strings, even on a terminal
    #[arg(long, overrides_with = "no_raw")]
    pub(crate) raw: bool,
    /// Print types and quotes, even if the output is not a terminal
    #[arg(long)]
    pub(crate) no_raw: bool,
    /// Create the store if it does not exist
    #[arg(long)]
    pub(crate) create: bool,
    /// Read the last argument of the command from standard input, to its end
    #[arg(short = 'x')]
    pub(crate) input: bool,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<OsString>,
}

/// A command on one store.
#[derive(Debug, Args)]
pub(crate) struct OfStore {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// Choose when a store's changes become durable
#[derive(Debug, Args)]
#[command(after_help = "\
none: changes survive the death of any process, but not a restart of the machine. everysec: changes also survive a \
power cut a second later. always: every call returns once its changes are on the disk.

A store without a journal begins one: in its folder, PATH.journal next to the store's file, or \
~/.local/state/undercroft/NAME.journal for a store in shared memory. The mode applies to all processes that use the \
store. When the store's file is gone after a restart of the machine, the next process that opens the store recovers it.

Examples:
  undercroft durability cache everysec
  undercroft durability /var/lib/app/store always
  undercroft durability cache everysec --journal /var/lib/app/cache.journal")]
pub(crate) struct SetDurability {
    /// The store: NAME, undercroft://NAME, undercroft:///PATH, or a path with a '/'
    #[arg(value_name = "STORE")]
    pub(crate) store: String,
    /// none, everysec or always
    #[arg(value_name = "MODE")]
    pub(crate) mode: String,
    /// Folder of a new journal
    #[arg(long, value_name = "PATH")]
    pub(crate) journal: Option<PathBuf>,
}

/// The store to describe, and the output format.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The store to check, and how to open it.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
    /// Accept a store that was not synced before its machine stopped; its file is not changed
    #[arg(long)]
    pub(crate) unclean: bool,
}

/// Copy a store to a file
#[derive(Debug, Args)]
#[command(after_help = "\
The copy shows the whole store at one moment and blocks no other process: export copies the store's memory while \
others read and write, which needs as much free memory as the store has in use. It then writes the file, which gets its \
name only when it is complete: a failed or interrupted export leaves nothing. A FILE that is not a regular file, such \
as a pipe, is written directly. docs/export-format.md describes the format; import reads it.

--format rdb writes a file for Redis or Valkey: version 9 for Redis 5 and newer, 10 for Redis 7.0 and newer, 11 for \
Redis 7.2, Valkey 7.2 and newer. It contains all keys, their expiry, and the function libraries. An RDB file cannot \
contain feeds, channels and objects: they are counted, and the export fails unless --skip-own leaves them out.

Examples:
  undercroft export backup.undercroft
  undercroft export cache backup.undercroft
  undercroft export cache - | ssh backup 'cat > cache.undercroft'
  undercroft export cache dump.rdb --format rdb
  undercroft export cache dump.rdb --format rdb --rdb-version 9 --skip-own
  undercroft export --unclean /var/lib/app/store saved.undercroft")]
#[command(override_usage = "undercroft export [OPTIONS] [STORE] <FILE>")]
pub(crate) struct Export {
    #[command(flatten)]
    store: StoreOption,
    /// The file to write, '-' for standard output; an existing file is replaced; a word before it names the store
    #[arg(required = true, num_args = 1..=2, value_name = "FILE")]
    words: Vec<PathBuf>,
    /// Format of the file
    #[arg(long, value_enum, default_value = "undercroft")]
    pub(crate) format: ExportFormat,
    /// Version of an RDB file
    #[arg(long, value_enum, value_name = "VERSION", default_value = "10")]
    pub(crate) rdb_version: RdbVersionArgument,
    /// Leave feeds, channels and objects out of an RDB file
    #[arg(long)]
    pub(crate) skip_own: bool,
    /// Accept a store that was not synced before its machine stopped; its file is not changed
    #[arg(long)]
    pub(crate) unclean: bool,
}

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// Everything, for import
    Undercroft,
    /// For Redis and Valkey
    Rdb,
}

/// The version of an RDB file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RdbVersionArgument {
    /// Redis 5 and newer
    #[value(name = "9")]
    V9,
    /// Redis 7.0 and newer
    #[value(name = "10")]
    V10,
    /// Redis 7.2, Valkey 7.2 and newer
    #[value(name = "11")]
    V11,
}

impl Export {
    /// Returns the name of the store to copy, and the path of the file to write.
    pub(crate) fn names(&self) -> (Cow<'_, str>, &Path) {
        match &self.words[..] {
            [store, file] => (store.to_string_lossy(), file),
            words => {
                let file = words.first().map_or(Path::new(""), PathBuf::as_path);
                (self.store.name().into(), file)
            }
        }
    }
}

/// Fill a store from a file of export, Redis or Valkey
#[derive(Debug, Args)]
#[command(after_help = "\
FILE is a file that export wrote, an RDB file (dump.rdb) of Redis 2.6 to 8.2 or Valkey, or an append-only file; its \
first bytes tell which. A folder of append-only files (appendonlydir) is read as its manifest says.

Verifies the whole file first: a damaged file is refused with the place of the damage, and nothing is changed. A \
missing store is created and gets its name only when all keys are in it. Keys that have expired since the file was \
written are left out.

Function libraries of an RDB file are loaded, and its hints about the use of keys (LRU, LFU) are kept. Data of modules \
is refused, naming the module. The commands of append-only files run in order; a tail that a crash truncated is left \
out, with a warning that gives its offset. Fields of hashes that expire (Redis 7.4, Valkey 9) are refused unless \
--drop-field-expiry is given.

Examples:
  undercroft import backup.undercroft
  undercroft import backup.undercroft copy --maxmemory 8gb
  undercroft import backup.undercroft --replace
  undercroft import /var/lib/redis/dump.rdb cache --maxmemory 8gb
  ssh host cat dump.rdb | undercroft import - cache
  undercroft import /var/lib/redis/appendonlydir cache")]
pub(crate) struct Import {
    /// The file or folder to read, '-' for standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgument,
    /// Remove all keys of the store first; without it, a store that has keys is refused. Function libraries of the
    /// file replace those of the same name
    #[arg(long)]
    pub(crate) replace: bool,
    /// Change an existing store while the file of Redis or Valkey is read, without validating it first; a pipe can
    /// then fill it
    #[arg(long)]
    pub(crate) streaming: bool,
    /// Store fields of hashes that expire without their expiry; fields that have expired are left out
    #[arg(long)]
    pub(crate) drop_field_expiry: bool,
    /// Address space of a new store [default: 64gb, or the file system's size]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) capacity: Option<u64>,
    /// Limit on the store's data from now on; 0 for no limit [default: 1gb for a new store]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) maxmemory: Option<u64>,
}

/// Remove a store
#[derive(Debug, Args)]
#[command(after_help = "\
Asks for confirmation if living processes have the store open: they keep the memory that they have mapped, and their \
writes fail from then on.

Examples:
  undercroft rm cache
  undercroft rm undercroft://cache --yes
  undercroft rm ./store")]
pub(crate) struct Remove {
    /// The store: its name, undercroft://NAME, undercroft:///PATH, or a path with a '/'
    #[arg(value_name = "STORE")]
    pub(crate) store: String,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_definition_is_valid() {
        Arguments::command().debug_assert();
    }
}
