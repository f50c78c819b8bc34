//! Implements `undercroft sync`.

use crate::arguments::OfStore;
use crate::failure::{Outcome, SUCCESS};
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
    Ok(SUCCESS)
}
