//! Implements the methods `sadd` and `sismember`.

use crate::conversion::codec;
use crate::hot::Hot;
use crate::methods::fastcall::{Call, Miss, Outcome, made};

pub(crate) struct Sadd;

impl Hot for Sadd {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let [name, member] = call.unnamed()? else {
            return Err(Miss::UNUSUAL);
        };
        let name = call.bytes(*name)?;
        let mut digits = itoa::Buffer::new();
        let member = match call.bytes(*member) {
            Ok(member) => member,
            Err(_) => digits.format(call.integer(*member)?).as_bytes(),
        };
        let shared = call.enter()?;
        let integers = shared.process().config.limits().integers;
        match shared
            .store
            .set_add(call.database(), name, member, integers)
        {
            Ok(new) => made(codec::number(call.py, new.into())),
            Err(error) => Err(call.failed(&shared, error)),
        }
    }
}

pub(crate) struct Sismember;

impl Hot for Sismember {
    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let &[name, member] = call.exactly()?;
        let name = call.bytes(name)?;
        let mut digits = itoa::Buffer::new();
        let member = match call.bytes(member) {
            Ok(member) => member,
            Err(_) => digits.format(call.integer(member)?).as_bytes(),
        };
        let shared = call.enter()?;
        match shared.store.set_contains(call.database(), name, member) {
            Ok(there) => made(codec::number(call.py, there.into())),
            Err(error) => Err(call.failed(&shared, error)),
        }
    }
}
