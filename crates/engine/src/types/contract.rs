//! Defines the interface that every value type implements. Code outside a type's folder uses this
//! interface to rename, copy, measure, check, export and dump values of any type.
//! `docs/new-type.md` explains how to add a type.

use undercroft_memory::{Offset, Pool, Transaction, View};

use crate::error::Error;
use crate::rdb_form::{Input, Output, RdbVersion};
use crate::structures::check::Check;
use crate::structures::entry::{Entry, Form, Header};
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::structures::tree::Subtree;
use crate::transaction::writer::Writer;
use crate::types::limits::Limits;
use crate::types::value_type::Encoding;

/// The properties of a value type, for code that handles every type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name that the TYPE command returns.
    pub name: &'static str,
    /// The plural noun for values of this type, as used in messages.
    pub plural: &'static str,
    /// The number of items that represent one element in a flat list: two for a field and its value
    /// or for a member and its score, otherwise one.
    pub width: usize,
    /// Whether two values that differ only in the order of their elements are different.
    pub ordered: bool,
    /// Whether the first item of every element is unique within the value.
    pub unique: bool,
    /// Whether objects of this type begin with the root words of a dictionary of elements.
    pub has_elements: bool,
}

/// The operations that every value type implements.
pub(crate) trait Contract: Sync {
    /// Returns the properties of the type.
    fn description(&self) -> &'static Description;

    /// Returns the encoding of a value, as reported by OBJECT ENCODING.
    fn encoding(&self, header: Header, form: Form) -> Encoding;

    /// Appends the complete value to `out` as a flat list; see [`Entry::append_items`]. O(value).
    fn append_items(&self, view: &View<'_>, entry: &Entry, out: &mut Ranges) -> Result<(), Error>;

    /// Adds items of a flat list to the value of the key at `place`, which is the database and the
    /// key. Creates the key if it does not exist. O(items).
    fn add_items(
        &self,
        writer: &mut Writer<'_, '_>,
        place: (usize, &Key<'_>),
        items: &[&[u8]],
        limits: &Limits,
    ) -> Result<(), Error>;

    /// Returns the RDB type bytes that encode values of this type.
    fn rdb_kinds(&self) -> &'static [u8];

    /// Writes `items` as a value in a version of the RDB format. In version 10, the bytes are the
    /// ones that Redis 7.0 writes for a value with this encoding.
    fn dump(&self, encoding: Encoding, items: &Ranges, version: RdbVersion, out: &mut Output);

    /// Parses an RDB value whose type byte is one of [`rdb_kinds`](Self::rdb_kinds) and appends its
    /// items. The input is untrusted, so this function returns `None` if it is malformed.
    fn restore(&self, kind: u8, input: &mut Input<'_>, items: &mut Ranges) -> Option<()>;

    /// Returns the operations on objects of this type, or `None` if a value of this type never
    /// spans several blocks.
    fn object(&self) -> Option<&'static dyn Object>;
}

/// The operations that a type implements for its objects. An object is a value whose entry contains
/// only root words, which refer to further blocks ([`Form::Object`]).
pub(crate) trait Object: Sync {
    /// Returns the memory pool of an object: the object's own arena (a separate set of pages, H4)
    /// or the shard's slabs.
    fn pool(&self, view: &View<'_>, shard: usize, entry: &Entry) -> Result<Pool, Error>;

    /// Queues the memory of an object without an arena, so that it is freed later in small steps
    /// (W8). The caller frees the entry. O(1).
    fn discard(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        entry: &Entry,
    ) -> Result<(), Error>;

    /// Copies an object of `shard` into the memory pool `pool` and returns the copy's root words.
    /// O(value).
    fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        entry: &Entry,
        pool: Pool,
    ) -> Result<Vec<u64>, Error>;

    /// Returns the number of bytes that an object uses in addition to its entry. If elements have
    /// separate blocks, the number is estimated from about `samples` elements, or exact if
    /// `samples` is 0.
    fn memory_usage(&self, view: &View<'_>, entry: &Entry, samples: u64) -> Result<u64, Error>;

    /// Visits every block of an object and reports damage. The caller must have visited the
    /// object's arena already.
    fn check(&self, check: &mut Check<'_>, entry: &Entry) -> Result<(), Error>;

    /// Returns the operations for freeing this type's trees, or `None` if its objects contain no
    /// trees.
    fn tree(&self) -> Option<&'static dyn FreeableTree> {
        None
    }
}

/// The operations that a type implements for a tree that is being freed leaf by leaf.
pub(crate) trait FreeableTree: Sync {
    /// Returns the number that identifies the tree's type in the graveyard, the queue of large
    /// values to free. The number is 2, 3, or at least 5, and never changes.
    fn number(&self) -> u64;

    /// Frees the next leaf and everything that it refers to. Returns the new progress, or `None` if
    /// the tree is now completely freed. Also returns the number of blocks freed in addition to the
    /// leaf.
    fn free_next_leaf(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        subtree: Subtree,
        progress: u64,
    ) -> Result<(Option<u64>, usize), Error>;

    /// Visits every block of the tree that has not been freed yet, and reports damage.
    fn check_left(
        &self,
        view: &View<'_>,
        subtree: Subtree,
        progress: u64,
        reach: &mut dyn FnMut(Offset),
    ) -> Result<(), Error>;
}
