//! An image of the store at one moment, in this process' own memory: the copier's half (C5).
//!
//! The locks of all shards are held once, for the moment at which the copy is switched on. Under
//! these locks, the shards' roots, the map of reserved extents and the masks of free pages are
//! copied. Then the pages that were in use are copied one by one without any lock while other
//! processes write; a page that is about to change is saved first (`copy_table.rs`). The copy ends
//! with the last page. The image can be kept for as long as its owner likes: the same code that
//! reads the store reads it, and nothing in it changes.
//!
//! Writers never wait for the copier. If the stock runs out, they continue without saving pages,
//! and the copier starts again with a larger stock, a bounded number of times.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use crate::copying::area::{self, Area, leave_out};
use crate::error::Error;
use crate::heap::step;
use crate::locking::shard_locks;
use crate::mapped::copy_table::{CopyTable, DONE, LOST, NONE, ON};
use crate::mapped::layout::{EXTENT, EXTENT_PAGES, PAGE, control, shard};
use crate::mapped::map::Map;
use crate::mapped::mapping::Mapping;
use crate::probes::fault;
use crate::processes::patience;
use crate::segment::marks::Marks;
use crate::segment::{Segment, place};
use crate::views::quiescence::{self, cannot_join};
use crate::views::view::{Notes, View};

/// The number of attempts before the copier gives up.
const ATTEMPTS: u32 = 4;
/// The first attempt's stock is the memory in use divided by this.
const STOCK_PART: u64 = 4;
/// The factor by which each further attempt enlarges the stock.
const STOCK_GROWTH: u64 = 4;
/// The number of extents added at a time to a stock that runs low.
const TOP_UP: u64 = 32;
/// The smallest number of extents in a stock.
const STOCK_LEAST: u64 = 4;
/// The number of extents that the table covers beyond those in use, because more may be reserved
/// before the moment.
const TABLE_AHEAD: u64 = 256;
/// The number of extents copied between two checks of the stock.
const EXTENTS_AT_ONCE: u64 = 8;
/// How long the copier waits for the heap's lock while it holds the locks of the shards.
const HEAP_PATIENCE: Duration = Duration::from_micros(200);
/// The interval between checks whether another copier has finished.
const PAUSE: Duration = Duration::from_millis(2);

/// The store as it was at one moment.
pub struct Image {
    mapping: Mapping,
}

impl Image {
    /// Returns a view of the image, which reads like the store and never changes.
    pub fn view(&self) -> View<'_> {
        View::new(&self.mapping, Notes::Locked)
    }
}

/// A guard that marks this process as a copier until it is dropped.
struct CopyingThread<'s>(&'s Segment);

impl Drop for CopyingThread<'_> {
    fn drop(&mut self) {
        if !fault::abandoned() {
            self.0.copying_as.store(0, Ordering::Release);
        }
    }
}

impl Segment {
    /// Copies the store as it is at one moment. `moment` is called at that moment, under all locks,
    /// and its result is returned with the image. Other processes read and write meanwhile; they
    /// wait at most for the moment itself, about 100 microseconds. O(memory in use), and takes as
    /// much of this process' own memory.
    ///
    /// The copy takes memory of the store to save pages that change meanwhile. A store without any
    /// free memory is copied under all locks. So is a store that has not been written to since it
    /// was synced, so that it stays synced.
    ///
    /// A process that cannot join the store because its file system is full takes no lock: it
    /// copies again if the store was written to meanwhile.
    ///
    /// `between` is called after every page, with no lock held, so that tests can change the store
    /// there.
    ///
    /// # Errors
    /// Returns [`Error::Marked`] if a marked shard must be settled first, [`Error::Copying`] if
    /// another process copies for longer than the patience, and [`Error::CopyLost`] if more of the
    /// store changes than there is memory to save.
    pub fn image<T>(
        &self,
        mut moment: impl FnMut() -> T,
        between: &mut dyn FnMut(),
    ) -> Result<(Image, T), Error> {
        match place::prepare_to_write(self) {
            Err(error) if cannot_join(&error) => return while_still(self, moment),
            prepared => prepared?,
        }
        let _copying = become_copier(self)?;
        if self.is_synced() {
            // The store has not been written to since it was synced. Taking memory of the heap
            // would be a change that is not on the disk (D1).
            return under_locks(self, moment);
        }
        let mut wanted = 0;
        for attempt in 1.. {
            let area = claim_when_free(self)?;
            let mut copier = match Copier::new(area, wanted) {
                // The store has no memory for a copy.
                Err(Error::OutOfMemory) => return under_locks(self, moment),
                result => result?,
            };
            let value = copier.begin(&mut moment)?;
            if let Some(value) = value {
                copier.copy(between);
                if copier.is_whole() {
                    return Ok((copier.image, value));
                }
            }
            let room = self
                .mapping
                .load(control::COPY_STOCKED)
                .saturating_mul(PAGE);
            if attempt >= ATTEMPTS {
                return Err(Error::CopyLost {
                    attempts: attempt,
                    room,
                });
            }
            wanted = (room / EXTENT).max(STOCK_LEAST) * STOCK_GROWTH;
        }
        unreachable!("the last attempt returns")
    }
}

