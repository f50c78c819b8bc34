//! Implements `undercroft check`.

use crate::arguments::Check;
use crate::failure::{FAILURE, Outcome, SUCCESS};
use crate::out::say;
use crate::progress::Progress;
use crate::size::{counted, human};
use crate::store::{self, Access};

pub(crate) fn run(arguments: &Check) -> Outcome {
    let access = match arguments.unclean {
        true => Access::Unclean,
        false => Access::Write,
    };
    let store = store::open(arguments.store.name(), access)?;
    let report = {
        let _progress = Progress::spin("checking");
        store.check()?
    };
    if report.problems.is_empty() {
        say!(
            "sound: {} of {} in {}",
            counted(report.blocks, "block"),
            human(report.block_bytes),
            counted(report.pages, "page"),
        );
        return Ok(SUCCESS);
    }
    for problem in &report.problems {
        say!("{problem}");
    }
    say!(
        "damaged: {} in {}; undercroft export saves what can be read",
        counted(report.problems.len() as u64, "problem"),
        store.path().display()
    );
    Ok(FAILURE)
}
