//! What C may say when it opens a store or sets a string.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use undercroft_engine::{Condition, DATABASES, EvictionPolicy, Terms};

use crate::border::text;
use crate::status::{Outcome, Refused};

/// `UC_UNLIMITED`.
const UNLIMITED: u64 = u64::MAX;

/// `uc_options`. Zero is the default of each.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Options {
    size: usize,
    capacity: u64,
    max_memory: u64,
    policy: *const c_char,
    timeout_ms: u64,
    database: u64,
    strict: u64,
}

const _: () = assert!(size_of::<Options>() == 56 && size_of::<SetOptions>() == 32);

/// The size of the first `uc_options` of this interface.
const FIRST_OPTIONS: usize = 48;

/// What an [`Options`] says.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) terms: Terms,
    pub(crate) patience: Option<Duration>,
    pub(crate) database: usize,
}

/// # Safety
/// `options` is null, or there is a `uc_options` as large as its own `size` says.
pub(crate) unsafe fn read_options(options: *const Options) -> Outcome<Wanted> {
    if options.is_null() {
        return Ok(Wanted::default());
    }
    // SAFETY: the caller's promise; `size` comes first in each version of it.
    let options = unsafe { read_options_of_any_size(options) }?;
    let given = |value: u64| (value != 0).then_some(value);
    let policy = match options.policy.is_null() {
        true => None,
        // SAFETY: the caller's promise.
        false => Some(policy(unsafe {
            text("the name of a policy", options.policy)
        }?)?),
    };
    if options.database >= DATABASES as u64 {
        return Err(Refused::misuse(&format!(
            "expected a database below {DATABASES}, got {}",
            options.database
        )));
    }
    Ok(Wanted {
        terms: Terms {
            capacity: given(options.capacity),
            max_memory: match options.max_memory {
                UNLIMITED => Some(0),
                bytes => given(bytes),
            },
            policy,
            strict: options.strict != 0,
        },
        patience: given(options.timeout_ms).map(Duration::from_millis),
        database: options.database as usize,
    })
}

/// The options of a program that was built with this header or an older one, whose structure lacks the last fields: they
/// are zero.
///
/// # Safety
/// There is a `uc_options` as large as its own `size` says.
unsafe fn read_options_of_any_size(options: *const Options) -> Outcome<Options> {
    // SAFETY: the caller's promise; `size` comes first in each version of it.
    let size = unsafe { options.cast::<usize>().read() };
    let known = (FIRST_OPTIONS..=size_of::<Options>()).contains(&size);
    if !known || !size.is_multiple_of(size_of::<u64>()) {
        // SAFETY: as above.
        unsafe { check_size(options.cast(), size_of::<Options>(), "uc_options") }?;
    }
    let mut read = MaybeUninit::<Options>::zeroed();
    // SAFETY: the caller's structure has `size` bytes, which are no more than there is room for; zero is a value of every
    // field.
    unsafe {
        ptr::copy_nonoverlapping(options.cast::<u8>(), read.as_mut_ptr().cast(), size);
        Ok(read.assume_init())
    }
}

fn policy(name: &str) -> Outcome<EvictionPolicy> {
    EvictionPolicy::from_name(name).ok_or_else(|| {
        let names = EvictionPolicy::ALL.map(EvictionPolicy::name).join(", ");
        Refused::misuse(&format!("expected a policy among {names}; got {name}"))
    })
}

/// # Safety
/// There is a `size_t` at `size`.
pub(crate) unsafe fn check_size(size: *const usize, expected: usize, what: &str) -> Outcome<()> {
    // SAFETY: the caller's promise.
    let found = unsafe { size.read() };
    match found == expected {
        true => Ok(()),
        false => Err(Refused::misuse(&format!(
            "expected a {what} whose size is {expected}, got {found}: it is to begin as its macro says, and the header \
             must be that of this library"
        ))),
    }
}

const IF_MISSING: u64 = 1;
const IF_PRESENT: u64 = 2;
const KEEP: u64 = 4;

/// `uc_set_options`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct SetOptions {
    size: usize,
    flags: u64,
    expire_ms: i64,
    expire_at_ms: i64,
}

/// What a [`SetOptions`] says.
pub(crate) struct Setting {
    pub(crate) condition: Condition,
    pub(crate) time: Time,
}

/// When the key expires.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    Never,
    Keep,
    /// In so many milliseconds.
    After(i64),
    /// At this Unix time in milliseconds.
    At(i64),
}

/// # Safety
/// `options` is null, or there is a `uc_set_options` as large as its own `size` says.
pub(crate) unsafe fn read_set_options(options: *const SetOptions) -> Outcome<Setting> {
    if options.is_null() {
        return Ok(Setting {
            condition: Condition::Always,
            time: Time::Never,
        });
    }
    // SAFETY: the caller's promise; `size` comes first in each version of it.
    let options = unsafe {
        check_size(options.cast(), size_of::<SetOptions>(), "uc_set_options")?;
        &*options
    };
    let condition = match options.flags & (IF_MISSING | IF_PRESENT) {
        0 => Condition::Always,
        IF_MISSING => Condition::IfMissing,
        IF_PRESENT => Condition::IfPresent,
        _ => return Err(Refused::misuse("expected UC_SET_NX or UC_SET_XX, got both")),
    };
    if options.flags & !(IF_MISSING | IF_PRESENT | KEEP) != 0 {
        let text = format!("expected flags of UC_SET_*, got {:#x}", options.flags);
        return Err(Refused::misuse(&text));
    }
    let time = match (
        options.flags & KEEP,
        options.expire_ms,
        options.expire_at_ms,
    ) {
        (0, 0, 0) => Time::Never,
        (0, after, 0) => Time::After(after),
        (0, 0, at) => Time::At(at),
        (_, 0, 0) => Time::Keep,
        _ => {
            return Err(Refused::misuse(
                "expected one of expire_ms, expire_at_ms and UC_SET_KEEPTTL, got several",
            ));
        }
    };
    Ok(Setting { condition, time })
}
