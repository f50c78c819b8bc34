//! Defines the options of the subcommand `follow`.

use std::path::PathBuf;

use clap::Args;
use undercroft_links::follow::{FollowError, SourceUrl, TlsFiles};

use crate::arguments::store::StoreOption;

/// Keep a store equal to a Redis or Valkey server
#[derive(Debug, Args)]
#[command(after_help = "\
Makes the store a replica of the server: loads its data set, then applies its changes as they arrive, until the command \
is stopped. Every process reads the data at the speed of a local store; changes by other processes fail with READONLY. \
The store is created if it does not exist. If the connection is lost or this command is killed, it continues with the \
next change, or loads the data set again if the server no longer has the changes; readers see the old data until then.

URL is redis://[user:password@]host[:port], rediss:// for TLS, unix:///path, \
redis+sentinel://host[:port],host[:port]/name or redis+cluster://host[:port],host[:port]. If the server belongs to a \
cluster, all masters of the cluster are followed, also while slots move and after failovers. The environment variable UNDERCROFT_FOLLOW can contain it, so that the \
password does not appear in the list of processes.

--db and --prefix keep a part of the server's data in the store: the keys of one database, or those whose names begin with \
a text, under the same names. Give the same options each time: with other ones, the data set is loaded again.

--promote ends a migration: it pauses the server's writers, waits until the store has all changes, compares the number \
of keys and a sample of values, and makes the store an ordinary one, while another command follows or by itself. The \
writers stay paused for the time that --pause says, in which programs change over to the store. If anything differs, the \
writers continue, the store stays a replica, and the command fails.

--end makes the store an ordinary one, which all processes may change, without a comparison.

Examples:
  undercroft follow redis://db.example:6379 --store cache
  undercroft follow redis+sentinel://s1,s2,s3/main --store cache --elect
  undercroft follow redis+cluster://node1:7000,node2:7000 --store cache
  undercroft follow redis://db.example:6379 --store cache --promote
  undercroft follow --end --store cache")]
pub(crate) struct Follow {
    /// The server to follow
    #[arg(
        value_name = "URL",
        env = "UNDERCROFT_FOLLOW",
        hide_env_values = true,
        required_unless_present = "end"
    )]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreOption,
    /// Wait while another process follows for this store, and take its place when it ends
    #[arg(long, conflicts_with = "end")]
    pub(crate) elect: bool,
    /// Follow only this database of the server
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u8).range(..undercroft_engine::DATABASES as i64),
        conflicts_with_all = ["end", "promote"]
    )]
    pub(crate) db: Option<u8>,
    /// Follow only keys whose names begin with this text
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["end", "promote"])]
    pub(crate) prefix: Option<String>,
    /// Store hashes whose fields expire without the expiries, instead of refusing the server's data
    #[arg(long, conflicts_with = "end")]
    pub(crate) drop_field_expiry: bool,
    /// Trust these certificate authorities (PEM) instead of those of the system, for rediss://
    #[arg(long, value_name = "FILE", conflicts_with = "end")]
    pub(crate) cacert: Option<PathBuf>,
    /// Identify with this certificate (PEM), if a server with TLS asks for one
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "end")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert", conflicts_with = "end")]
    pub(crate) key: Option<PathBuf>,
    /// Compare the store with the paused server, and make it an ordinary one
    #[arg(long, conflicts_with_all = ["end", "elect"])]
    pub(crate) promote: bool,
    /// How long --promote pauses the server's writers
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        requires = "promote"
    )]
    pub(crate) pause: u64,
    /// Make the store an ordinary one again
    #[arg(long)]
    pub(crate) end: bool,
}

impl Follow {
    /// Returns the URL of the source, with the certificates for its connections.
    pub(crate) fn source(&self) -> Result<SourceUrl, FollowError> {
        let mut url = SourceUrl::parse(self.url.as_deref().unwrap_or_default())?;
        url.tls = TlsFiles {
            authorities: self.cacert.clone(),
            client: self.cert.clone().zip(self.key.clone()),
        };
        Ok(url)
    }
}
