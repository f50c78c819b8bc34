//! Implements the methods `hget` and `hset`.

use crate::conversion::codec;
use crate::hot::Hot;
use crate::methods::fastcall::{Call, Miss, Outcome, made};

pub(crate) struct Hget;

impl Hot for Hget {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let &[name, field] = call.exactly()?;
        let (name, field) = (call.bytes(name)?, call.bytes(field)?);
        let shared = call.enter()?;
        let mut value = Vec::new();
        match shared
            .store
            .hash_get(call.database(), name, field, &mut value)
        {
            Ok(true) => call.string(&value),
            Ok(false) => Ok(codec::none(call.py)),
            Err(error) => Err(call.failed(&shared, error)),
        }
    }
}

pub(crate) struct Hset;

impl Hot for Hset {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let [name, field, value] = call.unnamed()? else {
            return Err(Miss::UNUSUAL);
        };
        let (name, field) = (call.bytes(*name)?, call.bytes(*field)?);
        let mut digits = itoa::Buffer::new();
        let value = match call.bytes(*value) {
            Ok(value) => value,
            Err(_) => digits.format(call.integer(*value)?).as_bytes(),
        };
        let shared = call.enter()?;
        let limits = shared.process().config.limits().hash;
        match shared
            .store
            .hash_set(call.database(), name, field, value, &limits)
        {
            Ok(new) => made(codec::number(call.py, new.into())),
            Err(error) => Err(call.failed(&shared, error)),
        }
    }
}
