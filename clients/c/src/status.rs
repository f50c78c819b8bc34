//! Defines the results of calls and stores error messages.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};

use undercroft_commands::{Blocked, Failure};
use undercroft_embedded::removed_text;
use undercroft_engine::{Error, Store};

/// The result of a call, with the numbers of `uc_status` in `undercroft.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Status {
    Ok = 0,
    None = 1,
    TooSmall = 2,
    Closed = 3,
    Error = -1,
    Misuse = -2,
    WrongType = -3,
    Full = -4,
    Busy = -5,
    Interrupted = -6,
    ReadOnly = -7,
    Removed = -8,
    CannotOpen = -9,
    Internal = -10,
}

impl Status {
    const ALL: [(Status, &'static CStr); 14] = [
        (Status::Ok, c"UC_OK"),
        (Status::None, c"UC_NONE"),
        (Status::TooSmall, c"UC_TOO_SMALL"),
        (Status::Closed, c"UC_CLOSED"),
        (Status::Error, c"UC_ERROR"),
        (Status::Misuse, c"UC_MISUSE"),
        (Status::WrongType, c"UC_WRONG_TYPE"),
        (Status::Full, c"UC_FULL"),
        (Status::Busy, c"UC_BUSY"),
        (Status::Interrupted, c"UC_INTERRUPTED"),
        (Status::ReadOnly, c"UC_READ_ONLY"),
        (Status::Removed, c"UC_REMOVED"),
        (Status::CannotOpen, c"UC_CANNOT_OPEN"),
        (Status::Internal, c"UC_INTERNAL"),
    ];
}

/// The status of a failed call, whose message is stored for [`uc_error_message`].
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Status);

/// The outcome of a call that may fail.
pub(crate) type Outcome<T = Status> = Result<T, Refused>;

thread_local! {
    /// The null-terminated message of this thread's last failed call.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Refused {
    /// Creates a failure and stores its message for [`uc_error_message`].
    #[cold]
    #[inline(never)]
    pub(crate) fn new(status: Status, text: &str) -> Refused {
        // A thread stores no message once its thread-local storage has been destroyed.
        let _ = MESSAGE.try_with(|message| {
            if let Ok(mut message) = message.try_borrow_mut() {
                message.clear();
                let printed = text.bytes().map(|byte| if byte == 0 { b' ' } else { byte });
                message.extend(printed.chain([0]));
            }
        });
        Refused(status)
    }

    #[cold]
    pub(crate) fn misuse(text: &str) -> Refused {
        Refused::new(Status::Misuse, text)
    }

    /// Returns the failure for a store that can be neither opened nor created.
    #[cold]
    pub(crate) fn opening(error: &Error) -> Refused {
        let status = match error {
            Error::Name(_) | Error::Terms(_) => Status::Misuse,
            // The program ended a recovery, or the wait for one.
            error if error.is_wait() && !error.is_busy() => Status::Interrupted,
            _ => Status::CannotOpen,
        };
        Refused::new(status, &error.to_string())
    }

    /// Returns the failure for an engine error.
    #[cold]
    #[inline(never)]
    pub(crate) fn engine(store: &Store, error: Error) -> Refused {
        Refused::failure(store, error.into())
    }

    /// Returns the failure for a command that failed, either with an error reply or without a
    /// reply.
    #[cold]
    pub(crate) fn failure(store: &Store, failure: Failure) -> Refused {
        match failure {
            Failure::Reply(error) => Refused::reply(store, error.text()),
            Failure::Blocked(blocked) => Refused::blocked(&blocked),
        }
    }

    /// Returns the failure for a wait that was interrupted or timed out.
    #[cold]
    pub(crate) fn blocked(blocked: &Blocked) -> Refused {
        let status = match blocked {
            Blocked::Lock(error) if !error.is_busy() => Status::Interrupted,
            _ => Status::Busy,
        };
        Refused::new(status, &blocked.to_string())
    }

    /// Returns the failure for an error reply, whose text begins with its code.
    #[cold]
    pub(crate) fn reply(store: &Store, text: &str) -> Refused {
        if let Some(text) = removed_text(store, text) {
            return Refused::new(Status::Removed, &text);
        }
        let status = match text.split(' ').next() {
            Some("WRONGTYPE") => Status::WrongType,
            Some("OOM") => Status::Full,
            Some("READONLY") => Status::ReadOnly,
            _ => Status::Error,
        };
        Refused::new(status, text)
    }
}

#[unsafe(no_mangle)]
extern "C" fn uc_error_message() -> *const c_char {
    let message = MESSAGE.try_with(|message| match message.try_borrow() {
        Ok(message) if !message.is_empty() => message.as_ptr().cast(),
        _ => c"".as_ptr(),
    });
    message.unwrap_or(c"".as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn uc_status_name(status: c_int) -> *const c_char {
    let known = Status::ALL
        .iter()
        .find(|(known, _)| *known as c_int == status);
    known.map_or(c"unknown status", |(_, name)| name).as_ptr()
}
