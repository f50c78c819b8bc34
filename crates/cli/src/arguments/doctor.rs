//! Defines the options of the subcommand `doctor`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::store::StoreArgument;

/// Check how well a store and its server are protected
#[derive(Debug, Args)]
#[command(after_help = "\
Reports weaknesses of the store's files and users, of a running server (--server) or of a configuration file (--config), \
each with its severity, the reason and the remedy. Changes nothing. The exit status is 0 if no weakness is high, and 1 \
otherwise.

The URL of --server is redis://, rediss:// or unix://, with a user who may run CONFIG GET, ACL LIST and INFO.

Examples:
  undercroft doctor --security cache
  undercroft doctor --security --config /etc/undercroft.conf
  undercroft doctor --security cache --server redis://ops:secret@127.0.0.1:6379 --json")]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
    /// Check the protection; the only kind of check so far
    #[arg(long, required = true)]
    pub(crate) security: bool,
    /// URL of a running server to check
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Configuration file of a server to check
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