/// One attempt to copy the store.
struct Copier<'s> {
    segment: &'s Segment,
    area: Area<'s>,
    table: CopyTable<'s>,
    image: Image,
    /// The number of pages below which the stock counts as low.
    low: u64,
}

impl<'s> Copier<'s> {
    /// Prepares an attempt, with no lock held. The stock gets at least `wanted` extents if there is
    /// room.
    fn new(area: Area<'s>, wanted: u64) -> Result<Copier<'s>, Error> {
        let segment = area.segment;
        let layout = segment.mapping.layout();
        let extents = extents_in_use(segment);
        let ahead = TABLE_AHEAD + wanted + extents / STOCK_PART;
        let table = area.take_table((extents + ahead).min(layout.extents))?;
        let part = segment.granted_bytes() / EXTENT / STOCK_PART;
        let wanted = wanted.max(part).max(STOCK_LEAST);
        let mut stocked = 0;
        // The stock itself counts as memory in use, so leave it out of the copy, run by run.
        stocked += area.stock_up(&table, wanted, |first, pages| {
            leave_out(&table, first, pages);
        })?;
        if stocked == 0 {
            return Err(Error::OutOfMemory);
        }
        let image = empty(segment)?;
        // Copy the tables here too, so that at the moment all memory for them is already allocated.
        copy_tables(segment, &image, table.extents.min(extents_in_use(segment)));
        Ok(Copier {
            segment,
            area,
            table,
            image,
            low: stocked * EXTENT_PAGES / 4 * 3,
        })
    }

    /// Runs the moment, the only time that locks are held. Returns `None` if the heap has grown
    /// beyond the table.
    fn begin<T>(&mut self, moment: &mut impl FnMut() -> T) -> Result<Option<T>, Error> {
        let segment = self.segment;
        let start = Instant::now();
        loop {
            let locked = shard_locks::lock_all_for_a_moment(segment, Marks::Respected)?;
            let begun = step::run_within(segment, HEAP_PATIENCE, |_| {
                let extents = extents_in_use(segment);
                if extents > self.table.extents {
                    return Ok(None);
                }
                copy_tables(segment, &self.image, extents);
                for extent in (0..self.table.extents).step_by(4) {
                    let masks = match extent < extents {
                        true => free_masks(segment, extent),
                        false => u64::MAX,
                    };
                    self.table.set_masks(extent, masks);
                }
                let value = moment();
                let state = segment.mapping.word(control::COPY_STATE);
                state.store(ON, Ordering::Release);
                fault::step();
                Ok(Some(value))
            });
            match begun {
                Err(Error::Busy { .. }) if start.elapsed() < segment.patience() => {
                    drop(locked);
                    std::thread::yield_now();
                }
                result => return result,
            }
        }
    }

    /// Copies all pages that were in use at the moment, and stops early if the copy is lost.
    fn copy(&self, between: &mut dyn FnMut()) {
        for extent in 0..self.table.extents {
            let free = self.table.free_pages(extent);
            for page in (0..EXTENT_PAGES).filter(|page| free >> page & 1 == 0) {
                self.collect(extent * EXTENT_PAGES + page);
                between();
            }
            if extent % EXTENTS_AT_ONCE == 0 && !self.go_on() {
                return;
            }
        }
    }

    /// Puts a page into the image as it was at the moment.
    fn collect(&self, page: u64) {
        let mapping = &self.segment.mapping;
        let at = mapping.layout().page(page);
        let entry = self.table.entry(page);
        let mut found = entry.load(Ordering::Acquire);
        if found == 0 {
            mapping.copy_page_to(&self.image.mapping, at, at);
            // This fence separates reading the page from reading its word: if the copy contains a
            // change to the page, the exchange below sees that the page was saved first (C1).
            fence(Ordering::Acquire);
            match entry.compare_exchange(0, DONE, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(saved) => found = saved,
            }
        }
        if found != DONE && mapping.check(found, PAGE).is_ok() {
            mapping.copy_page_to(&self.image.mapping, found, at);
        }
    }

    /// Adds to the stock if it is low. Returns false if the copy is lost.
    fn go_on(&self) -> bool {
        if self.area.left() < self.low {
            // Collect each page that was in use at the moment before it joins the stock. If memory
            // is short, the copy continues with the stock it has.
            let _ = self.area.stock_up(&self.table, TOP_UP, |first, pages| {
                let end = (first + pages).min(self.table.extents * EXTENT_PAGES);
                (first..end).for_each(|page| self.collect(page));
            });
        }
        !self.is_lost()
    }

    fn is_lost(&self) -> bool {
        fence(Ordering::Acquire);
        self.segment.mapping.load(control::COPY_STATE) == LOST
    }

    /// Returns whether the image is complete: no page was lost, and no other process has ended the
    /// copy.
    fn is_whole(&self) -> bool {
        fence(Ordering::Acquire);
        let state = self.segment.mapping.load(control::COPY_STATE);
        debug_assert_ne!(state, NONE);
        state == ON
    }
}

/// Makes the calling thread this process' only copier.
fn become_copier(segment: &Segment) -> Result<CopyingThread<'_>, Error> {
    let me = segment.process.owner().bits();
    let start = Instant::now();
    loop {
        let found = segment.copying_as.load(Ordering::Acquire);
        let free = found != me;
        let replace = |old| {
            let word = &segment.copying_as;
            word.compare_exchange(old, me, Ordering::AcqRel, Ordering::Relaxed)
        };
        if free && replace(found).is_ok() {
            return Ok(CopyingThread(segment));
        }
        wait_for_copier(segment, start, std::process::id())?;
    }
}

