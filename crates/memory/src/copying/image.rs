//! An image of the store at one moment, in this process' own memory: the copier's half (C5).
//!
//! The locks of all shards are held once, for the moment: while the shards' roots, the map of reserved extents and the
//! masks of free pages are copied, and the copy is switched on. Then the pages that were in use are copied, one after the
//! other and without any lock, while others write on; what they change first is saved (`copy_table.rs`). With the last page
//! the copy is over, whatever is done with the image: it is read by the same code as the store, with nobody who changes
//! anything, for as long as its owner likes.
//!
//! Writers never wait for the copier. Where the stock runs out they go on without it, and the copier begins anew with a
//! larger one, a bounded number of times.

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

/// Attempts before the copier gives up.
const ATTEMPTS: u32 = 4;
/// The first attempt's stock is this part of the memory in use,
const STOCK_PART: u64 = 4;
/// and each further one's so many times the last one's.
const STOCK_GROWTH: u64 = 4;
/// Extents that are added to a stock at a time, where it is low.
const TOP_UP: u64 = 32;
/// Extents in a stock at least.
const STOCK_LEAST: u64 = 4;
/// Extents that the table has ahead of those in use: others may reserve some until the moment.
const TABLE_AHEAD: u64 = 256;
/// Extents copied between two looks at the stock.
const EXTENTS_AT_ONCE: u64 = 8;
/// How long the heap's lock is waited for under those of the shards.
const HEAP_PATIENCE: Duration = Duration::from_micros(200);
/// Between two looks whether another copier is done.
const PAUSE: Duration = Duration::from_millis(2);

/// The store as it was at one moment.
pub struct Image {
    mapping: Mapping,
}

impl Image {
    /// The image, to be read like the store. Nothing in it changes.
    pub fn view(&self) -> View<'_> {
        View::new(&self.mapping, Notes::Locked)
    }
}

/// Marks this process as one that copies, until it is dropped.
struct CopyingThread<'s>(&'s Segment);

impl Drop for CopyingThread<'_> {
    fn drop(&mut self) {
        if !fault::abandoned() {
            self.0.copying_as.store(0, Ordering::Release);
        }
    }
}

