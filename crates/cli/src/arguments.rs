//! The command line: its options, subcommands and help texts.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser};

use crate::size::parse_bytes;

/// The store that is used if none is named.
pub(crate) const DEFAULT_STORE: &str = "undercroft://default";

const ABOUT: &str = "\
Redis data structures in shared memory.

A store is one file that any number of processes map and use at the same time, without a server. \
`undercroft serve` gives it to Redis clients as well; the other commands look at it, mend it and copy it.

A STORE is named in one of four ways:
  NAME                 a store in shared memory, in a directory of yours under /dev/shm
  undercroft://NAME    the same, as clients write it
  undercroft:///PATH   a file, by its absolute path
  PATH                 a file, by a path with a '/' in it
Where none is named it is undercroft://default, or what UNDERCROFT_STORE says.";

const EXAMPLES: &str = "\
Examples:
  undercroft serve                         serve undercroft://default on 127.0.0.1:6379
  undercroft exec --create SET a 1         run one command, without a server
  undercroft stat                          what the store holds and who uses it
  undercroft stat cache                    the same of the store undercroft://cache
  undercroft export backup.undercroft      copy the store into a file
  undercroft help serve                    more about a command

Exit status: 0 success; 1 failure, one line on standard error says which; 2 wrong usage; 130 ended by a signal.";

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
    /// A usage error, or the requested help or version.
    pub(crate) fn read(words: &[OsString]) -> Result<Arguments, clap::Error> {
        let mut command = Arguments::command();
        let matches = command.try_get_matches_from_mut(words)?;
        if let Some((name, given)) = matches.subcommand()
            && names_two_stores(given)
        {
            let text =
                format!("undercroft {name}: the store is named twice, by its place and by --store");
            return Err(command.error(ErrorKind::ArgumentConflict, text));
        }
        Arguments::from_arg_matches(&matches)
    }
}

/// Whether the command line names the store twice, by argument and by option, so that one of them
/// would be ignored. A store in the environment is a default and does not count.
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

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Serve(Box<Serve>),
    Exec(Exec),
    /// Show what a store holds and who uses it
    #[command(after_help = "\
Sizes, keys, the processes that have the store open, and the locks that are held at this moment, with the \
process that holds each and whether it runs, is stopped or is dead. Changes nothing. --json prints the same figures as \
one JSON object, sizes in bytes and times in milliseconds.

Examples:
  undercroft stat
  undercroft stat cache
  undercroft stat cache --json | jq .keys")]
    Stat(Stat),
    /// Check every structure of a store
    #[command(after_help = "\
Walks every table, key and block. Writers wait meanwhile. The exit status is 0 where the store is sound, and 1 where \
it is damaged; then each line says what is wrong, and where.

Examples:
  undercroft check
  undercroft check ./store && echo sound
  undercroft check --unclean /var/lib/app/store")]
    Check(Check),
    /// Recover at once what dead processes left in a store, and do its upkeep
    #[command(after_help = "\
Nobody needs it: whoever comes next to a lock that a dead process holds recovers what that process left, and whoever \
writes does upkeep, a little at a time. It only makes sure that all of it is done now: keys that have expired are \
removed, what was flushed is freed, and free memory goes back to the system.

Examples:
  undercroft recover cache")]
    Recover(OfStore),
    /// Write all of a store to the disk
    #[command(after_help = "\
A store on a disk that is changed and not synced is refused after a power cut or a crash of the kernel, as its pages \
were written back in any order; one that was synced, and not changed since, is as it was. It may be copied then, too, \
and opened on another machine. Serve does the same when it ends, and import. The exit status is 1 where others \
changed the store all the time.

Examples:
  undercroft sync /var/lib/app/store
  undercroft sync ./store && cp --sparse=always ./store backup")]
    Sync(OfStore),
    Export(Export),
    Import(Import),
    /// List your stores in shared memory
    #[command(after_help = "\
Shows the stores named undercroft://NAME, their sizes, how many living processes have written to them, and how many \
others have them open. \
Stores at other paths are not listed: look at one with undercroft stat --store PATH.

Examples:
  undercroft list")]
    List,
    Rm(Remove),
}

