//! Opens and closes stores.

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

use undercroft_embedded::{OpenStore, Place, StoreByName};

use crate::border::{call, check_place, text};
use crate::handle::{Handle, Kind, Pool};
use crate::options::{Options, read_options};
use crate::status::{Outcome, Refused, Status};
use crate::waiting::Program;

/// The C constant `UC_ABI_VERSION`. Additions to the interface increase the lower 16 bits.
/// Incompatible changes increase the upper 16 bits and change the name of the shared library.
const ABI_VERSION: u32 = 7;

/// The C type `uc_store`: an open store and a database number. Calls access the store only through
/// [`call_on`]. If the file was removed, `call_on` switches to the store that the name refers to
/// now.
pub(crate) struct Opened {
    by_name: StoreByName,
    number: usize,
    /// The text that `uc_store_warning` returns.
    warning: Option<CString>,
}

/// A database of a store during one call.
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

/// Runs `body` on a store. If the store's file was removed, runs `body` once more on the store that
/// the name refers to now.
///
/// # Safety
/// `store` must be null or a handle that this library returned. It must be sound to run `body`
/// twice with the caller's pointers.
#[inline(always)]
pub(crate) unsafe fn call_on(
    store: *const StoreHandle,
    mut body: impl FnMut(&Database<'_>) -> Outcome,
) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `store` is null or a handle from this library.
        let opened = unsafe { Handle::shared(store) }?;
        opened.by_name.call(Refused::opening, |shared| {
            body(&Database {
                shared,
                number: opened.number,
            })
        })
    })
}

/// Returns a handle's store and database number, for another handle that will outlive this one.
///
/// # Safety
/// `store` must be null or a handle that this library returned.
pub(crate) unsafe fn opened<'a>(store: *const StoreHandle) -> Outcome<(&'a StoreByName, usize)> {
    // SAFETY: the caller guarantees that `store` is null or a handle from this library.
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
/// Each pointer must be null or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_open(
    url: *const c_char,
    options: *const Options,
    store: *mut *mut StoreHandle,
) -> c_int {
    call(|| {
        check_place(store)?;
        // SAFETY: `check_place` verified that `store` is not null, and the caller guarantees that
        // it is writable.
        unsafe { store.write(std::ptr::null_mut()) };
        // SAFETY: the caller guarantees that each pointer is null or valid for its length, and that
        // the structure is valid for the length in its `size` field.
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
            // The conversion cannot fail, because a path with a zero byte cannot be opened.
            warning: warning.and_then(|text| CString::new(text.into_string()).ok()),
        });
        // SAFETY: `check_place` verified that `store` is not null, and the caller guarantees that
        // it is writable.
        unsafe { store.write(opened) };
        Ok(Status::Ok)
    })
}

/// # Safety
/// `store` must be null or a handle that this library returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_store_warning(store: *const StoreHandle) -> *const c_char {
    // SAFETY: the caller guarantees that `store` is null or a handle from this library.
    match unsafe { Handle::shared(store) } {
        Ok(Opened {
            warning: Some(text),
            ..
        }) => text.as_ptr(),
        _ => std::ptr::null(),
    }
}

/// # Safety
/// `store` must be null or a handle that this library returned, and no other thread may use it
/// during the call.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_close(store: *mut StoreHandle) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `store` is null or a handle from this library.
        drop(unsafe { Handle::close(store) }?);
        Ok(Status::Ok)
    })
}