impl Segment {
    /// Copies the store as it is at one moment, and calls `moment` at that moment, under all locks: what it returns
    /// belongs to the image. Others read and write meanwhile; the longest that they wait for is the moment itself, some
    /// 100 microseconds. O(memory in use), and takes as much of this process' own memory.
    ///
    /// The copy takes memory of the store for what others change meanwhile. Where there is none at all, it is made under
    /// all locks; and so is that of a store that nobody has written to since it was synced, which it stays.
    ///
    /// A process that cannot join the store, as its file system is full, takes no lock: it copies again where something
    /// was written meanwhile.
    ///
    /// `between` is called after every page, with no lock held: tests change the store there.
    ///
    /// # Errors
    /// [`Error::Marked`] where somebody has to look after a shard first. [`Error::Copying`] where another process makes
    /// one for longer than the patience. [`Error::CopyLost`] where others change more than there is memory for.
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
            // Nobody has written since, and what is taken of the heap would be a change that is not on the disk (D1).
            return under_locks(self, moment);
        }
        let mut wanted = 0;
        for attempt in 1.. {
            let area = claim_when_free(self)?;
            let mut copier = match Copier::new(area, wanted) {
                // A store without any room.
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

/// One attempt.
struct Copier<'s> {
    segment: &'s Segment,
    area: Area<'s>,
    table: CopyTable<'s>,
    image: Image,
    /// Pages that the stock is to have at least.
    low: u64,
}

impl<'s> Copier<'s> {
    /// Gets ready what is needed, with no lock held; at least so many extents in the stock, if there is room.
    fn new(area: Area<'s>, wanted: u64) -> Result<Copier<'s>, Error> {
        let segment = area.segment;
        let layout = segment.mapping.layout();
        let extents = extents_in_use(segment);
        let ahead = TABLE_AHEAD + wanted + extents / STOCK_PART;
        let table = area.take_table((extents + ahead).min(layout.extents))?;
        let part = segment.granted_bytes() / EXTENT / STOCK_PART;
        let wanted = wanted.max(part).max(STOCK_LEAST);
        let mut stocked = 0;
        // What is in use may have grown by the stock, so that it is left out of the copy run by run.
        stocked += area.stock_up(&table, wanted, |first, pages| {
            leave_out(&table, first, pages);
        })?;
        if stocked == 0 {
            return Err(Error::OutOfMemory);
        }
        let image = empty(segment)?;
        // Twice, so that the moment finds all of this memory there.
        copy_tables(segment, &image, table.extents.min(extents_in_use(segment)));
        Ok(Copier {
            segment,
            area,
            table,
            image,
            low: stocked * EXTENT_PAGES / 4 * 3,
        })
    }

    /// The moment: the one time that locks are held. None where the heap has grown beyond the table.
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

    /// Copies all pages that were in use, unless the copy is lost on the way.
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

    /// Has the image have a page as it was at the moment.
    fn collect(&self, page: u64) {
        let mapping = &self.segment.mapping;
        let at = mapping.layout().page(page);
        let entry = self.table.entry(page);
        let mut found = entry.load(Ordering::Acquire);
        if found == 0 {
            mapping.copy_page_to(&self.image.mapping, at, at);
            // Between the page and its word: who sees a change of the page sees the word that came before it (C1).
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

    /// Fills the stock up where it is low. False where the copy is lost.
    fn go_on(&self) -> bool {
        if self.area.left() < self.low {
            // A page that was in use at the moment is collected before it becomes one of the stock. Where memory is
            // short, what is there has to do.
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

    /// Whether the image has all that it should: nothing was lost, and nobody has ended the copy.
    fn is_whole(&self) -> bool {
        fence(Ordering::Acquire);
        let state = self.segment.mapping.load(control::COPY_STATE);
        debug_assert_ne!(state, NONE);
        state == ON
    }
}

/// One thread of a process copies at a time.
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

/// Claims the copy for this process, after any other process is done.
fn claim_when_free(segment: &Segment) -> Result<Area<'_>, Error> {
    let start = Instant::now();
    loop {
        match area::claim(segment)? {
            Ok(area) => return Ok(area),
            Err(pid) => wait_for_copier(segment, start, pid)?,
        }
    }
}

/// Waits a moment for another copier, within the patience.
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

/// An empty image.
fn empty(segment: &Segment) -> Result<Image, Error> {
    let layout = *segment.mapping.layout();
    let map = Map::own(layout.file_length).map_err(|source| Error::Io {
        doing: "finding memory for an image of",
        path: segment.path().into(),
        source,
    })?;
    Ok(Image {
        mapping: Mapping::new(map, layout, true),
    })
}

/// Copies what lies outside of the heap and is part of the image. Some 300 KiB.
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

/// The pages of four extents that are free, or have no memory.
fn free_masks(segment: &Segment, extent: u64) -> u64 {
    let layout = segment.mapping.layout();
    let reserved = segment.mapping.load(layout.reserved_map + extent / 64 * 8) >> (extent % 64);
    if reserved & 0xf == 0 {
        // Even the masks may have no memory (S3).
        return u64::MAX;
    }
    let masks = segment.mapping.load(layout.page_masks + extent / 4 * 8);
    let missing = (0..4).filter(|bit| reserved >> bit & 1 == 0);
    missing.fold(masks, |masks, bit| masks | 0xffff << (bit * 16))
}

/// The extents that were ever reserved.
fn extents_in_use(segment: &Segment) -> u64 {
    let high = segment.mapping.load(control::HEAP_HIGH);
    high.min(segment.mapping.layout().extents)
}

/// The image of a store that has no memory to save anything in.
fn under_locks<T>(segment: &Segment, mut moment: impl FnMut() -> T) -> Result<(Image, T), Error> {
    let image = empty(segment)?;
    let _locked = shard_locks::lock_all_for_a_moment(segment, Marks::Respected)?;
    let value = step::run(segment, |_| {
        copy_all(segment, &image);
        Ok(moment())
    })?;
    Ok((image, value))
}

/// The image of a process that can take no lock.
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

/// Copies all of the store that an image has, which nobody changes meanwhile.
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
