//! Implements BITFIELD and BITFIELD_RO, which access integers of any width at any bit offset in a
//! string.

use undercroft_engine::events::KeyEvent;
use undercroft_engine::strings::Text;
use undercroft_numbers::parse_integer;

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::handlers::strings::bits::{check_offset, look_at_text};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] =
    &[("bitfield", bitfield), ("bitfield_ro", bitfield_ro)];

/// The signedness and width in bits of an integer: `i1` to `i64`, or `u1` to `u63`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldType {
    signed: bool,
    bits: u32,
}

/// How to handle a value that does not fit in its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    /// Keep only the low bits.
    Wrap,
    /// Store the nearest value that fits.
    Saturate,
    /// Do not change the field.
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    Set(i64),
    Increment(i64),
}

/// A BITFIELD subcommand.
#[derive(Clone, Copy, Debug)]
struct Operation {
    action: Action,
    field: FieldType,
    offset: u64,
    overflow: Overflow,
}

impl FieldType {
    fn parse(argument: &[u8]) -> Result<FieldType, CommandError> {
        const INVALID: CommandError = CommandError::fixed(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        // As in Redis, a zero byte ends the type.
        let end = argument.iter().position(|&byte| byte == 0);
        let (signed, digits) = match &argument[..end.unwrap_or(argument.len())] {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(INVALID),
        };
        let most = if signed { 64 } else { 63 };
        let bits = parse_integer(digits).filter(|bits| (1..=most).contains(bits));
        let bits = bits.ok_or(INVALID)? as u32;
        Ok(FieldType { signed, bits })
    }

    /// Decodes the bits of a field as an integer.
    fn value(self, bits: u64) -> i64 {
        let unused = 64 - self.bits;
        if self.signed {
            (bits << unused) as i64 >> unused
        } else {
            bits as i64
        }
    }

    /// Returns `value + change` limited to the range of the field, and whether the sum overflowed.
    /// If the field is unsigned, `value` is interpreted as unsigned.
    fn add(self, value: i64, change: i64, overflow: Overflow) -> (i64, bool) {
        let (above, below, most, least) = if self.signed {
            let most = i64::MAX >> (64 - self.bits);
            let least = -most - 1;
            // These differences can exceed 64 bits. They wrap as in Redis, so the order of the
            // checks below must match Redis.
            let (up, down) = (most.wrapping_sub(value), least.wrapping_sub(value));
            let narrow = self.bits != 64;
            let above =
                value > most || narrow && change > up || value >= 0 && change > 0 && change > up;
            let below = value < least
                || narrow && change < down
                || value < 0 && change < 0 && change < down;
            (above, below, most, least)
        } else {
            let most = (1_u64 << self.bits) - 1;
            let unsigned = value as u64;
            let up = most.wrapping_sub(unsigned) as i64;
            let above = unsigned > most || change > 0 && change > up;
            let below = change < 0 && change < value.wrapping_neg();
            (above, below, most as i64, 0)
        };
        let sum = value.wrapping_add(change);
        if !above && !below {
            return (sum, false);
        }
        let limited = match overflow {
            Overflow::Saturate if above => most,
            Overflow::Saturate => least,
            Overflow::Wrap | Overflow::Fail => {
                self.value(sum as u64 & u64::MAX >> (64 - self.bits))
            }
        };
        (limited, true)
    }
}

/// Parses and validates all subcommands before any of them runs.
fn parse(context: &Context<'_>, mut rest: &[&[u8]]) -> Result<Vec<Operation>, CommandError> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    loop {
        let (name, field, offset, value) = match rest {
            [] => return Ok(operations),
            [name, kind, behind @ ..] if is_keyword(name, "OVERFLOW") => {
                overflow = match kind.to_ascii_uppercase().as_slice() {
                    b"WRAP" => Overflow::Wrap,
                    b"SAT" => Overflow::Saturate,
                    b"FAIL" => Overflow::Fail,
                    _ => {
                        return Err(CommandError::fixed("ERR Invalid OVERFLOW type specified"));
                    }
                };
                rest = behind;
                continue;
            }
            [name, field, offset, behind @ ..] if is_keyword(name, "GET") => {
                rest = behind;
                (name, field, offset, None)
            }
            [name, field, offset, value, behind @ ..]
                if is_keyword(name, "SET") || is_keyword(name, "INCRBY") =>
            {
                rest = behind;
                (name, field, offset, Some(value))
            }
            _ => return Err(CommandError::SYNTAX),
        };
        let field = FieldType::parse(field)?;
        let offset = field_offset(context, offset, field.bits)?;
        let action = match value {
            None => Action::Get,
            Some(value) if is_keyword(name, "SET") => Action::Set(integer(value)?),
            Some(value) => Action::Increment(integer(value)?),
        };
        operations.push(Operation {
            action,
            field,
            offset,
            overflow,
        });
    }
}

