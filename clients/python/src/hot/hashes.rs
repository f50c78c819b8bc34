//! `hget` and `hset`.

use std::ffi::CStr;

use crate::codec;
use crate::method::{Call, Method, Miss, Outcome, made};

pub(crate) struct Hget;

impl Method for Hget {
    const NAME: &'static CStr = c"hget";
    const DOC: &'static CStr = c"hget($self, name, key)\n--\n\nReturn the value of a field of a hash, or None if there is no such field.";

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

impl Method for Hset {
    const NAME: &'static CStr = c"hset";
    const DOC: &'static CStr = c"hset($self, name, key=None, value=None, mapping=None, items=None)\n--\n\nSet fields of a hash: one by key and value, more by a mapping or a list of items. Return how many fields are new.";

    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let [name, field, value] = call.unnamed()? else {
            return Err(Miss::Unusual);
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
