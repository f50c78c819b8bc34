//! The structural check: every page, every list, every block accounted for.

use std::collections::{HashMap, HashSet};

use crate::error::Error;
use crate::heap::pages::{IN_ARENA, OF_COPY, PageUse, Run, all_free, bitmap_words};
use crate::heap::step;
use crate::inspection::check_arenas::Arena;
use crate::mapped::classes;
use crate::mapped::layout::{EXTENT_PAGES, Offset, PAGE, control, descriptor, shard};
use crate::mapped::shard_set::ShardSet;
use crate::segment::marks::Marks;
use crate::segment::{Segment, place};
use crate::views::quiescence::{self, cannot_join};
use crate::views::view::{Notes, View};

/// Problems reported at most; a damaged store may have millions.
const PROBLEMS_MAX: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What is wrong, each with its place; empty where the store is sound.
    pub problems: Vec<String>,
    /// Blocks that are allocated.
    pub blocks: u64,
    /// Bytes in them.
    pub block_bytes: u64,
    /// Pages granted to shards.
    pub pages: u64,
}

impl Report {
    /// Adds a problem, unless there are very many already.
    pub fn problem(&mut self, text: impl FnOnce() -> String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(text());
        }
    }
}

/// What one shard owns.
#[derive(Default)]
pub(crate) struct Owned {
    pub(crate) blocks: HashSet<Offset>,
    pub(crate) bytes: u64,
    pub(crate) pages: u64,
    /// Bytes in blocks that it has left behind.
    pub(crate) left: u64,
    /// Pages by what list they must be on; the key is the list's word.
    pub(crate) listed: HashMap<u64, HashSet<u64>>,
    /// Its arenas, by their first page.
    pub(crate) arenas: HashMap<u64, Arena>,
}

