//! Opening and closing.

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

use undercroft_embedded::{OpenStore, Place, StoreByName};

use crate::border::{call, check_place, text};
use crate::handle::{Handle, Kind, Pool};
use crate::options::{Options, read_options};
use crate::status::{Outcome, Refused, Status};
use crate::waiting::Program;

/// `UC_ABI_VERSION`: what is added raises the lower half, what is changed the upper one, and with that the name of the
/// shared library.
const ABI_VERSION: u32 = 5;

/// `uc_store`: a store that this process has open, and a database of it. Calls reach the store by [`call_on`] alone, which
/// goes on with the store that the name means now where the file was removed.
pub(crate) struct Opened {
    by_name: StoreByName,
    number: usize,
    /// What `uc_store_warning` tells.
    warning: Option<CString>,
}

/// A database of a store, for one call.
pub(crate) struct Database<'c> {
    pub(crate) shared: &'c Arc<OpenStore>,
    pub(crate) number: usize,
}

impl Kind for Opened {
    const NAME: &'static str = "uc_store";
    const OPEN: u32 = 0x7563_5310;

    fn pool() -> &'static Pool<Opened> {
        static POOL: Pool<Opened> = Pool::new();
        &POOL
    }
}

pub(crate) type StoreHandle = Handle<Opened>;

/// Makes a call on a store; a second time where the first one found that the file was removed, and the client goes on with
/// the store that the name means now.
///
/// # Safety
/// As the header says of the store; what the call does with the caller's pointers may be done twice.
#[inline(always)]
pub(crate) unsafe fn call_on(
    store: *const StoreHandle,
    mut body: impl FnMut(&Database<'_>) -> Outcome,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let opened = unsafe { Handle::shared(store) }?;
        opened.by_name.call(Refused::opening, |shared| {
            body(&Database {
                shared,
                number: opened.number,
            })
        })
    })
}

/// The store of a handle, and the number of its database, for a handle that lives on its own.
///
/// # Safety
/// As the header says of the store.
pub(crate) unsafe fn opened<'a>(store: *const StoreHandle) -> Outcome<(&'a StoreByName, usize)> {
    // SAFETY: the caller's promise.
    let opened = unsafe { Handle::shared(store) }?;
    Ok((&opened.by_name, opened.number))
}

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
        let number = place.database().unwrap_or(wanted.database);
        let place = place.with_patience(wanted.patience);
        let by_name = StoreByName::open(place, || Some(Box::new(Program)))
            .map_err(|error| Refused::opening(&error))?;
        let warning = by_name
            .with(|shared| by_name.place().check_terms(&shared.store))
            .map_err(|error| Refused::opening(&error))?;
        let opened = Handle::open(Opened {
            by_name,
            number,
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
        Ok(Opened {
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
