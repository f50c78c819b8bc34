//! Defines how the command line names a store.

use clap::Args;

/// The store that is used if the user does not name one.
pub(crate) const DEFAULT_STORE: &str = "undercroft://default";

/// The store option, for commands whose positional arguments are not a store.
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
    /// Returns the name of the store to use, or the default name if the user did not specify a
    /// store.
    pub(crate) fn name(&self) -> &str {
        self.store.as_deref().unwrap_or(DEFAULT_STORE)
    }
}

/// The store, named by a positional argument or by the option.
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
    /// Returns the name of the store that the user specified, if any.
    pub(crate) fn given(&self) -> Option<&str> {
        self.store.as_deref().or(self.option.as_deref())
    }

    /// Returns the name of the store to use, or the default name if the user did not specify a
    /// store.
    pub(crate) fn name(&self) -> &str {
        self.given().unwrap_or(DEFAULT_STORE)
    }
}
