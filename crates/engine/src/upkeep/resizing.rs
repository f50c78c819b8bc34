//! Resizes the dictionaries of databases in bounded steps.

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::dictionary_change;
use crate::structures::roots::Root;

/// The amount of resizing work in one transaction, in tenths of a microsecond.
const RESIZE_WORK: u64 = 300;

impl Store {
    /// Continues the resizing of a dictionary in one transaction. Returns the amount of work done
    /// in tenths of a microsecond, or 0 if no work was due or possible.
    pub(crate) fn resize_some(&self, root: Root) -> Result<u64, Error> {
        self.write_to_free(root.shard, |writer| {
            let mut work = 0;
            while work < RESIZE_WORK && dictionary_change::is_unfit(writer.view(), root)? {
                match dictionary_change::resize_step(writer.transaction, root)? {
                    0 => break,
                    some => work += some,
                }
            }
            Ok::<_, Error>(work)
        })
    }
}