/// Parses the offset of a field: either a bit offset, or `#` followed by a multiple of the field's
/// width.
fn field_offset(context: &Context<'_>, argument: &[u8], bits: u32) -> Result<u64, CommandError> {
    let offset = match argument {
        [b'#', number @ ..] => {
            parse_integer(number).map(|number| number.wrapping_mul(i64::from(bits)))
        }
        _ => parse_integer(argument),
    };
    check_offset(context, offset)
}

/// Handles BITFIELD.
fn bitfield(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let operations = parse(context, &arguments[2..])?;
    let end = |operation: &Operation| operation.offset + u64::from(operation.field.bits);
    let writes = operations
        .iter()
        .filter(|operation| !matches!(operation.action, Action::Get));
    let Some(end) = writes.map(end).max() else {
        return read_fields(context, arguments[1], &operations, reply);
    };
    let (store, database) = (context.store, context.database());
    let key = store.key(arguments[1]);
    let results = store.write(store.shards_of([&key]), |writer| {
        let (string, mut changed) = writer.bit_string(database, &key, end.div_ceil(8))?;
        let mut results = Vec::with_capacity(operations.len());
        for Operation {
            action,
            field,
            offset,
            overflow,
        } in operations.iter().copied()
        {
            let bits = string.text().bits(writer.view(), offset, field.bits)?;
            let old = field.value(bits);
            let ((new, overflows), answers_old) = match action {
                Action::Get => ((old, false), true),
                Action::Set(value) => (field.add(value, 0, overflow), true),
                Action::Increment(change) => (field.add(old, change, overflow), false),
            };
            if overflows && overflow == Overflow::Fail {
                results.push(None);
                continue;
            }
            if new != old {
                writer.set_bits(&string, offset, field.bits, new as u64)?;
                changed = true;
            }
            results.push(Some(if answers_old { old } else { new }));
        }
        if changed {
            writer.tell(KeyEvent::SetBit, database, &key);
        }
        Ok::<_, Failure>(results)
    })?;
    store.note_use(&key);
    reply.array(results.len());
    for result in results {
        match result {
            Some(value) => reply.integer(value),
            None => reply.null(),
        }
    }
    Ok(())
}

/// Handles BITFIELD_RO.
fn bitfield_ro(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let operations = parse(context, &arguments[2..])?;
    let only_gets = operations
        .iter()
        .all(|operation| matches!(operation.action, Action::Get));
    if !only_gets {
        return Err(CommandError::fixed("ERR BITFIELD_RO only supports the GET subcommand").into());
    }
    read_fields(context, arguments[1], &operations, reply)
}

fn read_fields(
    context: &mut Context<'_>,
    key: &[u8],
    operations: &[Operation],
    reply: &mut dyn Reply,
) -> Outcome {
    let read = |text: &Text, view: &undercroft_engine::View<'_>| {
        let mut values = Vec::with_capacity(operations.len());
        for operation in operations {
            let field = operation.field;
            values.push(field.value(text.bits(view, operation.offset, field.bits)?));
        }
        Ok(values)
    };
    let values = look_at_text(context, key, read)?;
    reply.array(operations.len());
    match values {
        Some(values) => values.into_iter().for_each(|value| reply.integer(value)),
        None => operations.iter().for_each(|_| reply.integer(0)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{FieldType, Overflow};

    fn field(text: &str) -> FieldType {
        FieldType::parse(text.as_bytes()).expect("a type")
    }

    #[test]
    fn field_type_is_a_sign_and_a_width() {
        assert_eq!((field("i64").signed, field("i64").bits), (true, 64));
        assert_eq!((field("u1").signed, field("u1").bits), (false, 1));
        for text in ["", "i", "i0", "i65", "u64", "I8", "u08", "x8", "i-1", "8"] {
            assert!(FieldType::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn sums_that_overflow_the_field_are_limited() {
        let wide = |value: i128, field: FieldType| {
            let (least, most) = if field.signed {
                (
                    -1_i128 << (field.bits - 1),
                    (1_i128 << (field.bits - 1)) - 1,
                )
            } else {
                (0, (1_i128 << field.bits) - 1)
            };
            (value < least, value > most, least, most)
        };
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..100_000 {
            let signed = random.bool();
            let bits = random.u32(1..=if signed { 64 } else { 63 });
            let field = FieldType { signed, bits };
            let old = field.value(random.u64(..) >> (64 - bits));
            let change = random.i64(..) >> random.u32(0..64);
            let (below, above, least, most) = wide(i128::from(old) + i128::from(change), field);
            let (saturated, overflows) = field.add(old, change, Overflow::Saturate);
            assert_eq!(overflows, below || above, "{field:?} {old} {change}");
            let expected = (i128::from(old) + i128::from(change)).clamp(least, most);
            assert_eq!(i128::from(saturated), expected, "{field:?} {old} {change}");
            let (wrapped, _) = field.add(old, change, Overflow::Wrap);
            let difference = i128::from(wrapped) - i128::from(old) - i128::from(change);
            assert_eq!(
                difference.rem_euclid(1 << bits),
                0,
                "{field:?} {old} {change}"
            );
            assert!((least..=most).contains(&i128::from(wrapped)));
        }
    }
}