/// Claims the copy for this process once no other process is copying.
fn claim_when_free(segment: &Segment) -> Result<Area<'_>, Error> {
    let start = Instant::now();
    loop {
        match area::claim(segment)? {
            Ok(area) => return Ok(area),
            Err(pid) => wait_for_copier(segment, start, pid)?,
        }
    }
}

/// Pauses while another process or thread is copying. Fails once the patience is used up.
fn wait_for_copier(segment: &Segment, start: Instant, pid: u32) -> Result<(), Error> {
    if start.elapsed() >= segment.patience() {
        return Err(Error::Copying { pid });
    }
    match segment.hook() {
        Some(hook) => {
            hook.blocked(&mut || std::thread::sleep(PAUSE));
            match patience::is_interrupted(hook) {
                true => Err(Error::Interrupted),
                false => Ok(()),
            }
        }
        None => {
            std::thread::sleep(PAUSE);
            Ok(())
        }
    }
}

/// Creates an empty image.
fn empty(segment: &Segment) -> Result<Image, Error> {
    let layout = *segment.mapping.layout();
    let map = Map::own(layout.file_length).map_err(|source| Error::Io {
        doing: "allocating memory for an image of",
        path: segment.path().into(),
        source,
    })?;
    Ok(Image {
        mapping: Mapping::new(map, layout, true),
    })
}

/// Copies the part of the image that lies outside the heap, about 300 KiB.
fn copy_tables(segment: &Segment, image: &Image, extents: u64) {
    let layout = *segment.mapping.layout();
    for index in 0..layout.shards {
        let roots = layout.shard(index) + shard::ROOTS;
        segment.mapping.copy_page_to(&image.mapping, roots, roots);
    }
    for word in 0..extents.div_ceil(64) {
        let at = layout.reserved_map + word * 8;
        image.mapping.store(at, segment.mapping.load(at));
    }
}

/// Returns the page masks of four extents, in which pages that are free or have no memory are set.
fn free_masks(segment: &Segment, extent: u64) -> u64 {
    let layout = segment.mapping.layout();
    let reserved = segment.mapping.load(layout.reserved_map + extent / 64 * 8) >> (extent % 64);
    if reserved & 0xf == 0 {
        // The masks themselves may have no memory (S3).
        return u64::MAX;
    }
    let masks = segment.mapping.load(layout.page_masks + extent / 4 * 8);
    let missing = (0..4).filter(|bit| reserved >> bit & 1 == 0);
    missing.fold(masks, |masks, bit| masks | 0xffff << (bit * 16))
}

/// Returns the number of extents that were ever reserved.
fn extents_in_use(segment: &Segment) -> u64 {
    let high = segment.mapping.load(control::HEAP_HIGH);
    high.min(segment.mapping.layout().extents)
}

/// Copies the store under all locks, because the store has no memory to save pages in or must stay
/// synced.
fn under_locks<T>(segment: &Segment, mut moment: impl FnMut() -> T) -> Result<(Image, T), Error> {
    let image = empty(segment)?;
    let _locked = shard_locks::lock_all_for_a_moment(segment, Marks::Respected)?;
    let value = step::run(segment, |_| {
        copy_all(segment, &image);
        Ok(moment())
    })?;
    Ok((image, value))
}

/// Copies the store for a process that cannot take locks.
fn while_still<T>(segment: &Segment, mut moment: impl FnMut() -> T) -> Result<(Image, T), Error> {
    let marked = (0..segment.shards()).any(|index| {
        let base = segment.mapping.layout().shard(index);
        segment.mapping.load(base + shard::MARK) != 0
    });
    if marked {
        return Err(Error::Marked);
    }
    quiescence::look(segment, || {
        let image = empty(segment)?;
        copy_all(segment, &image);
        Ok((image, moment()))
    })?
}

/// Copies everything that belongs to the image, while the store does not change.
fn copy_all(segment: &Segment, image: &Image) {
    let extents = extents_in_use(segment);
    copy_tables(segment, image, extents);
    for extent in 0..extents {
        let free = free_masks(segment, extent / 4 * 4) >> (extent % 4 * 16);
        for page in (0..EXTENT_PAGES).filter(|page| free >> page & 1 == 0) {
            let at = segment.mapping.layout().page(extent * EXTENT_PAGES + page);
            segment.mapping.copy_page_to(&image.mapping, at, at);
        }
    }
}