/// Which store, where a command has other words of its own.
#[derive(Debug, Args)]
pub(crate) struct StoreOption {
    /// The store: NAME, undercroft://NAME, undercroft:///PATH, or a path with a '/' [default: undercroft://default]
    #[arg(
        long,
        value_name = "STORE",
        env = "UNDERCROFT_STORE",
        hide_env_values = true
    )]
    store: Option<String>,
}

impl StoreOption {
    /// Returns the name of the store to use.
    pub(crate) fn name(&self) -> &str {
        self.store.as_deref().unwrap_or(DEFAULT_STORE)
    }
}

/// Which store, by its place or by the option.
#[derive(Debug, Args)]
pub(crate) struct StoreArgument {
    /// The store: NAME, undercroft://NAME, undercroft:///PATH, or a path with a '/' [default: undercroft://default]
    #[arg(value_name = "STORE")]
    store: Option<String>,
    /// The same as STORE
    #[arg(
        id = "store-option",
        long = "store",
        value_name = "STORE",
        env = "UNDERCROFT_STORE",
        hide_env_values = true
    )]
    option: Option<String>,
}

impl StoreArgument {
    /// Returns the store that the user named, if any.
    pub(crate) fn given(&self) -> Option<&str> {
        self.store.as_deref().or(self.option.as_deref())
    }

    /// Returns the name of the store to use.
    pub(crate) fn name(&self) -> &str {
        self.given().unwrap_or(DEFAULT_STORE)
    }
}

/// Serve a store to Redis clients
#[derive(Debug, Args)]
#[command(after_help = "\
The store is created where it is missing. Clients on this machine only are served unless --bind says otherwise, and \
those on other machines need a password: set one with --requirepass or UNDERCROFT_REQUIREPASS.

It ends cleanly by Ctrl-C, SIGTERM or the SHUTDOWN command; the data stays in the store.

A configuration file has lines of a name and a value, as redis.conf has, with the names above and those of \
CONFIG GET (timeout, hz, slowlog-log-slower-than ...). What a redis.conf says of replication, snapshots and the like is named in the \
log and skipped. The command line counts before the environment, and that before the file.

Examples:
  undercroft serve
  undercroft serve cache --port 6400 --maxmemory 4gb
  undercroft serve --port 0 --unixsocket /run/me/undercroft.sock
  UNDERCROFT_REQUIREPASS=secret undercroft serve --bind '* -::*'
  undercroft serve --config /etc/undercroft.conf")]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
    /// TCP port; 0 is none [default: 6379]
    #[arg(
        long,
        value_name = "N",
        env = "UNDERCROFT_PORT",
        hide_env_values = true
    )]
    pub(crate) port: Option<String>,
    /// Addresses to listen on, with blanks between them; one that begins with '-' may be missing on this machine,
    /// '*' and '::*' are all of IPv4 and IPv6 [default: 127.0.0.1 -::1]
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
    /// Password that clients must send (AUTH); others on this machine can read the command line, so better set the
    /// environment variable or the file
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "UNDERCROFT_REQUIREPASS",
        hide_env_values = true,
        hide_env_values = true
    )]
    pub(crate) requirepass: Option<String>,
    /// Address space of a store that is created: the most it can ever hold, costs nothing until it is used
    /// [default: 64gb, or the file system's size]
    #[arg(
        long,
        value_name = "SIZE",
        env = "UNDERCROFT_CAPACITY",
        hide_env_values = true
    )]
    pub(crate) capacity: Option<String>,
    /// Limit on the data of the store, from now on and for all its users; 0 is none [default: 1gb for a new store]
    #[arg(
        long,
        value_name = "SIZE",
        env = "UNDERCROFT_MAXMEMORY",
        hide_env_values = true
    )]
    pub(crate) maxmemory: Option<String>,
    /// Which keys make room at that limit, for all users of the store: noeviction, or allkeys- or volatile- with lru,
    /// lfu or random, or volatile-ttl [default: noeviction for a new store]
    #[arg(
        long,
        value_name = "POLICY",
        env = "UNDERCROFT_MAXMEMORY_POLICY",
        hide_env_values = true
    )]
    pub(crate) maxmemory_policy: Option<String>,
    /// Most clients at a time [default: 10000]
    #[arg(
        long,
        value_name = "N",
        env = "UNDERCROFT_MAXCLIENTS",
        hide_env_values = true
    )]
    pub(crate) maxclients: Option<String>,
    /// Threads that serve clients; with 1 all commands run in the order in which they arrive, as in Redis
    /// [default: one for each core]
    #[arg(
        long,
        value_name = "N",
        env = "UNDERCROFT_THREADS",
        hide_env_values = true
    )]
    pub(crate) threads: Option<String>,
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
A store that does not exist is created only with --create. Prints the reply as redis-cli does: with types and quotes on \
a terminal, plain otherwise (--raw and --no-raw choose). The exit status is 1 where the reply is an error.

