//! Implements [`Object`] for large hashes and large sets, whose objects consist only of a
//! dictionary.

use undercroft_memory::{Pool, Transaction, View};

use crate::error::Error;
use crate::structures::bulk;
use crate::structures::check::Check;
use crate::structures::elements::Elements;
use crate::structures::entry::Entry;
use crate::types::contract::Object;

/// Implements [`Object`] for the types whose objects consist only of a dictionary of elements.
pub(crate) struct Collections;

impl Object for Collections {
    fn pool(&self, view: &View<'_>, shard: usize, entry: &Entry) -> Result<Pool, Error> {
        Ok(Elements::to_change(view, shard, entry)?.pool)
    }

    fn discard(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        entry: &Entry,
    ) -> Result<(), Error> {
        Elements::to_change(transaction.view(), pool.shard(), entry)?.discard(transaction)
    }

    fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        entry: &Entry,
        pool: Pool,
    ) -> Result<Vec<u64>, Error> {
        let source = Elements::to_change(transaction.view(), shard, entry)?;
        Ok(bulk::copy_of(transaction, source, pool)?.to_vec())
    }

    fn memory_usage(&self, view: &View<'_>, entry: &Entry, samples: u64) -> Result<u64, Error> {
        Elements::to_read(entry)?.memory_usage(view, samples)
    }

    fn check(&self, check: &mut Check<'_>, entry: &Entry) -> Result<(), Error> {
        let elements = Elements::to_change(check.view, check.shard, entry)?;
        let name = format!("the collection at {:#x}", entry.at);
        check.elements(elements, &name);
        if elements.length(check.view)? == 0 {
            check.problem(|| format!("{name} is empty"));
        }
        Ok(())
    }
}
