//! Opening and closing.

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

use undercroft_embedded::{OpenStore, Place};

use crate::border::{call, check_place, text};
use crate::handle::{Handle, Kind, Pool};
use crate::options::{Options, read_options};
use crate::status::{Refused, Status};
use crate::waiting::Program;

/// `UC_ABI_VERSION`: what is added raises the lower half, what is changed the upper one, and with that the name of the
/// shared library.
const ABI_VERSION: u32 = 4;

/// `uc_store`: a store that this process has open, and a database of it.
pub(crate) struct Database {
    pub(crate) shared: Arc<OpenStore>,
    pub(crate) number: usize,
    /// What `uc_store_warning` tells.
    warning: Option<CString>,
}

impl Kind for Database {
    const NAME: &'static str = "uc_store";
    const OPEN: u32 = 0x7563_5310;

    fn pool() -> &'static Pool<Database> {
        static POOL: Pool<Database> = Pool::new();
        &POOL
    }
}

pub(crate) type StoreHandle = Handle<Database>;

#[unsafe(no_mangle)]
extern "C" fn uc_abi_version() -> u32 {
    ABI_VERSION
}

#[unsafe(no_mangle)]
extern "C" fn uc_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_open(
    url: *const c_char,
    options: *const Options,
    store: *mut *mut StoreHandle,
) -> c_int {
    call(|| {
        check_place(store)?;
        // SAFETY: the place is there.
        unsafe { store.write(std::ptr::null_mut()) };
        // SAFETY: the caller's promises.
        let (url, wanted) = unsafe { (text("a store's name", url)?, read_options(options)?) };
        let place = Place::new(url, wanted.terms).map_err(|error| Refused::opening(&error))?;
        let shared = place
            .open(|| Some(Box::new(Program)))
            .map_err(|error| Refused::opening(&error))?;
        let warning = place
            .check_terms(&shared.store)
            .map_err(|error| Refused::opening(&error))?;
        if let Some(patience) = wanted.patience {
            shared.store.set_patience(patience);
        }
        let opened = Handle::open(Database {
            shared,
            number: place.database().unwrap_or(wanted.database),
            // Paths with a zero byte are not opened.
            warning: warning.and_then(|text| CString::new(text.into_string()).ok()),
        });
        // SAFETY: the place is there.
        unsafe { store.write(opened) };
        Ok(Status::Ok)
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_store_warning(store: *const StoreHandle) -> *const c_char {
    // SAFETY: the caller's promise.
    match unsafe { Handle::shared(store) } {
        Ok(Database {
            warning: Some(text),
            ..
        }) => text.as_ptr(),
        _ => std::ptr::null(),
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_close(store: *mut StoreHandle) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { Handle::close(store) }?);
        Ok(Status::Ok)
    })
}