impl Segment {
    /// Walks the whole store with every shard locked. `reachable` is called for
    /// each shard and reports every block that the caller's own structures
    /// refer to, and problems of its own; each allocated block must be reported
    /// exactly once.
    ///
    /// Takes time and memory in proportion to the number of blocks; writers
    /// wait meanwhile. A process that cannot join the store, as its file system
    /// is full, or its mapping is read-only, takes no lock: it looks again
    /// where something was written meanwhile.
    ///
    /// # Errors
    /// A lock that cannot be had, or writers that never pause.
    pub fn check(
        &self,
        mut reachable: impl FnMut(usize, &View<'_>, &mut dyn FnMut(Offset), &mut Report),
    ) -> Result<Report, Error> {
        let mut report = Report::default();
        match place::prepare_to_write(self) {
            Err(error) if cannot_join(&error) => return self.check_while_still(&mut reachable),
            prepared => prepared?,
        }
        let shards = ShardSet::first(self.shards());
        self.write_where(shards, Marks::Ignored, |transaction| {
            report = Report::default();
            let mut owned = step::run(self, |_| Ok(self.check_pages(&mut report)))?;
            self.check_ring(&mut |text| report.problem(|| text))?;
            self.check_shards(&mut owned, transaction.view(), &mut reachable, &mut report);
            Ok::<(), Error>(())
        })?;
        Ok(report)
    }

    /// The same without any lock, when nothing is being written.
    fn check_while_still(
        &self,
        reachable: &mut impl FnMut(usize, &View<'_>, &mut dyn FnMut(Offset), &mut Report),
    ) -> Result<Report, Error> {
        let view = View::new(&self.mapping, Notes::Locked);
        quiescence::look(self, || {
            let mut report = Report::default();
            let mut owned = self.check_pages(&mut report);
            self.check_shards(&mut owned, &view, reachable, &mut report);
            report
        })
    }

    /// Each shard's half, and what the caller's structures refer to.
    fn check_shards(
        &self,
        owned: &mut [Owned],
        view: &View<'_>,
        reachable: &mut impl FnMut(usize, &View<'_>, &mut dyn FnMut(Offset), &mut Report),
        report: &mut Report,
    ) {
        for (index, owned) in owned.iter_mut().enumerate() {
            self.check_shard(index, owned, report);
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
                report.problem(|| {
                    format!("shard {index}: {at:#x} is in use twice, or is not a block")
                });
            }
            for at in blocks {
                report.problem(|| format!("shard {index}: the block at {at:#x} is lost"));
            }
        }
    }

    /// The global half: masks, maps and runs agree, page by page.
    fn check_pages(&self, report: &mut Report) -> Vec<Owned> {
        let mapping = &self.mapping;
        let layout = *mapping.layout();
        let mut owned: Vec<Owned> = (0..layout.shards).map(|_| Owned::default()).collect();
        let high = mapping.load(control::HEAP_HIGH);
        if high > layout.extents {
            report.problem(|| format!("{high} extents are reserved of {}", layout.extents));
            return owned;
        }
        let bit = |map: u64, extent: u64| mapping.load(map + extent / 64 * 8) >> (extent % 64) & 1;
        let mask_of = |extent: u64| {
            mapping.load(layout.page_masks + extent / 4 * 8) >> (extent % 4 * 16) & 0xffff
        };
        let (mut free, mut backed, mut retired) = (0, 0, 0);
        for extent in 0..high {
            if bit(layout.retired_map, extent) == 1 {
                retired += 1;
                if bit(layout.reserved_map, extent) == 1 {
                    report.problem(|| format!("extent {extent} has memory and is retired"));
                }
            }
            // Given back to the system; even the tables may have no memory (S3).
            if bit(layout.reserved_map, extent) == 0 {
                continue;
            }
            backed += 1;
            let mask = mask_of(extent);
            free += u64::from(mask.count_ones());
            let expected = [
                (layout.some_free_map, u64::from(mask != 0), "some free"),
                (layout.all_free_map, u64::from(mask == 0xffff), "all free"),
            ];
            for (map, value, name) in expected {
                if bit(map, extent) != value {
                    report.problem(|| format!("extent {extent}: its bit '{name}' is not {value}"));
                }
            }
        }
        if mapping.load(control::RETIRED_COUNT) != retired {
            report.problem(|| {
                let counted = mapping.load(control::RETIRED_COUNT);
                format!("the heap counts {counted} retired extents and has {retired}")
            });
        }
        if mapping.load(control::HEAP_RESERVED) != backed {
            report.problem(|| {
                let counted = mapping.load(control::HEAP_RESERVED);
                format!("the heap counts {counted} extents with memory and has {backed}")
            });
        }
        if mapping.load(control::HEAP_FREE_PAGES) != free {
            report.problem(|| {
                let counted = mapping.load(control::HEAP_FREE_PAGES);
                format!("the heap counts {counted} free pages and has {free}")
            });
        }
        let mut in_arenas = Vec::new();
        let mut of_copy = HashMap::new();
        let mut page = 0;
        while page < high * EXTENT_PAGES {
            if !mapping.page_reserved(page) {
                page += EXTENT_PAGES - page % EXTENT_PAGES;
                continue;
            }
            let run = Run::unpack(mapping.load(layout.descriptor(page) + descriptor::RUN));
            let is_free =
                |page: u64| mask_of(page / EXTENT_PAGES) >> (page % EXTENT_PAGES) & 1 == 1;
            let Some(run) = run else {
                if !is_free(page) {
                    report.problem(|| format!("page {page} is lost: neither free nor in a run"));
                }
                page += 1;
                continue;
            };
            if (run.shard >= layout.shards && run.shard != IN_ARENA && run.shard != OF_COPY)
                || run.pages == 0
                || run.pages > high * EXTENT_PAGES - page
            {
                report.problem(|| format!("page {page}: a run {run:?} that cannot be"));
                page += 1;
                continue;
            }
            for inside in page..page + run.pages {
                if !mapping.page_reserved(inside) {
                    report.problem(|| format!("page {inside} is in a run but has no memory"));
                    break;
                }
                if is_free(inside) {
                    report.problem(|| format!("page {inside} is free and in a run"));
                }
            }
            report.pages += run.pages;
            if run.shard == IN_ARENA {
                in_arenas.push((page, run.pages));
            } else if run.shard == OF_COPY {
                of_copy.insert(page, run.pages);
            } else {
                let owned = &mut owned[run.shard];
                self.check_run(page, run, layout.shard(run.shard), owned, report);
            }
            page += run.pages;
        }
        for (page, pages) in in_arenas {
            self.check_run_of_arena(page, pages, &mut owned, report);
        }
        self.check_copy(of_copy, report);
        owned
    }

    /// The runs that a copy has taken are on its list, all of them and no others.
    fn check_copy(&self, mut runs: HashMap<u64, u64>, report: &mut Report) {
        let mapping = &self.mapping;
        let mut counted = mapping.load(control::COPY_PAGES);
        let mut link = mapping.load(control::COPY_RUNS);
        while let Some(page) = link.checked_sub(1) {
            let Some(pages) = runs.remove(&page) else {
                report.problem(|| format!("page {page} is on the list of a copy, wrongly"));
                return;
            };
            counted = counted.wrapping_sub(pages);
            link = mapping.load(mapping.layout().descriptor(page) + descriptor::NEXT);
        }
        if counted != 0 {
            report.problem(|| format!("a copy counts {counted} pages that it has not"));
        }
        if mapping.load(control::COPY_OWNER) == 0 && mapping.load(control::COPY_RUNS) != 0 {
            report.problem(|| "the list of a copy that nobody makes is not empty".into());
        }
        for page in runs.keys() {
            report.problem(|| format!("page {page} is a copy's and not on its list"));
        }
    }

    /// One run that a shard has left behind: the way of freeing it is still to
    /// come to it.
    fn check_left(&self, page: u64, run: Run, owned: &mut Owned, report: &mut Report) {
        let extent = page / EXTENT_PAGES;
        if !self.mapping.is_to_be_searched(run.shard, extent) {
            report.problem(|| format!("page {page}: a run {run:?} that was left and forgotten"));
        }
        if self.mapping.page_use(page) == Some(PageUse::Arena) {
            owned.arenas.insert(page, Arena::buried());
        }
        owned.left += self.mapping.bytes_left(page, run);
    }

    /// One run of a shard: what it is used for, and which blocks it holds.
    fn check_run(&self, page: u64, run: Run, base: u64, owned: &mut Owned, report: &mut Report) {
        let buried = matches!(
            self.mapping.page_use(page),
            Some(PageUse::Buried | PageUse::BuriedArena)
        );
        if run.age != self.mapping.age(run.shard) && !buried {
            return self.check_left(page, run, owned, report);
        }
        let mut list = |word: u64| owned.listed.entry(word).or_default().insert(page);
        let kind = self.mapping.page_use(page);
        let bytes = run.pages * PAGE;
        match kind {
            Some(PageUse::Buried) => {
                list(base + shard::GRAVEYARD);
            }
            Some(PageUse::BuriedArena) if run.pages == 1 => {
                list(base + shard::GRAVEYARD);
                owned.arenas.insert(page, Arena::buried());
            }
            Some(PageUse::Arena) if run.pages == 1 => {
                owned.arenas.insert(page, Arena::default());
                owned.blocks.insert(self.mapping.layout().page(page));
                owned.bytes += bytes;
            }
            Some(PageUse::Staged) => {
                list(base + shard::STAGING);
                owned.bytes += bytes;
            }
            _ => owned.bytes += self.check_used_run(page, run.pages, (base, 0), owned, report),
        }
        if !matches!(kind, Some(PageUse::Buried | PageUse::BuriedArena)) {
            owned.pages += run.pages;
        }
    }

    /// One run with blocks or a free page, of the pool with these words and
    /// this tag. Returns the bytes in its blocks.
    pub(crate) fn check_used_run(
        &self,
        page: u64,
        pages: u64,
        (words, tag): (u64, u64),
        owned: &mut Owned,
        report: &mut Report,
    ) -> u64 {
        let mapping = &self.mapping;
        let layout = *mapping.layout();
        let mut list = |word: u64| owned.listed.entry(word).or_default().insert(page);
        let kind = mapping.load(layout.descriptor(page) + descriptor::KIND);
        let mut bytes = 0;
        match PageUse::unpack(kind).filter(|_| PageUse::tag_of(kind) == tag) {
            Some(PageUse::Free) if pages == 1 => {
                list(words + shard::FREE_LIST);
            }
            Some(PageUse::Large) => {
                owned.blocks.insert(layout.page(page));
                bytes += pages * PAGE;
                report.blocks += 1;
            }
            Some(PageUse::Slab(class)) if u64::from(classes::SLAB_PAGES[class]) == pages => {
                let all = all_free(class);
                let count = bitmap_words(class) as usize;
                let bitmap = layout.descriptor(page) + descriptor::BITMAP;
                let bits: Vec<u64> = (0..count as u64)
                    .map(|word| mapping.load(bitmap + word * 8))
                    .collect();
                if bits.iter().any(|&bits| bits != 0) {
                    list(words + shard::CLASSES + class as u64 * 8);
                }
                for distance in 1..pages {
                    if mapping.page_use(page + distance) != Some(PageUse::Continued(distance)) {
                        report.problem(|| format!("page {}: not the slab's", page + distance));
                    }
                }
                for (word, (bits, all)) in bits.into_iter().zip(all).enumerate() {
                    if bits & !all != 0 {
                        report.problem(|| format!("page {page}: free blocks beyond the slab"));
                    }
                    let mut used = all & !bits;
                    while used != 0 {
                        let block = word as u64 * 64 + u64::from(used.trailing_zeros());
                        used &= used - 1;
                        let size = u64::from(classes::SIZES[class]);
                        owned.blocks.insert(layout.page(page) + block * size);
                        bytes += size;
                        report.blocks += 1;
                    }
                }
            }
            kind => report.problem(|| format!("page {page}: a run of {pages} used as {kind:?}")),
        }
        report.block_bytes += bytes;
        bytes
    }

    /// One shard's lists and counts against what its runs say.
    fn check_shard(&self, index: usize, owned: &mut Owned, report: &mut Report) {
        let mapping = &self.mapping;
        let layout = *mapping.layout();
        let base = layout.shard(index);
        let counts = [
            (shard::USED_BYTES, owned.bytes, "bytes in blocks"),
            (shard::PAGES, owned.pages, "pages"),
            (shard::LEFT_BYTES, owned.left, "bytes left behind"),
        ];
        for (field, expected, name) in counts {
            let counted = mapping.load(base + field);
            if counted != expected {
                report.problem(|| {
                    format!("shard {index} counts {counted} {name} and has {expected}")
                });
            }
        }
        if self.is_marked(index) != (mapping.load(base + shard::MARK) != 0) {
            report.problem(|| format!("shard {index}: its counter has another mark than its word"));
        }
        let free = owned
            .listed
            .get(&(base + shard::FREE_LIST))
            .map_or(0, HashSet::len);
        if mapping.load(base + shard::FREE_COUNT) != free as u64 {
            report.problem(|| format!("shard {index}: its count of free pages is not {free}"));
        }
        // A run whose return is under way is on no list.
        let returning = mapping.load(base + shard::RETURNING).wrapping_sub(1);
        for (page, arena) in std::mem::take(&mut owned.arenas) {
            self.check_arena(index, page, arena, returning, owned, report);
        }
        for list in lists(base).chain([base + shard::GRAVEYARD, base + shard::STAGING]) {
            self.check_list(index, list, returning, owned, report);
        }
    }

    /// A list of a shard's pages against what their uses say.
    pub(crate) fn check_list(
        &self,
        index: usize,
        list: u64,
        returning: u64,
        owned: &mut Owned,
        report: &mut Report,
    ) {
        let mapping = &self.mapping;
        let layout = *mapping.layout();
        let graveyard = layout.shard(index) + shard::GRAVEYARD;
        let mut expected = owned.listed.remove(&list).unwrap_or_default();
        let mut link = mapping.load(list);
        let mut previous = 0;
        while link != 0 {
            let page = link - 1;
            if !expected.remove(&page) {
                report.problem(|| {
                    format!("shard {index}: page {page} is on the list at {list:#x}, wrongly")
                });
                break;
            }
            let at = layout.descriptor(page);
            // The graveyard is taken from its front only, without care for
            // the links back.
            let back = mapping.load(at + descriptor::PREVIOUS);
            if back != previous && list != graveyard {
                report.problem(|| format!("shard {index}: page {page} links back wrongly"));
            }
            previous = link;
            link = mapping.load(at + descriptor::NEXT);
        }
        expected.remove(&returning);
        for page in expected {
            report.problem(|| {
                format!("shard {index}: page {page} is missing on the list at {list:#x}")
            });
        }
    }
}

/// The lists of free pages and of slabs that a pool has.
pub(crate) fn lists(words: u64) -> impl Iterator<Item = u64> {
    let classes = (0..classes::COUNT as u64).map(move |class| words + shard::CLASSES + class * 8);
    classes.chain([words + shard::FREE_LIST])
}
