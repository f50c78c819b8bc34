//! HSCAN and its like: walks over one collection.

use undercroft_engine::{Error, Key, Ranges, Reader};

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::Context;
use crate::failure::Outcome;
use crate::handlers::keys::{TOO_COMPLEX, matches_all, scan_cursor};
use crate::reply::Reply;

struct Options<'a> {
    count: u64,
    pattern: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(mut rest: &[&'a [u8]]) -> Result<Options<'a>, CommandError> {
        let (mut count, mut pattern) = (10, None);
        while let [option, value, behind @ ..] = rest {
            rest = behind;
            if is_keyword(option, "COUNT") {
                count = integer(value)?;
                if count < 1 {
                    return Err(CommandError::SYNTAX);
                }
            } else if is_keyword(option, "MATCH") {
                pattern = Some(*value);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        if !rest.is_empty() {
            return Err(CommandError::SYNTAX);
        }
        Ok(Options {
            count: count.unsigned_abs(),
            pattern,
        })
    }
}

/// Answers the next part of a walk over the collection at a key. `part` appends it from a cursor on, `width` texts for
/// each element, of which the first is matched; none where the key is not there.
pub(crate) fn walk(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    width: usize,
    reply: &mut dyn Reply,
    part: impl Fn(&Reader<'_, '_>, &Key<'_>, u64, u64, &mut Ranges) -> Result<Option<u64>, Error> + Sync,
) -> Outcome {
    let cursor = scan_cursor(arguments[2])?;
    let options = Options::parse(&arguments[3..]);
    // The options are looked at only where there is a key, as in Redis.
    let count = options.as_ref().map_or(1, |options| options.count);
    let mut texts = Ranges::new();
    let next = context.look_into(arguments[1], &mut texts, |reader, key, texts| {
        Ok(part(reader, key, cursor, count, texts)?)
    })?;
    let mut wanted = Vec::new();
    if next.is_some() {
        let pattern = options?.pattern;
        for element in 0..texts.len() / width {
            let name = texts.get(element * width);
            let matched = pattern.map_or(Ok(true), |pattern| matches_all(pattern, name));
            if matched.map_err(|_| TOO_COMPLEX)? {
                wanted.push(element);
            }
        }
    }
    reply.array(2);
    reply.bulk(next.unwrap_or(0).to_string().as_bytes());
    reply.array(wanted.len() * width);
    for element in wanted {
        for place in element * width..(element + 1) * width {
            reply.bulk(texts.get(place));
        }
    }
    Ok(())
}
