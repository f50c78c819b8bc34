//! `incr`, `incrby`, `decr` and `decrby`.

use std::ffi::CStr;

use crate::codec;
use crate::method::{Call, Method, Miss, Outcome, made};

pub(crate) struct Incr;

impl Method for Incr {
    const NAME: &'static CStr = c"incr";
    const DOC: &'static CStr = c"incr($self, name, amount=1)\n--\n\nAdd to the integer that a key holds, 0 if there is no such key. Return the sum.";

    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        add(call, false)
    }
}

pub(crate) struct Incrby;

impl Method for Incrby {
    const NAME: &'static CStr = c"incrby";
    const DOC: &'static CStr = c"incrby($self, name, amount=1)\n--\n\nAdd to the integer that a key holds, 0 if there is no such key. Return the sum.";

    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        add(call, false)
    }
}

pub(crate) struct Decr;

impl Method for Decr {
    const NAME: &'static CStr = c"decr";
    const DOC: &'static CStr = c"decr($self, name, amount=1)\n--\n\nSubtract from the integer that a key holds, 0 if there is no such key. Return the difference.";

    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        add(call, true)
    }
}

pub(crate) struct Decrby;

impl Method for Decrby {
    const NAME: &'static CStr = c"decrby";
    const DOC: &'static CStr = c"decrby($self, name, amount=1)\n--\n\nSubtract from the integer that a key holds, 0 if there is no such key. Return the difference.";

    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        add(call, true)
    }
}

#[inline(always)]
fn add(call: &Call<'_, '_>, negative: bool) -> Outcome {
    let (name, amount) = match *call.unnamed()? {
        [name] => (name, 1),
        [name, amount] => (name, call.integer(amount)?),
        _ => return Err(Miss::Unusual),
    };
    let name = call.bytes(name)?;
    let change = if negative {
        amount.checked_neg().ok_or(Miss::Unusual)?
    } else {
        amount
    };
    let shared = call.enter()?;
    match shared.store.increment(call.database(), name, change) {
        Ok(sum) => made(codec::number(call.py, sum)),
        Err(error) => Err(call.failed(&shared, error)),
    }
}
