//! An image of the store at one moment, in this process's own memory. This file contains the
//! copier's part (C5).
//!
//! The locks of all shards are held once, for the moment at which the copy is switched on. Under
//! these locks, the shards' roots, the map of reserved extents and the masks of free pages are
//! copied. Then the pages that were in use are copied one by one, without any lock, while other
//! processes write; each page is saved before it changes (`copy_table.rs`). The copy ends once the
//! last page is copied. The image remains until its owner drops it. It never changes, and is read
//! by the same code as the store.
//!
//! Writers never wait for the copier. If the stock runs out, writers continue without saving pages,
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
/// The first attempt's stock is the memory in use divided by this number.
const STOCK_PART: u64 = 4;
/// The factor by which each further attempt enlarges the stock.
const STOCK_GROWTH: u64 = 4;
/// The number of extents added in one step to a stock that is running low.
const TOP_UP: u64 = 32;
/// The minimum number of extents in a stock.
const STOCK_LEAST: u64 = 4;
/// The number of extents that the table covers beyond those in use, because more extents may be
/// reserved before the copy's moment.
const TABLE_AHEAD: u64 = 256;
/// The number of extents copied between two checks of the stock.
const EXTENTS_AT_ONCE: u64 = 8;
/// How long the copier waits for the heap's lock while holding the locks of the shards.
const HEAP_PATIENCE: Duration = Duration::from_micros(200);
/// How often the copier checks whether another copier has finished.
const PAUSE: Duration = Duration::from_millis(2);

/// An image of the store as it was at one moment.
pub struct Image {
    mapping: Mapping,
}

impl Image {
    /// Returns a view of the image, which behaves like a view of the store but never changes.
    pub fn view(&self) -> View<'_> {
        View::new(&self.mapping, Notes::Locked)
    }
}

/// A guard that marks this process as copying the store until the guard is dropped.
struct CopyingThread<'s>(&'s Segment);

impl Drop for CopyingThread<'_> {
    fn drop(&mut self) {
        if !fault::abandoned() {
            self.0.copying_as.store(0, Ordering::Release);
        }
    }
}

