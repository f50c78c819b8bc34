//! Reads the C structures that hold the options for opening a store and for setting a string.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::ptr;
use std::time::Duration;

use undercroft_embedded::durability_from_name;
use undercroft_engine::eviction::EvictionPolicy;
use undercroft_engine::strings::Condition;
use undercroft_engine::{DATABASES, Terms};

use crate::border::text;
use crate::status::{Outcome, Refused};

/// The C constant `UC_UNLIMITED`.
const UNLIMITED: u64 = u64::MAX;

/// The C type `uc_options`. Zero selects a field's default.
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
    durability: *const c_char,
    journal: *const c_char,
}

const _: () = assert!(size_of::<Options>() == 72 && size_of::<SetOptions>() == 32);

/// Parsed [`Options`].
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) terms: Terms,
    pub(crate) patience: Option<Duration>,
    pub(crate) database: usize,
}

/// Reads the options for opening a store. A null pointer selects the defaults.
///
/// # Safety
/// `options` must be null or point to a `uc_options` whose `size` field is its length in bytes, and
/// whose pointers are valid.
pub(crate) unsafe fn read_options(options: *const Options) -> Outcome<Wanted> {
    if options.is_null() {
        return Ok(Wanted::default());
    }
    // SAFETY: the pointer is not null, and the caller guarantees a structure whose `size` field is
    // its length in bytes.
    let options = unsafe { Options::read_from(options) }?;
    let given = |value: u64| (value != 0).then_some(value);
    let policy = match options.policy.is_null() {
        true => None,
        // SAFETY: the caller guarantees that `options.policy` is null or a null-terminated string.
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
    // SAFETY: the caller guarantees that both are null or null-terminated strings.
    let (durability, journal) = unsafe {
        (
            given_text("a durability mode", options.durability)?,
            given_text("the folder of a journal", options.journal)?,
        )
    };
    let durability = durability.map(durability_from_name).transpose();
    Ok(Wanted {
        terms: Terms {
            capacity: given(options.capacity),
            max_memory: match options.max_memory {
                UNLIMITED => Some(0),
                bytes => given(bytes),
            },
            policy,
            durability: durability.map_err(|error| Refused::misuse(&error.to_string()))?,
            journal: journal.map(PathBuf::from),
            strict: options.strict != 0,
        },
        patience: given(options.timeout_ms).map(Duration::from_millis),
        database: options.database as usize,
    })
}

/// Returns a text, or `None` for a null pointer or an empty text.
///
/// # Safety
/// `at` must be null or point to a null-terminated string that lives as long as the result.
unsafe fn given_text<'a>(name: &str, at: *const c_char) -> Outcome<Option<&'a str>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the pointer is not null, and the caller guarantees a null-terminated string.
    let text = unsafe { text(name, at) }?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// A C structure that begins with its size and grows only at its end.
///
/// # Safety
/// The first field must be a `usize`, and zero must be a valid value of every field.
pub(crate) unsafe trait Growing: Copy {
    /// The name of the C type in `undercroft.h`.
    const NAME: &'static str;
    /// The size in bytes of the structure's first version.
    const FIRST: usize;

    /// Returns how many bytes the program's and this library's versions of the structure have in
    /// common. The program may have been built with an older header, which lacks the last fields,
    /// or with a newer header.
    ///
    /// # Safety
    /// `at` must point to a structure whose `size` field is its length in bytes.
    unsafe fn common(at: *const Self) -> Outcome<usize> {
        // SAFETY: the caller guarantees that the structure exists, and every version of it begins
        // with its size.
        let size = unsafe { at.cast::<usize>().read() };
        let known = size_of::<Self>();
        // Fields that only a newer header has must be zero, because this library would ignore them.
        let most = known + NEWER;
        let is_sound = (Self::FIRST..=most).contains(&size) && size.is_multiple_of(8);
        // SAFETY: the caller guarantees that the structure has `size` bytes, and `byte` is less
        // than `size`.
        let is_zero = |byte: usize| unsafe { at.cast::<u8>().add(byte).read() == 0 };
        if is_sound && (known..size).all(is_zero) {
            return Ok(size.min(known));
        }
        Err(Refused::misuse(&format!(
            "expected a {} whose size is {} to {known}, got {size}: initialize it with its macro, \
             and leave fields of a newer header zero",
            Self::NAME,
            Self::FIRST
        )))
    }

    /// Reads a structure. Fields that the program's version lacks are zero.
    ///
    /// # Safety
    /// `at` must point to a structure whose `size` field is its length in bytes.
    unsafe fn read_from(at: *const Self) -> Outcome<Self> {
        // SAFETY: the caller guarantees a structure whose `size` field is its length in bytes.
        let size = unsafe { Self::common(at) }?;
        let mut read = MaybeUninit::<Self>::zeroed();
        // SAFETY: the caller's structure has at least `size` bytes and so does the destination.
        // Zero is a valid value of every remaining field.
        unsafe {
            ptr::copy_nonoverlapping(at.cast::<u8>(), read.as_mut_ptr().cast(), size);
            Ok(read.assume_init())
        }
    }

    /// Writes the fields that the program's version has, except its `size` field.
    ///
    /// # Safety
    /// `at` must point to a writable structure whose `size` field is its length in bytes.
    unsafe fn write_to(&self, at: *mut Self) -> Outcome<()> {
        let begins = size_of::<usize>();
        // SAFETY: the caller guarantees a writable structure, and neither structure is shorter than
        // `size` bytes.
        unsafe {
            let size = Self::common(at)?;
            let from = ptr::from_ref(self).cast::<u8>().add(begins);
            ptr::copy_nonoverlapping(from, at.cast::<u8>().add(begins), size - begins);
        }
        Ok(())
    }
}

/// The maximum number of bytes that a newer version may add to a structure.
const NEWER: usize = 1024;

// SAFETY: all fields are numbers or pointers, and the first field is the structure's size.
unsafe impl Growing for Options {
    const NAME: &'static str = "uc_options";
    const FIRST: usize = 48;
}

// SAFETY: all fields are numbers, and the first field is the structure's size.
unsafe impl Growing for SetOptions {
    const NAME: &'static str = "uc_set_options";
    const FIRST: usize = 32;
}

fn policy(name: &str) -> Outcome<EvictionPolicy> {
    EvictionPolicy::from_name(name).ok_or_else(|| {
        let names = EvictionPolicy::ALL.map(EvictionPolicy::name).join(", ");
        Refused::misuse(&format!("expected one of the policies {names}, got {name}"))
    })
}

const IF_MISSING: u64 = 1;
const IF_PRESENT: u64 = 2;
const KEEP: u64 = 4;

/// The C type `uc_set_options`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct SetOptions {
    size: usize,
    flags: u64,
    expire_ms: i64,
    expire_at_ms: i64,
}

/// Parsed [`SetOptions`].
pub(crate) struct Setting {
    pub(crate) condition: Condition,
    pub(crate) time: Time,
}

/// When the key expires.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    Never,
    Keep,
    /// The key expires after this number of milliseconds.
    After(i64),
    /// The key expires at this Unix time in milliseconds.
    At(i64),
}

/// Reads the options for setting a string. A null pointer selects the defaults.
///
/// # Safety
/// `options` must be null or point to a `uc_set_options` whose `size` field is its length in bytes.
pub(crate) unsafe fn read_set_options(options: *const SetOptions) -> Outcome<Setting> {
    if options.is_null() {
        return Ok(Setting {
            condition: Condition::Always,
            time: Time::Never,
        });
    }
    // SAFETY: the pointer is not null, and the caller guarantees a structure whose `size` field is
    // its length in bytes.
    let options = unsafe { SetOptions::read_from(options) }?;
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
                "expected at most one of expire_ms, expire_at_ms and UC_SET_KEEPTTL, got several",
            ));
        }
    };
    Ok(Setting { condition, time })
}
