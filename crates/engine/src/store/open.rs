//! Opening and creating stores.

use std::path::Path;

use undercroft_memory::{Options, Segment};

use crate::error::Error;
use crate::handle::parts::Parts;
use crate::handle::store::Store;
use crate::messages::publish::Patterns;
use crate::messages::unsent::Unsent;
use crate::store::above::ABOVE;
use crate::store::dead::Round;
use crate::store::terms::Terms;
use crate::transaction::changed::Followed;
use crate::upkeep::counters::Counters;
use crate::upkeep::eviction::Pool;
use crate::upkeep::space::Places;
use crate::waiting::postponed::Postponed;

impl Store {
    /// Opens the store at a path, to read and write or only to read.
    pub fn open(path: &Path, write: bool) -> Result<Store, Error> {
        Ok(Store::of(Segment::open(path, write)?))
    }

    /// Opens a store that [`open`](Self::open) refuses as unclean
    /// ([`Error::is_unclean`]), to save what can be read of it. Whatever is done
    /// to it, the file stays as it is.
    pub fn open_unclean(path: &Path) -> Result<Store, Error> {
        Ok(Store::of(Segment::open_unclean(path)?))
    }

    /// Creates a store at a path that is free, with a `maxmemory` of 1 GiB, or five eighths of the file system if that is less.
    pub fn create(path: &Path, options: &Options) -> Result<Store, Error> {
        let segment =
            Terms::default().initially(|initially| Segment::create_so(path, options, initially))?;
        Ok(Store::of(segment))
    }

    /// Opens the store at a path, or creates it where the path is free.
    pub fn open_or_create(path: &Path, options: &Options) -> Result<Store, Error> {
        Store::open_or_create_so(path, options, &Terms::default())
    }

    /// [`open_or_create`](Self::open_or_create) of a store that has these terms
    /// from its first moment, if it is created. One that is there stays as it
    /// is: [`agrees_with`](Self::agrees_with) says whether it has them.
    pub fn open_or_create_so(
        path: &Path,
        options: &Options,
        terms: &Terms,
    ) -> Result<Store, Error> {
        let segment =
            terms.initially(|initially| Segment::open_or_create(path, options, initially))?;
        Ok(Store::of(segment))
    }

    /// The handle of a segment, with the state of every module that keeps any.
    fn of(segment: Segment) -> Store {
        let parts = Parts::default()
            .with(ABOVE)
            .with(Followed::default())
            .with(Patterns::default())
            .with(Pool::default())
            .with(Unsent::default())
            .with(Postponed::default())
            .with(Counters::default())
            .with(Places::default())
            .with(Round::default());
        Store::with_parts(segment, parts)
    }
}