impl Segment {
    /// Copies the store as it is at one moment. Calls `moment` at that moment, under all locks, and
    /// returns its result with the image. Other processes read and write during the copy. They wait
    /// only for the moment itself, at most about 100 microseconds. O(memory in use), and uses the
    /// same amount of this process's own memory.
    ///
    /// The copy uses memory in the store to save pages that change while it runs. A store without
    /// free memory is copied under all locks. The same applies to a store that has not been written
    /// to since its last sync, so that it stays synced.
    ///
    /// A process that cannot join the store because its file system is full acquires no lock: it
    /// repeats the copy if the store was written to during it.
    ///
    /// Calls `between` after every page, with no lock held, so that tests can change the store at
    /// that point.
    ///
    /// # Errors
    /// Returns [`Error::Marked`] if a marked shard must be cleaned up first, [`Error::Copying`] if
    /// another process spends longer than the timeout copying, and [`Error::CopyLost`] if more
    /// pages change during the copy than there is memory to save.
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
            // The store has not been written to since its last sync. Allocating heap memory would
            // be a change that is not on disk (D1).
            return under_locks(self, moment);
        }
        let mut wanted = 0;
        for attempt in 1.. {
            let area = claim_when_free(self)?;
            let mut copier = match Copier::new(area, wanted) {
                // The store has no memory for a table and a stock.
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

/// An attempt to copy the store.
struct Copier<'s> {
    segment: &'s Segment,
    area: Area<'s>,
    table: CopyTable<'s>,
    image: Image,
    /// The number of pages below which more pages are added to the stock.
    low: u64,
}

impl<'s> Copier<'s> {
    /// Prepares an attempt, with no lock held. The stock contains at least `wanted` extents if
    /// enough memory is free.
    fn new(area: Area<'s>, wanted: u64) -> Result<Copier<'s>, Error> {
        let segment = area.segment;
        let layout = segment.mapping.layout();
        let extents = extents_in_use(segment);
        let ahead = TABLE_AHEAD + wanted + extents / STOCK_PART;
        let table = area.take_table((extents + ahead).min(layout.extents))?;
        let part = segment.granted_bytes() / EXTENT / STOCK_PART;
        let wanted = wanted.max(part).max(STOCK_LEAST);
        let mut stocked = 0;
        // Exclude each run of the stock from the copy, because it counts as memory in use.
        stocked += area.stock_up(&table, wanted, |first, pages| {
            leave_out(&table, first, pages);
        })?;
        if stocked == 0 {
            return Err(Error::OutOfMemory);
        }
        let image = empty(segment)?;
        // Copy the tables here as well, so that all memory for them is already allocated at the
        // moment of the copy.
        copy_tables(segment, &image, table.extents.min(extents_in_use(segment)));
        Ok(Copier {
            segment,
            area,
            table,
            image,
            low: stocked * EXTENT_PAGES / 4 * 3,
        })
    }

    /// Starts the copy at its moment, the only time at which locks are held. Returns `None` if the
    /// heap has outgrown the table.
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

    /// Copies all pages that were in use at the copy's moment. Stops early if the copy is lost.
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

    /// Copies a page into the image, as the page was at the copy's moment.
    fn collect(&self, page: u64) {
        let mapping = &self.segment.mapping;
        let at = mapping.layout().page(page);
        let entry = self.table.entry(page);
        let mut found = entry.load(Ordering::Acquire);
        if found == 0 {
            mapping.copy_page_to(&self.image.mapping, at, at);
            // Orders reading the page before reading its table word. If the copied page contains a
            // later change, the exchange below shows that the page was saved first (C1).
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

    /// Adds to the stock if it is running low. Returns false if the copy is lost.
    fn go_on(&self) -> bool {
        if self.area.left() < self.low {
            // Copy each page that was in use at the copy's moment before adding it to the stock. If
            // memory is scarce, the copy continues with its current stock.
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

/// Makes the calling thread this process's only copier.
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

/// Waits until no other process is copying, and claims the copy for this process.
fn claim_when_free(segment: &Segment) -> Result<Area<'_>, Error> {
    let start = Instant::now();
    loop {
        match area::claim(segment)? {
            Ok(area) => return Ok(area),
            Err(pid) => wait_for_copier(segment, start, pid)?,
        }
    }
}

/// Pauses while another process or thread is copying. Fails after the timeout.
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

/// Copies the part of the image that is outside the heap, about 600 KiB.
fn copy_tables(segment: &Segment, image: &Image, extents: u64) {
    let layout = *segment.mapping.layout();
    for index in 0..layout.shards {
        let base = layout.shard(index);
        for roots in (base + shard::ROOTS..base + shard::HINTS).step_by(PAGE as usize) {
            segment.mapping.copy_page_to(&image.mapping, roots, roots);
        }
    }
    for word in 0..extents.div_ceil(64) {
        let at = layout.reserved_map + word * 8;
        image.mapping.store(at, segment.mapping.load(at));
    }
}

/// Returns the page masks of four extents. Bits are set for pages that are free or not backed with
/// memory.
fn free_masks(segment: &Segment, extent: u64) -> u64 {
    let layout = segment.mapping.layout();
    let reserved = segment.mapping.load(layout.reserved_map + extent / 64 * 8) >> (extent % 64);
    if reserved & 0xf == 0 {
        // The masks themselves may not be backed with memory (S3).
        return u64::MAX;
    }
    let masks = segment.mapping.load(layout.page_masks + extent / 4 * 8);
    let missing = (0..4).filter(|bit| reserved >> bit & 1 == 0);
    missing.fold(masks, |masks, bit| masks | 0xffff << (bit * 16))
}

/// Returns the number of extents that have ever been reserved.
fn extents_in_use(segment: &Segment) -> u64 {
    let high = segment.mapping.load(control::HEAP_HIGH);
    high.min(segment.mapping.layout().extents)
}

/// Copies the store under all locks, because it has no memory for saving pages or must stay synced.
fn under_locks<T>(segment: &Segment, mut moment: impl FnMut() -> T) -> Result<(Image, T), Error> {
    let image = empty(segment)?;
    let _locked = shard_locks::lock_all_for_a_moment(segment, Marks::Respected)?;
    let value = step::run(segment, |_| {
        copy_all(segment, &image);
        Ok(moment())
    })?;
    Ok((image, value))
}

/// Copies the store for a process that cannot acquire locks.
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

/// Copies everything that belongs to the image. The store must not change during the call.
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
