//! Memory mappings of the store's file and of private pages of this process.

use std::fs::File;
use std::io::{self, BufRead};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU32;

use crate::mapped::layout::PAGE;
use crate::mapped::platform::check;

/// A memory mapping, which is unmapped when dropped.
pub(crate) struct Map {
    start: *mut u8,
    length: usize,
    /// Whether another `Map` owns the range and unmaps it.
    is_borrowed: bool,
}

// SAFETY: a mapping belongs to the process, so any thread may own and unmap it.
unsafe impl Send for Map {}
// SAFETY: `Map` itself exposes only the start address, and `Mapping` ensures that every access
// through it is sound.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `length` bytes of the file, shared with all other processes.
    pub(crate) fn shared(file: &File, length: u64, write: bool) -> io::Result<Map> {
        let protection = libc::PROT_READ | if write { libc::PROT_WRITE } else { 0 };
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        Self::new(length, protection, flags, file.as_raw_fd())
    }

    /// Maps the first `length` bytes of the file privately, so that writes stay in this process.
    pub(crate) fn private(file: &File, length: u64) -> io::Result<Map> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        Self::new(length, protection, flags, file.as_raw_fd())
    }

    /// Reserves `length` bytes of private address space. The space reads as zeros, and only pages
    /// that are written use memory. A forked child does not inherit the mapping.
    pub(crate) fn own(length: u64) -> io::Result<Map> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let map = Self::new(length, protection, flags, -1)?;
        map.advise(0, length, libc::MADV_DONTFORK)?;
        Ok(map)
    }

    /// Maps one private page that reads as zeros in a forked child (L3).
    pub(crate) fn fork_guard() -> io::Result<Map> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let map = Self::new(PAGE, protection, flags, -1)?;
        map.advise(0, PAGE, libc::MADV_WIPEONFORK)?;
        Ok(map)
    }

    /// Keeps the open file description of `file`, and thus its locks, alive in this process only
    /// (L1).
    pub(crate) fn keep_description(file: &File) -> io::Result<Map> {
        let map = Self::new(PAGE, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd())?;
        map.advise(0, PAGE, libc::MADV_DONTFORK)?;
        Ok(map)
    }

    fn new(length: u64, protection: i32, flags: i32, descriptor: i32) -> io::Result<Map> {
        let length = usize::try_from(length)
            .map_err(|_| io::Error::new(io::ErrorKind::OutOfMemory, "file too large to map"))?;
        // SAFETY: the kernel chooses the address of the new mapping, so the mapping does not
        // overlap an existing one.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                flags,
                descriptor,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Map {
            start: start.cast(),
            length,
            is_borrowed: false,
        })
    }

    /// Returns a `Map` of the same range that does not unmap the range when dropped.
    ///
    /// # Safety
    /// The result must not outlive `self`.
    pub(crate) unsafe fn borrowed(&self) -> Map {
        Map {
            start: self.start,
            length: self.length,
            is_borrowed: true,
        }
    }

    /// Returns the address of the first byte.
    #[inline(always)]
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Returns the length in bytes.
    #[inline(always)]
    pub(crate) fn length(&self) -> u64 {
        self.length as u64
    }

    /// Returns the first word of the mapping.
    pub(crate) fn first_word(&self) -> &AtomicU32 {
        // SAFETY: the mapping is at least one page long, page-aligned, and lives as long as `self`;
        // all access to it is atomic.
        unsafe { AtomicU32::from_ptr(self.start.cast()) }
    }

    /// Makes the pages of a range present and writable, allocating them in the file. If the file
    /// system is full, this call returns an error, and later accesses cannot raise SIGBUS (H2).
    pub(crate) fn populate(&self, start: u64, length: u64) -> io::Result<()> {
        self.advise(start, length, libc::MADV_POPULATE_WRITE)
    }

    /// Returns the memory of a range of the file to the system. The range then reads as zeros.
    pub(crate) fn punch(&self, start: u64, length: u64) -> io::Result<()> {
        self.advise(start, length, libc::MADV_REMOVE)
    }

    /// Writes the changes in a range to disk and waits for completion.
    pub(crate) fn sync(&self, start: u64, length: u64) -> io::Result<()> {
        assert!(start.is_multiple_of(PAGE) && start + length <= self.length());
        // SAFETY: the range is inside this mapping (asserted).
        let result = unsafe {
            libc::msync(
                self.start.add(start as usize).cast(),
                length as usize,
                libc::MS_SYNC,
            )
        };
        check(result).map(drop)
    }

    /// Returns true if the mapped file is known to have been unlinked. Needs no permission on the
    /// path, because it inspects the mapping itself.
    pub(crate) fn is_unlinked(&self) -> bool {
        let Ok(maps) = File::open("/proc/self/maps") else {
            return false;
        };
        let is_ours = |line: &&[u8]| {
            let digits = line.split(|&byte| byte == b'-').next().unwrap_or_default();
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            usize::from_str_radix(digits, 16) == Ok(self.start as usize)
        };
        let lines = io::BufReader::new(maps).split(b'\n').map_while(Result::ok);
        let mut lines = lines.filter(|line| is_ours(&line.as_slice()));
        lines
            .next()
            .is_some_and(|line| line.ends_with(b" (deleted)"))
    }

    fn advise(&self, start: u64, length: u64, advice: i32) -> io::Result<()> {
        assert!(
            start.is_multiple_of(PAGE)
                && start
                    .checked_add(length)
                    .is_some_and(|end| end <= self.length()),
            "madvise range outside the mapping"
        );
        // SAFETY: the range lies inside this mapping (asserted above). Of the advice values used
        // here, only `MADV_REMOVE` changes the content, and a shared mapping is only ever accessed
        // through atomics.
        let result = unsafe {
            libc::madvise(
                self.start.add(start as usize).cast(),
                length as usize,
                advice,
            )
        };
        check(result).map(drop)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.is_borrowed {
            return;
        }
        // SAFETY: the range is exactly what `mmap` returned, and no borrowed `Map` of it outlives
        // `self`.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
