//! A process's entry in the process table, which shows that the process is alive (L1 to L4).
//!
//! The process holds its entry with an open-file-description lock on the entry's first byte. One
//! page of that description is mapped, and its descriptor is closed immediately. The kernel
//! releases the lock together with the mapping: at exit, exec or `kill -9`, after the last thread
//! has stopped. No descriptor remains open, and a forked child does not inherit the mapping.
//!
//! A process that is no longer permitted to open the path can neither lock a byte nor query locks.
//! Instead, the process joins by its process number, and checks other processes by their numbers:
//! see [`tenant`](crate::processes::tenant).

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::error::{Error, Holder};
use crate::mapped::fork_mutex::ForkMutex;
use crate::mapped::layout::{SLOTS, control, slot};
use crate::mapped::map::Map;
use crate::mapped::mapping::Mapping;
use crate::mapped::platform::{self, FileId, unix_milliseconds};
use crate::processes::lock::Owner;
use crate::processes::patience::is_out_of_time;
use crate::processes::tenant::{Life, Tenant, life_by_number};

const UNCLAIMED: u32 = 0;
const CLAIMING: u32 = 1;
const CLAIMED: u32 = 2;
/// The state of an unclaimed membership, in the process that opened the store.
const OPENED: u32 = 3;
/// The number of threads in a process that each have their own transaction record. They are the
/// first threads to write; all later threads share the remaining records.
const OWNED_RECORDS: u64 = slot::RECORD_COUNT / 2;
/// The number of unused slots that are backed with memory in advance. That many processes can join
/// a store on a full file system (H6).
pub(crate) const SPARE_SLOTS: u64 = 8;

thread_local! {
    /// The thread's number within its process plus 1, or 0 until the number is assigned.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Assigns the next number to this thread.
#[cold]
fn number_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    THREAD.set(number + 1);
    number
}

/// The gate that blocks `fork` while this process locks a slot. A child forked between `open` and
/// `close` would inherit the descriptor and keep the slot of a dead parent locked. The value is 0
/// if the gate is open, 1 while a slot is being locked, and otherwise identifies the forking
/// thread.
static FORK_GATE: AtomicUsize = AtomicUsize::new(0);

const FOR_A_SLOT: usize = 1;

fn close_fork_gate_for(holder: usize) {
    while let Err(found) =
        FORK_GATE.compare_exchange(0, holder, Ordering::Acquire, Ordering::Relaxed)
    {
        // A child forked while its parent was inside `guard_forks` registers the handlers twice, so
        // its own thread may already have closed the gate.
        if found == holder && holder != FOR_A_SLOT {
            return;
        }
        std::thread::yield_now();
    }
}

extern "C" fn close_fork_gate() {
    close_fork_gate_for(platform::this_thread());
}

extern "C" fn open_fork_gate() {
    FORK_GATE.store(0, Ordering::Release);
}

/// Makes `fork` wait at the gate. Called before this process first opens a store.
fn guard_forks() {
    static GUARDED: ForkMutex<bool> = ForkMutex::new(false, || false);
    let mut guarded = GUARDED.lock();
    if !*guarded {
        platform::at_fork(close_fork_gate, open_fork_gate, open_fork_gate);
        *guarded = true;
    }
}

/// This process's membership in one store.
pub(crate) struct Process {
    path: PathBuf,
    file: FileId,
    /// The pid namespace of the process that opened the store.
    opened_in: u32,
    /// The pid namespace whose lock belongs to the open file description of the store's mapping, or
    /// 0 if none.
    namespace: u32,
    /// The state of the membership, which reads as `UNCLAIMED` in a forked child (L3).
    guard: Map,
    owner: AtomicU32,
    slot: AtomicU64,
    /// The mapping that keeps the slot locked.
    description: ForkMutex<Option<Map>>,
    /// All slots below this index are known to be backed with memory.
    backed: AtomicU64,
    /// For each transaction record of the slot, whether a thread is using it.
    records: [AtomicBool; slot::RECORD_COUNT as usize],
    /// For each seat of the slot, whether it is in use.
    seats: [AtomicBool; slot::SEAT_COUNT as usize],
    /// For each pin of the slot, whether it is in use.
    pins: [AtomicBool; slot::PIN_COUNT as usize],
}

