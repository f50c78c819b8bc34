//! The structural check of a store, which accounts for every page, list and block.

use std::collections::HashSet;

use crate::error::Error;
use crate::heap::step;
use crate::inspection::report::{Owned, PROBLEMS_MAX, Report};
use crate::inspection::{check_arenas, check_pages, check_pools};
use crate::mapped::layout::{Offset, shard};
use crate::messages::ring_writer;
use crate::segment::marks::Marks;
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, place};
use crate::views::quiescence::{self, cannot_join};
use crate::views::view::{Notes, View};

impl Segment {
    /// Checks the entire store with every shard locked. Calls `reachable` for each shard. That
    /// function must report every block to which the caller's own structures refer, and any
    /// problems in those structures. Each allocated block must be reported exactly once.
    ///
    /// The check takes time and memory in proportion to the number of blocks, and writers wait
    /// until it ends. A process that cannot join the store because its file system is full, or
    /// whose mapping is read-only, takes no lock: it repeats the check if the store was written to
    /// during it.
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired, or if writers never pause.
    pub fn check(
        &self,
        mut reachable: impl FnMut(usize, &View<'_>, &mut dyn FnMut(Offset), &mut Report),
    ) -> Result<Report, Error> {
        let mut report = Report::default();
        match place::prepare_to_write(self) {
            Err(error) if cannot_join(&error) => return while_still(self, &mut reachable),
            prepared => prepared?,
        }
        let shards = ShardSet::first(self.shards());
        self.write_where(shards, Marks::Ignored, |transaction| {
            report = Report::default();
            let mut owned = step::run(self, |_| Ok(check_pages::pages(self, &mut report)))?;
            ring_writer::check(self, &mut |text| report.problem(|| text))?;
            check_shards(
                self,
                &mut owned,
                transaction.view(),
                &mut reachable,
                &mut report,
            );
            Ok::<(), Error>(())
        })?;
        Ok(report)
    }
}

/// Runs the check without locks, and repeats it until no process writes during it.
fn while_still(
    segment: &Segment,
    reachable: &mut impl FnMut(usize, &View<'_>, &mut dyn FnMut(Offset), &mut Report),
) -> Result<Report, Error> {
    let view = View::new(&segment.mapping, Notes::Locked);
    quiescence::look(segment, || {
        let mut report = Report::default();
        let mut owned = check_pages::pages(segment, &mut report);
        check_shards(segment, &mut owned, &view, reachable, &mut report);
        report
    })
}

/// Checks the part of the heap that each shard manages, and the blocks to which the caller's
/// structures refer.
fn check_shards(
    segment: &Segment,
    owned: &mut [Owned],
    view: &View<'_>,
    reachable: &mut impl FnMut(usize, &View<'_>, &mut dyn FnMut(Offset), &mut Report),
    report: &mut Report,
) {
    for (index, owned) in owned.iter_mut().enumerate() {
        check_shard(segment, index, owned, report);
        let mut blocks = std::mem::take(&mut owned.blocks);
        let mut strays = Vec::new();
        reachable(
            index,
            view,
            &mut |at| {
                if !blocks.remove(&at) && strays.len() < PROBLEMS_MAX {
                    strays.push(at);
                }
            },
            report,
        );
        for at in strays {
            report.problem(|| format!("shard {index}: {at:#x} is used twice or is not a block"));
        }
        for at in blocks {
            report.problem(|| format!("shard {index}: the block at {at:#x} is lost"));
        }
    }
}

/// Checks that one shard's lists and counters match its runs.
fn check_shard(segment: &Segment, index: usize, owned: &mut Owned, report: &mut Report) {
    let mapping = &segment.mapping;
    let layout = *mapping.layout();
    let base = layout.shard(index);
    let counts = [
        (shard::USED_BYTES, owned.bytes, "bytes in blocks"),
        (shard::PAGES, owned.pages, "pages"),
        (shard::LEFT_BYTES, owned.left, "bytes left over"),
    ];
    for (field, expected, name) in counts {
        let counted = mapping.load(base + field);
        if counted != expected {
            report.problem(|| format!("shard {index} counts {counted} {name} but has {expected}"));
        }
    }
    if segment.is_marked(index) != (mapping.load(base + shard::MARK) != 0) {
        report.problem(|| format!("shard {index}: the marks in its counter and its word differ"));
    }
    let free = owned
        .listed
        .get(&(base + shard::FREE_LIST))
        .map_or(0, HashSet::len);
    if mapping.load(base + shard::FREE_COUNT) != free as u64 {
        report.problem(|| format!("shard {index}: its count of free pages is not {free}"));
    }
    // A run that is being returned to the heap may already have been removed from its list.
    let returning = mapping.load(base + shard::RETURNING).wrapping_sub(1);
    for (page, arena) in std::mem::take(&mut owned.arenas) {
        check_arenas::arena(segment, index, page, arena, returning, owned, report);
    }
    for list in check_pools::lists(base).chain([base + shard::GRAVEYARD, base + shard::STAGING]) {
        check_pools::list(segment, index, list, returning, owned, report);
    }
}
