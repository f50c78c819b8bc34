//! What every type of value answers, so that nobody outside a type's folder has to know the types one by one: keys are
//! renamed and copied, measured and checked, exported and dumped through these calls. `docs/new-type.md` tells how a
//! type is added.

use undercroft_memory::{Offset, Pool, Transaction, View};

use crate::error::Error;
use crate::rdb_form::{Input, Output};
use crate::structures::check::Check;
use crate::structures::entry::{Entry, Form, Header};
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::structures::tree::Subtree;
use crate::transaction::writer::Writer;
use crate::types::limits::Limits;
use crate::types::value_type::Encoding;

/// What a type is, for whoever treats values of all types alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name that TYPE answers.
    pub name: &'static str,
    /// What many of them are called.
    pub plural: &'static str,
    /// Items of one element in the flat list that a value is: a field and its value, a member and its score.
    pub width: usize,
    /// Whether the order of the elements is a part of the value.
    pub ordered: bool,
    /// Whether no two elements have the same first item.
    pub unique: bool,
    /// Whether an object of the type begins with the root words of a dictionary of elements.
    pub has_elements: bool,
}

/// What a type of value answers.
pub(crate) trait Contract: Sync {
    /// What the type is.
    fn description(&self) -> &'static Description;

    /// How a value is held, as OBJECT ENCODING names it.
    fn encoding(&self, header: Header, form: Form) -> Encoding;

    /// Appends the whole value to `out` as a flat list; see [`Entry::append_items`]. O(value).
    fn append_items(&self, view: &View<'_>, entry: &Entry, out: &mut Ranges) -> Result<(), Error>;

    /// Adds more of such a list to the value at a key, which may be new. O(items).
    fn add_items(
        &self,
        writer: &mut Writer<'_, '_>,
        place: (usize, &Key<'_>),
        items: &[&[u8]],
        limits: &Limits,
    ) -> Result<(), Error>;

    /// The first bytes of the RDB forms in which the type comes.
    fn rdb_kinds(&self) -> &'static [u8];

    /// Writes a value that is these items in RDB form, as Redis 7.0 does for one of this encoding.
    fn dump(&self, encoding: Encoding, items: &Ranges, out: &mut Output);

    /// Reads a value of one of [`rdb_kinds`](Self::rdb_kinds), which is hostile until proven otherwise: none where it
    /// cannot be one.
    fn restore(&self, kind: u8, input: &mut Input<'_>, items: &mut Ranges) -> Option<()>;

    /// What becomes of values that consist of more than one block, where the type has such.
    fn object(&self) -> Option<&'static dyn Object>;
}

/// What a type answers about its objects: values whose entry holds root words only ([`Form::Object`]).
pub(crate) trait Object: Sync {
    /// The memory that an object in a shard consists of: an arena of its own (H4), or the shard's slabs.
    fn pool(&self, view: &View<'_>, shard: usize, entry: &Entry) -> Result<Pool, Error>;

    /// Lets what an object without an arena consists of be freed later, in small steps (W8); the entry is the
    /// caller's. O(1).
    fn discard(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        entry: &Entry,
    ) -> Result<(), Error>;

    /// Root words of a copy of an object, which lies in a shard, in another pool. O(value).
    fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        shard: usize,
        entry: &Entry,
        pool: Pool,
    ) -> Result<Vec<u64>, Error>;

    /// Bytes that an object takes beside its entry; of elements that have blocks of their own about `samples` are
    /// looked at, and all where it is 0.
    fn memory_usage(&self, view: &View<'_>, entry: &Entry, samples: u64) -> Result<u64, Error>;

    /// Reaches every block of an object, and finds what is wrong with it. Its arena has been reached.
    fn check(&self, check: &mut Check<'_>, entry: &Entry) -> Result<(), Error>;

    /// The tree that objects of the type have, where they have one.
    fn tree(&self) -> Option<&'static dyn DyingTree> {
        None
    }
}

/// What a type answers about a tree of its objects that is being freed.
pub(crate) trait DyingTree: Sync {
    /// The number that stands for such a tree in the record of what is being freed: 2, 3, or from 5 on. It never
    /// changes.
    fn number(&self) -> u64;

    /// Frees the next leaf with what belongs to it. Returns how far the tree is freed now, none where it is gone, and
    /// how many blocks beside the leaf were freed.
    fn free_next_leaf(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        subtree: Subtree,
        progress: u64,
    ) -> Result<(Option<u64>, usize), Error>;

    /// Reaches every block of what is left.
    fn check_left(
        &self,
        view: &View<'_>,
        subtree: Subtree,
        progress: u64,
        reach: &mut dyn FnMut(Offset),
    ) -> Result<(), Error>;
}