Options of exec come before the command. All words after it are the command's arguments; one that looks like an option \
of exec is refused, unless '--' precedes the command.

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
    /// Database to run it in
    #[arg(
        short = 'n',
        long = "db",
        alias = "database",
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) database: u32,
    /// Print strings as they are, whatever the output is
    #[arg(long, overrides_with = "no_raw")]
    pub(crate) raw: bool,
    /// Print types and quotes, whatever the output is
    #[arg(long)]
    pub(crate) no_raw: bool,
    /// Create the store where it does not exist
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

/// Which store to describe, and how.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which store to check, and how.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
    /// Also a store that is refused as it was not synced before its machine stopped; its file stays as it is
    #[arg(long)]
    pub(crate) unclean: bool,
}

/// Copy a store into a file
#[derive(Debug, Args)]
#[command(after_help = "\
The copy shows the whole store at one moment, and nobody waits for it: the store's memory is copied into this \
process', which needs as much of it as the store has in use, while others read and write. The file is written after \
that, and takes its name only when it is complete: an export that fails or is interrupted leaves nothing. A FILE that is \
no regular file, such as a pipe, is written to as it is. The format is described in docs/export-format.md; import reads it.

Examples:
  undercroft export backup.undercroft
  undercroft export cache backup.undercroft
  undercroft export cache - | ssh backup 'cat > cache.undercroft'
  undercroft export --unclean /var/lib/app/store saved.undercroft")]
#[command(override_usage = "undercroft export [OPTIONS] [STORE] <FILE>")]
pub(crate) struct Export {
    #[command(flatten)]
    store: StoreOption,
    /// The file to write, '-' for standard output; an existing file is replaced; with two words the first is the store
    #[arg(required = true, num_args = 1..=2, value_name = "FILE")]
    words: Vec<PathBuf>,
    /// Also a store that is refused as it was not synced before its machine stopped; its file stays as it is
    #[arg(long)]
    pub(crate) unclean: bool,
}

impl Export {
    /// Returns the store to copy and the file to write.
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

/// Fill a store from a file that export wrote
#[derive(Debug, Args)]
#[command(after_help = "\
The whole file is verified first: a damaged one is refused, with the place of the damage, and changes nothing. A store \
that does not exist is created, and takes its name only when all keys are in it. Keys that have expired meanwhile are \
left out.

Examples:
  undercroft import backup.undercroft
  undercroft import backup.undercroft copy --maxmemory 8gb
  undercroft import backup.undercroft --replace")]
pub(crate) struct Import {
    /// The file to read
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgument,
    /// Remove all keys of the store first; without it a store that has keys is refused
    #[arg(long)]
    pub(crate) replace: bool,
    /// Address space of a store that is created [default: 64gb, or the file system's size]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) capacity: Option<u64>,
    /// Limit on the data of the store from now on; 0 is none [default: 1gb for a new store]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) maxmemory: Option<u64>,
}

/// Remove a store
#[derive(Debug, Args)]
#[command(after_help = "\
Asks before it removes a store that living processes have open: they keep the memory they have mapped, and their \
writes fail from then on.

Examples:
  undercroft rm cache
  undercroft rm undercroft://cache --yes
  undercroft rm ./store")]
pub(crate) struct Remove {
    /// The store: its name, undercroft://NAME, undercroft:///PATH, or a path with a '/'
    #[arg(value_name = "STORE")]
    pub(crate) store: String,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }
}
