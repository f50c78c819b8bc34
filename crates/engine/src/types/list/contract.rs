//! Implements the type interface for lists.

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::read::append_all;
use super::sequence::free_leaf;
use super::{End, object};
use crate::error::Error;
use crate::rdb_form::{Input, Output, RdbVersion};
use crate::structures::check::Check;
use crate::structures::entry::{Entry, Form, Header};
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::structures::tree::{self, Subtree};
use crate::transaction::writer::Writer;
use crate::types::contract::{Contract, Description, FreeableTree, Object};
use crate::types::limits::Limits;
use crate::types::value_type::Encoding;

const RDB_LIST: u8 = 1;
const RDB_ZIPLIST: u8 = 10;
const RDB_QUICKLIST: u8 = 14;
const RDB_QUICKLIST_2: u8 = 18;
/// The kinds of quicklist nodes in an RDB payload. A plain node contains a single item, and a
/// packed node contains a listpack.
const NODE_PLAIN: usize = 1;
const NODE_PACKED: usize = 2;
/// The approximate size of a quicklist node in bytes, as in Redis' default configuration.
const NODE_BYTES: usize = 8192;

/// Implements [`Contract`] for lists.
pub(crate) struct Lists;

impl Contract for Lists {
    fn description(&self) -> &'static Description {
        &Description {
            name: "list",
            plural: "lists",
            width: 1,
            ordered: true,
            unique: false,
            has_elements: false,
        }
    }

    fn encoding(&self, _header: Header, _form: Form) -> Encoding {
        Encoding::QuickList
    }

    fn append_items(&self, view: &View<'_>, entry: &Entry, out: &mut Ranges) -> Result<(), Error> {
        append_all(view, entry, out)
    }

    fn add_items(
        &self,
        writer: &mut Writer<'_, '_>,
        (database, key): (usize, &Key<'_>),
        items: &[&[u8]],
        _limits: &Limits,
    ) -> Result<(), Error> {
        let pushed = writer.list_push(database, key, End::Right, items, false);
        pushed.map(drop)
    }

    fn rdb_kinds(&self) -> &'static [u8] {
        &[RDB_LIST, RDB_ZIPLIST, RDB_QUICKLIST, RDB_QUICKLIST_2]
    }

    /// Writes the items in quicklist nodes of about the same size as Redis' nodes. Before version 10,
    /// nodes are ziplists, which are only read, so the items are written one by one.
    fn dump(&self, _encoding: Encoding, items: &Ranges, version: RdbVersion, out: &mut Output) {
        if version < RdbVersion::V10 {
            out.kind(RDB_LIST);
            out.length(items.len());
            return out.strings(items);
        }
        let mut nodes: Vec<Vec<&[u8]>> = Vec::new();
        // Start with a size that counts as full, so that the first item opens a node.
        let mut size = NODE_BYTES;
        for item in items.iter() {
            let room = size + item.len() <= NODE_BYTES && item.len() <= NODE_BYTES;
            match nodes.last_mut() {
                Some(node) if room => node.push(item),
                _ => {
                    nodes.push(vec![item]);
                    size = 0;
                }
            }
            size += item.len();
        }
        out.kind(RDB_QUICKLIST_2);
        out.length(nodes.len());
        for node in nodes {
            match node[..] {
                [item] if item.len() > NODE_BYTES => {
                    out.length(NODE_PLAIN);
                    out.string(item);
                }
                _ => {
                    out.length(NODE_PACKED);
                    out.listpack(node.into_iter());
                }
            }
        }
    }

    fn restore(&self, kind: u8, input: &mut Input<'_>, items: &mut Ranges) -> Option<()> {
        if kind == RDB_ZIPLIST {
            return input.ziplist(items);
        }
        let length = input.length()?;
        if kind == RDB_LIST {
            return input.strings(length, items);
        }
        for _ in 0..length {
            let container = match kind {
                RDB_QUICKLIST => None,
                _ => Some(input.length()?),
            };
            match container {
                None => input.ziplist(items)?,
                Some(NODE_PLAIN) => items.push(&input.string()?),
                Some(NODE_PACKED) => input.listpack(items)?,
                Some(_) => return None,
            }
        }
        Some(())
    }

    fn object(&self) -> Option<&'static dyn Object> {
        Some(&Lists)
    }
}

impl Object for Lists {
    fn pool(&self, view: &View<'_>, shard: usize, entry: &Entry) -> Result<Pool, Error> {
        object::pool_of(view, shard, entry)
    }

    fn discard(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        entry: &Entry,
    ) -> Result<(), Error> {
        object::discard(transaction, pool, entry)
    }

    fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        _shard: usize,
        entry: &Entry,
        pool: Pool,
    ) -> Result<Vec<u64>, Error> {
        Ok(object::copy(transaction, entry, pool)?.to_vec())
    }

    fn memory_usage(&self, view: &View<'_>, entry: &Entry, _samples: u64) -> Result<u64, Error> {
        object::memory_usage(view, entry)
    }

    fn check(&self, check: &mut Check<'_>, entry: &Entry) -> Result<(), Error> {
        object::check(check.view, entry, check.reach).map(drop)
    }

    fn tree(&self) -> Option<&'static dyn FreeableTree> {
        Some(&Lists)
    }
}

impl FreeableTree for Lists {
    fn number(&self) -> u64 {
        object::TREE
    }

    fn free_next_leaf(
        &self,
        transaction: &mut Transaction<'_>,
        pool: Pool,
        subtree: Subtree,
        progress: u64,
    ) -> Result<(Option<u64>, usize), Error> {
        let mut blocks = 0;
        let further =
            tree::free_next::<0>(transaction, pool, subtree, progress, |transaction, leaf| {
                blocks = free_leaf(transaction, pool, leaf)?;
                Ok(())
            })?;
        Ok((further, blocks))
    }

    fn check_left(
        &self,
        view: &View<'_>,
        subtree: Subtree,
        progress: u64,
        reach: &mut dyn FnMut(Offset),
    ) -> Result<(), Error> {
        object::check_subtree(view, subtree, progress, reach).map(drop)
    }
}
