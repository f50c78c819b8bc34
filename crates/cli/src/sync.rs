//! `undercroft sync`.

use std::process::ExitCode;

use crate::arguments::OfStore;
use crate::failure::Outcome;
use crate::out::say;
use crate::progress::Progress;
use crate::store::{self, Access};

pub(crate) fn run(arguments: &OfStore) -> Outcome {
    let store = store::open(arguments.store.name(), Access::Write)?;
    {
        let _progress = Progress::spin("writing");
        store.sync()?;
    }
    say!("synced {}", store.path().display());
    Ok(ExitCode::SUCCESS)
}
