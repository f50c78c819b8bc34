//! Implements the methods `incr`, `incrby`, `decr` and `decrby`.

use crate::conversion::codec;
use crate::hot::Hot;
use crate::methods::fastcall::{Call, Miss, Outcome, made};

pub(crate) struct Incr;

impl Hot for Incr {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        add(call, false)
    }
}

pub(crate) struct Incrby;

impl Hot for Incrby {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        add(call, false)
    }
}

pub(crate) struct Decr;

impl Hot for Decr {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        add(call, true)
    }
}

pub(crate) struct Decrby;

impl Hot for Decrby {
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
        _ => return Err(Miss::UNUSUAL),
    };
    let name = call.bytes(name)?;
    let change = if negative {
        amount.checked_neg().ok_or(Miss::UNUSUAL)?
    } else {
        amount
    };
    let shared = call.enter()?;
    match shared.store.increment(call.database(), name, change) {
        Ok(sum) => made(codec::number(call.py, sum)),
        Err(error) => Err(call.failed(&shared, error)),
    }
}