impl Process {
    /// Creates an unclaimed membership. `opened_in` is this process's pid namespace. `namespace` is
    /// the pid namespace whose lock belongs to the mapped description, or 0.
    pub(crate) fn new(
        path: &Path,
        file: FileId,
        opened_in: u32,
        namespace: u32,
    ) -> Result<Process, Error> {
        guard_forks();
        let guard = Map::fork_guard().map_err(|source| Error::Io {
            doing: "mapping the fork guard of",
            path: path.into(),
            source,
        })?;
        guard.first_word().store(OPENED, Ordering::Relaxed);
        Ok(Process {
            path: path.into(),
            file,
            opened_in,
            namespace,
            guard,
            owner: AtomicU32::new(0),
            slot: AtomicU64::new(0),
            description: ForkMutex::default(),
            backed: AtomicU64::new(0),
            records: [const { AtomicBool::new(false) }; slot::RECORD_COUNT as usize],
            seats: [const { AtomicBool::new(false) }; slot::SEAT_COUNT as usize],
            pins: [const { AtomicBool::new(false) }; slot::PIN_COUNT as usize],
        })
    }

    /// Returns the numbers by which the kernel knows the mapped file, as text.
    pub(crate) fn file_name_in_kernel(&self) -> String {
        self.file.to_string()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether this process has claimed a slot. A forked child has not, until it claims its
    /// own slot.
    #[inline(always)]
    pub(crate) fn claimed(&self) -> bool {
        self.guard.first_word().load(Ordering::Acquire) == CLAIMED
    }

    /// Returns the identity that this process writes into lock words.
    #[inline(always)]
    pub(crate) fn owner(&self) -> Owner {
        Owner::from_bits(self.owner.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> u64 {
        self.slot.load(Ordering::Relaxed)
    }

    /// Claims a slot, unless another thread has just claimed one. Calls `recover` with the claimed
    /// slot before using the slot, to recover from the death of its earlier owner (L4).
    #[cold]
    pub(crate) fn claim(
        &self,
        mapping: &Mapping,
        recover: impl FnOnce(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let state = self.guard.first_word();
        let namespace = loop {
            let found = state.load(Ordering::Acquire);
            let free = matches!(found, UNCLAIMED | OPENED);
            match state.compare_exchange(
                if free { found } else { UNCLAIMED },
                CLAIMING,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                // Only in a forked child can the pid namespace differ from the opener's namespace.
                Ok(OPENED) => break self.opened_in,
                Ok(_) => break platform::pid_namespace(),
                Err(CLAIMED) => return Ok(()),
                // Another thread is still claiming the slot, and may be waiting to recover from the
                // death of the slot's last owner.
                Err(_) if is_out_of_time() => {
                    return Err(Error::Busy {
                        holder: Holder::Active,
                        pid: std::process::id(),
                    });
                }
                Err(_) => std::thread::yield_now(),
            }
        };
        let result = self.take_slot(mapping, namespace).and_then(|taken| {
            let recovered = recover(taken);
            recovered.inspect_err(|_| self.give_back_number(mapping))
        });
        if result.is_err() {
            drop(self.description.lock().take());
        }
        let next = if result.is_ok() { CLAIMED } else { UNCLAIMED };
        state.store(next, Ordering::Release);
        result
    }

    fn take_slot(&self, mapping: &Mapping, namespace: u32) -> Result<u64, Error> {
        close_fork_gate_for(FOR_A_SLOT);
        let taken = self.lock_a_slot(mapping, namespace);
        open_fork_gate();
        let slot_index = taken?;
        let at = mapping.layout().slot(slot_index);
        let generation = mapping.word(at + slot::GENERATION);
        // Only the process that has just claimed the slot writes the slot's generation.
        let base = mapping.load(control::GENERATION_BASE);
        let next = generation.load(Ordering::Relaxed).max(base).wrapping_add(1);
        generation.store(next, Ordering::Release);
        mapping.store(at + slot::PID, u64::from(std::process::id()));
        mapping.store(at + slot::CLAIMED, unix_milliseconds());
        self.slot.store(slot_index, Ordering::Relaxed);
        self.owner
            .store(Owner::new(slot_index, next).bits(), Ordering::Relaxed);
        for taken in self.records.iter().chain(&self.seats).chain(&self.pins) {
            taken.store(false, Ordering::Relaxed);
        }
        Ok(slot_index)
    }

    fn lock_a_slot(&self, mapping: &Mapping, namespace: u32) -> Result<u64, Error> {
        let fail = |doing| move |source| self.io(doing, source);
        let file = match self.reopen() {
            Ok(Some(file)) => file,
            Ok(None) => return Err(self.removed()),
            Err(error) if is_missing(&error) => return Err(self.removed()),
            Err(error) if is_forbidden(&error) => {
                return self.join_by_number(mapping, namespace, error);
            }
            Err(error) => return Err(self.io("opening", error)),
        };
        let mut description = self.description.lock();
        // In a forked child, this value refers to a mapping of the parent that the child does not
        // have, so it must not be unmapped.
        std::mem::forget(description.take());
        let me = self.tenant(namespace, false);
        for index in 0..SLOTS {
            let at = mapping.layout().slot(index);
            if !platform::try_lock_byte(&file, at).map_err(fail("locking a slot in"))? {
                continue;
            }
            back(mapping, index)?;
            if !self.move_in(mapping, at, me, |tenant| {
                tenant.by_number && life_by_number(tenant, Some(&file)) != Life::Dead
            }) {
                platform::unlock_byte(&file, at).map_err(fail("unlocking a slot in"))?;
                continue;
            }
            note_used(mapping, index);
            *description = Some(Map::keep_description(&file).map_err(fail("mapping a slot of"))?);
            return Ok(index);
        }
        Err(Error::TooManyProcesses)
    }

    /// Claims a slot by process number, after opening the file failed with `error`. Skips slots
    /// whose last tenant held a byte lock: without the file, this process cannot check whether
    /// another process is about to lock the slot's byte.
    fn join_by_number(
        &self,
        mapping: &Mapping,
        namespace: u32,
        error: io::Error,
    ) -> Result<u64, Error> {
        if self.place(mapping) == PathState::Gone {
            return Err(self.removed());
        }
        // Processes in other pid namespaces can prove this process dead only by the lock of its
        // namespace, so this process's mapping of the store must hold that lock.
        if namespace == 0 || namespace != self.namespace {
            return Err(Error::Forbidden {
                path: self.path.clone(),
                source: error,
            });
        }
        let me = self.tenant(namespace, true);
        for index in 0..SLOTS {
            let at = mapping.layout().slot(index);
            back(mapping, index)?;
            if self.move_in(mapping, at, me, |tenant| {
                !tenant.by_number || life_by_number(tenant, None) != Life::Dead
            }) {
                note_used(mapping, index);
                return Ok(index);
            }
        }
        Err(Error::TooManyProcesses)
    }

    fn tenant(&self, namespace: u32, by_number: bool) -> Tenant {
        Tenant {
            pid: std::process::id(),
            namespace,
            by_number,
        }
    }

    /// Makes `me` the tenant of a slot. Returns false if `stays` rejects replacing the current
    /// tenant, or if another process changed the word first.
    fn move_in(
        &self,
        mapping: &Mapping,
        at: u64,
        me: Tenant,
        stays: impl Fn(Tenant) -> bool,
    ) -> bool {
        let word = mapping.word(at + slot::TENANT);
        let seen = word.load(Ordering::Acquire);
        !Tenant::unpack(seen).is_some_and(stays)
            && word
                .compare_exchange(seen, me.pack(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Releases a slot that this process claimed by number.
    fn give_back_number(&self, mapping: &Mapping) {
        let me = self.tenant(self.namespace, true).pack();
        let word = mapping.word(mapping.layout().slot(self.slot()) + slot::TENANT);
        // If another tenant has claimed the slot, the exchange fails and changes nothing.
        let _ = word.compare_exchange(me, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn io(&self, doing: &'static str, source: io::Error) -> Error {
        Error::Io {
            doing,
            path: self.path.clone(),
            source,
        }
    }

    fn removed(&self) -> Error {
        Error::Removed {
            path: self.path.clone(),
        }
    }

    /// Opens the store's path again, or returns `None` if another file is now at that path.
    pub(crate) fn reopen(&self) -> io::Result<Option<File>> {
        let file = platform::open(&self.path, true)?;
        let status = platform::status(&file)?;
        Ok((status.id == self.file).then_some(file))
    }

    /// Opens the path like [`reopen`](Self::reopen), but only for reading, in order to query locks.
    pub(crate) fn look(&self) -> io::Result<Option<File>> {
        let file = platform::open(&self.path, false)?;
        let status = platform::status(&file)?;
        Ok((status.id == self.file).then_some(file))
    }

    /// Returns whether the mapped file is still at its path. Most errors prove nothing: a process
    /// that is not permitted to search a directory cannot find out what it contains.
    pub(crate) fn place(&self, mapping: &Mapping) -> PathState {
        match platform::status_of_path(&self.path) {
            Ok(status) if status.id == self.file => PathState::There,
            Ok(_) => PathState::Gone,
            Err(error) if is_missing(&error) => PathState::Gone,
            Err(_) if mapping.is_unlinked() => PathState::Gone,
            Err(_) => PathState::Unknown,
        }
    }

    /// Backs spare slots with memory if none is known to be backed. Returns false if no memory
    /// could be allocated.
    pub(crate) fn keep_spare_slots(&self, mapping: &Mapping) -> bool {
        let used = mapping.load(control::SLOTS_USED).min(SLOTS);
        if used == SLOTS || self.backed.load(Ordering::Relaxed) > used {
            return true;
        }
        let backed = back_spare_slots(mapping, used);
        if backed {
            self.backed.store(used + SPARE_SLOTS, Ordering::Relaxed);
        }
        backed
    }

    /// Reserves one of this process's transaction records.
    #[inline]
    pub(crate) fn take_record(&self) -> u64 {
        let thread = match THREAD.get() {
            0 => number_thread(),
            number => number - 1,
        };
        if thread < OWNED_RECORDS {
            // Only this thread uses this record, so no atomic exchange is needed. The record is
            // already in use if this is a signal handler that writes while its thread waits for a
            // lock.
            let mine = &self.records[thread as usize];
            if !mine.load(Ordering::Relaxed) {
                mine.store(true, Ordering::Relaxed);
                return thread;
            }
        }
        self.take_shared_record(thread)
    }

    #[cold]
    fn take_shared_record(&self, thread: u64) -> u64 {
        let shared = slot::RECORD_COUNT - OWNED_RECORDS;
        for tried in 0.. {
            let index = OWNED_RECORDS + (thread + tried) % shared;
            if !self.records[index as usize].swap(true, Ordering::Acquire) {
                return index;
            }
            if tried % shared == shared - 1 {
                std::thread::yield_now();
            }
        }
        unreachable!("the search continues until a record is free")
    }

    #[inline]
    pub(crate) fn put_record(&self, index: u64) {
        self.records[index as usize].store(false, Ordering::Release);
    }

    /// Reserves a seat in this process's slot, or returns `None` if all seats are in use.
    pub(crate) fn take_seat(&self) -> Option<u64> {
        let free = |taken: &&AtomicBool| !taken.swap(true, Ordering::Acquire);
        let place = self.seats.iter().position(|taken| free(&taken))?;
        Some(place as u64)
    }

    pub(crate) fn put_seat(&self, seat: u64) {
        self.seats[seat as usize].store(false, Ordering::Release);
    }

    /// Reserves a pin in this process's slot, or returns `None` if all pins are in use.
    pub(crate) fn take_pin(&self) -> Option<u64> {
        let free = |taken: &&AtomicBool| !taken.swap(true, Ordering::Acquire);
        let place = self.pins.iter().position(|taken| free(&taken))?;
        Some(place as u64)
    }

    pub(crate) fn put_pin(&self, pin: u64) {
        self.pins[pin as usize].store(false, Ordering::Release);
    }

    /// Releases the slot without cleaning up, as if the process had died.
    pub(crate) fn abandon(&self, mapping: &Mapping) {
        let state = self.guard.first_word();
        if state.swap(UNCLAIMED, Ordering::AcqRel) != UNCLAIMED {
            drop(self.description.lock().take());
            self.give_back_number(mapping);
        }
    }

    /// Releases a slot that was claimed by number. A slot that is held by a byte lock is released
    /// when its mapping is dropped.
    pub(crate) fn end(&self, mapping: &Mapping) {
        if self.claimed() {
            self.give_back_number(mapping);
        }
    }
}

/// Whether the mapped file is still at the store's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathState {
    /// The mapped file is at the path.
    There,
    /// No file, or another file, is at the path.
    Gone,
    /// This process has no permission to look up the path.
    Unknown,
}

/// Returns whether the error means that no file exists at the path.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR))
}

/// Returns whether the error means that this process lacks permission.
fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// Returns whether the open failed for lack of permission or descriptors, which proves nothing
/// about the file itself.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    is_forbidden(error) || matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Backs a slot with memory and, if enough memory is available, the spare slots after it.
fn back(mapping: &Mapping, index: u64) -> Result<(), Error> {
    let at = mapping.layout().slot(index);
    if back_spare_slots(mapping, index) {
        return Ok(());
    }
    let backed = mapping.populate(at, slot::STRIDE);
    backed.map_err(|_| Error::OutOfMemory)
}

/// Backs a slot and the spare slots after it with memory. Returns whether all of them could be
/// backed.
fn back_spare_slots(mapping: &Mapping, index: u64) -> bool {
    let count = (1 + SPARE_SLOTS).min(SLOTS - index);
    mapping
        .populate(mapping.layout().slot(index), count * slot::STRIDE)
        .is_ok()
}

fn note_used(mapping: &Mapping, index: u64) {
    let used = mapping.word(control::SLOTS_USED);
    used.fetch_max(index + 1, Ordering::AcqRel);
}

impl Drop for Process {
    fn drop(&mut self) {
        let description = self.description.get_mut();
        if self.guard.first_word().load(Ordering::Acquire) != CLAIMED {
            // A forked child does not have its parent's mapping, so the child must not unmap it.
            std::mem::forget(description.take());
        }
    }
}
