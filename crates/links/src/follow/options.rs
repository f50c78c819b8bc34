//! How to follow a source.

use crate::follow::filter::KeyFilter;
use crate::follow::source_url::SourceUrl;
use crate::load::LoadOptions;

/// How to follow a source.
#[derive(Clone, Debug)]
pub struct FollowOptions {
    /// The source.
    pub url: SourceUrl,
    /// How to load its data sets.
    pub load: LoadOptions,
    /// The keys of the source that the store has.
    pub filter: KeyFilter,
    /// Whether to wait while another process follows a source for the store, and to take its place
    /// when it ends. Otherwise, this is an error.
    pub is_elected: bool,
    /// The port that the source shows for this replica, or 0.
    pub listening_port: u16,
    /// Whether a server follows, which does so again after its next start.
    pub is_server: bool,
}
