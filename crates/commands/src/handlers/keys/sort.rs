//! Implements SORT and SORT_RO.

use std::cmp::Ordering;
use std::ops::Range;

use undercroft_engine::events::KeyEvent;
use undercroft_engine::keyspace::Gathered;
use undercroft_engine::sorted_sets::Scored;
use undercroft_engine::{Error, Ranges, Reader, ShardSet, ValueType};

use crate::algorithms::double::parse_sortable;
use crate::algorithms::partial_sort::sort_part_of;
use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::{Failure, Outcome};
use crate::reply::Reply;

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[("sort", sort), ("sort_ro", sort_ro)];

/// Returns the bytes before the first zero byte, for cases in which Redis treats a string as a C
/// string.
fn c_text(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|&byte| byte == 0);
    &text[..end.unwrap_or(text.len())]
}

/// A BY or GET pattern, which names a key or a hash field. An asterisk is the placeholder for the
/// element.
#[derive(Clone, Copy)]
enum Pattern<'a> {
    /// The element itself, which is written `#`.
    Element,
    /// No key, because the pattern does not contain an asterisk.
    Nothing,
    /// A key: the text before and after the asterisk, and the hash field if the pattern specifies
    /// one.
    Key(&'a [u8], &'a [u8], Option<&'a [u8]>),
}

impl<'a> Pattern<'a> {
    fn parse(pattern: &'a [u8]) -> Pattern<'a> {
        let seen = c_text(pattern);
        if seen == b"#" {
            return Pattern::Element;
        }
        let Some(star) = seen.iter().position(|&byte| byte == b'*') else {
            return Pattern::Nothing;
        };
        let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
        let arrow = seen[star + 1..].windows(2).position(|pair| pair == b"->");
        match arrow {
            Some(at) if star + 1 + at + 2 < seen.len() => {
                Pattern::Key(before, &behind[..at], Some(&behind[at + 2..]))
            }
            _ => Pattern::Key(before, behind, None),
        }
    }

    /// Appends the value to which the pattern refers. Returns `false` if this value does not exist.
    fn look_up(
        self,
        lookup: &mut Lookup<'_, '_, '_>,
        element: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let (reader, database) = (lookup.reader, lookup.database);
        let (before, behind, field) = match self {
            Pattern::Element => {
                out.extend_from_slice(element);
                return Ok(true);
            }
            Pattern::Nothing => return Ok(false),
            Pattern::Key(before, behind, field) => (before, behind, field),
        };
        let name = [before, element, behind].concat();
        let key = reader.key(&name);
        let Some(entry) = reader.find(database, &key)? else {
            lookup.miss(&name);
            return Ok(false);
        };
        match (field, entry.value_type()?) {
            (Some(field), ValueType::Hash) => match reader.hash(database, &key)? {
                Some(hash) => hash.get(reader.view(), &reader.key(field), out),
                None => Ok(false),
            },
            (None, ValueType::String) => {
                entry.text(reader.view())?.append_to(reader.view(), out)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// The data needed to look up keys, and the keys that were not found.
struct Lookup<'l, 'r, 's> {
    reader: &'l Reader<'r, 's>,
    database: usize,
    /// The missing keys in the order of their lookups. Recorded only if keyspace events report
    /// misses.
    misses: Option<Vec<Vec<u8>>>,
}

impl Lookup<'_, '_, '_> {
    fn miss(&mut self, name: &[u8]) {
        if let Some(misses) = &mut self.misses {
            misses.push(name.to_vec());
        }
    }
}

/// The options of SORT.
struct Options<'a> {
    descending: bool,
    alphabetic: bool,
    limit: Option<(i64, i64)>,
    /// Whether a BY pattern without an asterisk has disabled sorting. A later BY does not re-enable
    /// it.
    unsorted: bool,
    by: Option<Pattern<'a>>,
    get: Vec<Pattern<'a>>,
    store: Option<&'a [u8]>,
    /// Whether a script called this SORT command.
    scripted: bool,
}

impl<'a> Options<'a> {
    /// Parses the options. If the user may not read every key (`reads_any`), refuses the options that
    /// read keys which the arguments do not name.
    fn parse(
        mut rest: &[&'a [u8]],
        (may_store, reads_any): (bool, bool),
    ) -> Result<Options<'a>, CommandError> {
        let mut options = Options {
            descending: false,
            alphabetic: false,
            limit: None,
            unsorted: false,
            by: None,
            get: Vec::new(),
            store: None,
            scripted: false,
        };
        while let [option, behind @ ..] = rest {
            rest = behind;
            match behind {
                _ if is_keyword(option, "ASC") => options.descending = false,
                _ if is_keyword(option, "DESC") => options.descending = true,
                _ if is_keyword(option, "ALPHA") => options.alphabetic = true,
                [start, count, behind @ ..] if is_keyword(option, "LIMIT") => {
                    options.limit = Some((integer(start)?, integer(count)?));
                    rest = behind;
                }
                [key, behind @ ..] if is_keyword(option, "STORE") && may_store => {
                    options.store = Some(key);
                    rest = behind;
                }
                [pattern, behind @ ..] if is_keyword(option, "BY") => {
                    match Pattern::parse(pattern) {
                        Pattern::Key(..) if !reads_any => {
                            return Err(CommandError::fixed(
                                "ERR BY option of SORT denied due to insufficient ACL permissions.",
                            ));
                        }
                        by @ Pattern::Key(..) => options.by = Some(by),
                        Pattern::Element | Pattern::Nothing => options.unsorted = true,
                    }
                    rest = behind;
                }
                // As in Redis, even a pattern that names no key is refused.
                [_, ..] if is_keyword(option, "GET") && !reads_any => {
                    return Err(CommandError::fixed(
                        "ERR GET option of SORT denied due to insufficient ACL permissions.",
                    ));
                }
                [pattern, behind @ ..] if is_keyword(option, "GET") => {
                    options.get.push(Pattern::parse(pattern));
                    rest = behind;
                }
                _ => return Err(CommandError::SYNTAX),
            }
        }
        Ok(options)
    }

    /// Returns whether BY or GET reads any key other than the sorted key.
    fn looks_elsewhere(&self) -> bool {
        self.get
            .iter()
            .chain(&self.by)
            .any(|pattern| matches!(pattern, Pattern::Key(..)))
    }

    /// Returns the range of positions that LIMIT selects from `length` elements.
    fn chosen(&self, length: usize) -> Range<usize> {
        let (start, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(start.max(0)).map_or(length, |start| start.min(length));
        let end = match usize::try_from(count) {
            Ok(count) => start.saturating_add(count).min(length),
            Err(_) => length,
        };
        start..end
    }

    /// Returns the criterion by which elements are sorted.
    fn order(&self, value_type: ValueType) -> Order<'a> {
        if !self.unsorted {
            Order::By(self.by, self.alphabetic)
        } else if value_type == ValueType::Set && (self.store.is_some() || self.scripted) {
            // Sort the members, because neither a stored result nor a script may depend on the
            // internal order of a set.
            Order::By(None, true)
        } else {
            Order::Unsorted
        }
    }
}

/// The criterion by which elements are sorted.
#[derive(Clone, Copy)]
enum Order<'a> {
    /// The elements keep the order in which they are stored.
    Unsorted,
    /// Elements are compared by the values to which a pattern refers, or directly if no pattern is
    /// given. The flag selects lexicographic instead of numeric comparison.
    By(Option<Pattern<'a>>, bool),
}

/// The sort key of an element.
enum Weight {
    Number(f64),
    Text(Option<Vec<u8>>),
    Itself,
}

impl Weight {
    fn of<'a>(
        look_up: &mut impl FnMut(Pattern<'a>, &[u8], &mut Vec<u8>) -> Result<bool, Failure>,
        element: &[u8],
        (by, alphabetic): (Option<Pattern<'a>>, bool),
    ) -> Result<Weight, Failure> {
        const NOT_A_NUMBER: CommandError =
            CommandError::fixed("ERR One or more scores can't be converted into double");
        let number = |text: &[u8]| {
            let number = parse_sortable(text).ok_or(NOT_A_NUMBER)?;
            Ok(Weight::Number(number))
        };
        let Some(pattern) = by else {
            return if alphabetic {
                Ok(Weight::Itself)
            } else {
                number(element)
            };
        };
        let mut found = Vec::new();
        let there = look_up(pattern, element, &mut found)?;
        match (alphabetic, there) {
            (true, there) => Ok(Weight::Text(there.then_some(found))),
            (false, true) => number(&found),
            // If the key to which BY refers does not exist, the element sorts as zero.
            (false, false) => Ok(Weight::Number(0.0)),
        }
    }
}

/// Compares two elements. If the result is not stored, strings are compared only up to their first
/// zero byte, as in Redis.
fn compare(
    (left, one): &(Weight, &[u8]),
    (right, other): &(Weight, &[u8]),
    stored: bool,
) -> Ordering {
    let texts = |one: &[u8], other: &[u8]| {
        if stored {
            one.cmp(other)
        } else {
            c_text(one).cmp(c_text(other))
        }
    };
    match (left, right) {
        (Weight::Number(left), Weight::Number(right)) => left
            .partial_cmp(right)
            .unwrap_or(Ordering::Equal)
            .then_with(|| one.cmp(other)),
        (Weight::Text(Some(left)), Weight::Text(Some(right))) => texts(left, right),
        (Weight::Text(left), Weight::Text(right)) => left.is_some().cmp(&right.is_some()),
        _ => texts(one, other),
    }
}

/// Returns the elements of the list, set or sorted set at a key, in the order in which they are
/// stored, and the type of the value.
fn elements(lookup: &mut Lookup<'_, '_, '_>, name: &[u8]) -> Result<(Ranges, ValueType), Failure> {
    let (reader, database) = (lookup.reader, lookup.database);
    let (view, key) = (reader.view(), reader.key(name));
    let mut items = Ranges::new();
    let Some(entry) = reader.find(database, &key)? else {
        lookup.miss(name);
        return Ok((items, ValueType::List));
    };
    let value_type = entry.value_type()?;
    match value_type {
        ValueType::List | ValueType::Set => entry.append_items(view, &mut items)?,
        ValueType::SortedSet => {
            let mut scored = Scored::new();
            if let Some(set) = reader.sorted_set(database, &key)? {
                set.append_all(view, &mut scored)?;
            }
            items = scored.members().clone();
        }
        ValueType::String | ValueType::Hash | ValueType::Feed | ValueType::Stream => {
            return Err(CommandError::WRONG_TYPE.into());
        }
    }
    // Validate the read before processing the elements, because they can be inconsistent until then
    // (R3).
    view.recheck().map_err(Error::from)?;
    Ok((items, value_type))
}

/// Returns the sorted elements, or the values that GET looks up for each element. Missing values
/// are `None`.
fn sorted(
    lookup: &mut Lookup<'_, '_, '_>,
    name: &[u8],
    options: &Options<'_>,
) -> Result<Vec<Option<Vec<u8>>>, Failure> {
    let (items, value_type) = elements(lookup, name)?;
    ordered(&items, value_type, options, |pattern, element, out| {
        Ok(pattern.look_up(lookup, element, out)?)
    })
}

/// Returns the elements in the requested order, or the values that GET looks up for each element.
/// `look_up` appends the value to which a pattern refers.
fn ordered<'a>(
    items: &Ranges,
    value_type: ValueType,
    options: &Options<'a>,
    mut look_up: impl FnMut(Pattern<'a>, &[u8], &mut Vec<u8>) -> Result<bool, Failure>,
) -> Result<Vec<Option<Vec<u8>>>, Failure> {
    let mut elements: Vec<&[u8]> = items.iter().collect();
    let chosen = options.chosen(elements.len());
    match options.order(value_type) {
        Order::Unsorted if options.descending && value_type != ValueType::Set => elements.reverse(),
        Order::Unsorted => {}
        Order::By(by, alphabetic) => {
            let mut weighed = Vec::with_capacity(elements.len());
            for element in elements {
                let weight = Weight::of(&mut look_up, element, (by, alphabetic))?;
                weighed.push((weight, element));
            }
            // If BY is not given, Redis sorts all elements, even if LIMIT selects only a few of
            // them.
            let wanted = if by.is_some() {
                chosen.clone()
            } else {
                0..weighed.len()
            };
            let stored = options.store.is_some();
            sort_part_of(&mut weighed, wanted, |one, other| {
                let ordering = compare(one, other, stored);
                if options.descending {
                    ordering.reverse()
                } else {
                    ordering
                }
            });
            elements = weighed.into_iter().map(|(_, element)| element).collect();
        }
    }
    let mut results = Vec::with_capacity(chosen.len() * options.get.len().max(1));
    for element in &elements[chosen] {
        if options.get.is_empty() {
            results.push(Some(element.to_vec()));
        }
        for &pattern in &options.get {
            let mut found = Vec::new();
            let there = look_up(pattern, element, &mut found)?;
            results.push(there.then_some(found));
        }
    }
    Ok(results)
}

/// Handles SORT.
fn sort(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let mut options = Options::parse(&arguments[2..], (true, context.may_read_any_key(arguments)))?;
    options.scripted = context.scripted;
    match options.store {
        Some(target) => sort_into(context, arguments[1], target, &options, reply),
        None => answer(context, arguments[1], &options, reply),
    }
}

/// Handles SORT_RO.
fn sort_ro(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let mut options = Options::parse(
        &arguments[2..],
        (false, context.may_read_any_key(arguments)),
    )?;
    options.scripted = context.scripted;
    answer(context, arguments[1], &options, reply)
}

/// Returns the shards of the given keys, or all shards if BY or GET reads keys whose names depend
/// on the elements.
fn shards(context: &Context<'_>, names: &[&[u8]], options: &Options<'_>) -> ShardSet {
    if options.looks_elsewhere() {
        context.store.all_shards()
    } else {
        context.store.shards_of(&context.keys(names))
    }
}

/// Elements that were read without a lock and must be verified under the locks, together with the
/// sorted results.
type PreparedSort = (Gathered, Vec<Option<Vec<u8>>>);

/// Reads a large collection in parts without a lock, and sorts its elements. Returns `None` if the
/// result depends on other keys or requires the locks.
fn sort_without_lock(
    context: &Context<'_>,
    name: &[u8],
    options: &Options<'_>,
) -> Result<Option<PreparedSort>, Failure> {
    if options.looks_elsewhere() {
        return Ok(None);
    }
    let store = context.store;
    let Some(gathered) = store.gather(context.database(), &[store.key(name)])? else {
        return Ok(None);
    };
    let Some((value_type, items)) = gathered.collections.first() else {
        return Ok(None);
    };
    if matches!(options.order(*value_type), Order::Unsorted) && *value_type == ValueType::Set {
        // The result depends on the internal order of the set, so it cannot be prepared without the
        // locks.
        return Ok(None);
    }
    let results = sort_elements(items, *value_type, options)?;
    Ok(Some((gathered, results)))
}

/// Calls [`ordered`] for a SORT that does not read other keys.
fn sort_elements(
    items: &Ranges,
    value_type: ValueType,
    options: &Options<'_>,
) -> Result<Vec<Option<Vec<u8>>>, Failure> {
    ordered(items, value_type, options, |pattern, element, out| {
        if let Pattern::Element = pattern {
            out.extend_from_slice(element);
        }
        Ok(matches!(pattern, Pattern::Element))
    })
}

/// The data that SORT has read.
enum SortInput {
    /// Elements that are sorted after all keys have been read.
    Elements((Ranges, ValueType)),
    /// Final results, which are computed immediately if BY or GET reads other keys.
    Results(Vec<Option<Vec<u8>>>),
}

fn answer(
    context: &mut Context<'_>,
    name: &[u8],
    options: &Options<'_>,
    reply: &mut dyn Reply,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let shards = shards(context, &[name], options);
    let tells = store.tells_of_misses();
    let is_alone = !options.looks_elsewhere();
    let (read, misses) = store.read(shards, |reader| {
        let mut lookup = Lookup {
            reader,
            database,
            misses: tells.then(Vec::new),
        };
        let read = match is_alone {
            true => SortInput::Elements(elements(&mut lookup, name)?),
            false => SortInput::Results(sorted(&mut lookup, name, options)?),
        };
        Ok::<_, Failure>((read, lookup.misses))
    })?;
    let results = match read {
        SortInput::Results(results) => results,
        SortInput::Elements((items, value_type)) => sort_elements(&items, value_type, options)?,
    };
    for name in misses.iter().flatten() {
        store.missed(database, &store.key(name));
    }
    store.note_use(&store.key(name));
    write_results(&results, reply);
    Ok(())
}

fn write_results(results: &[Option<Vec<u8>>], reply: &mut dyn Reply) {
    reply.array(results.len());
    for result in results {
        reply.bulk_or_null(result.as_deref());
    }
}

/// Converts results to the list that STORE writes. Missing results become empty strings.
fn items_of(results: &[Option<Vec<u8>>]) -> Ranges {
    let mut items = Ranges::new();
    for result in results {
        items.push(result.as_deref().unwrap_or_default());
    }
    items
}

fn sort_into(
    context: &mut Context<'_>,
    name: &[u8],
    target: &[u8],
    options: &Options<'_>,
    reply: &mut dyn Reply,
) -> Outcome {
    let (store, database) = (context.store, context.database());
    let limits = context.host.config().limits();
    let shards = shards(context, &[name, target], options);
    let (target, tells) = (store.key(target), store.tells_of_misses());
    // Sort a large collection before acquiring the locks. The result is stored only if the key has
    // not changed in the meantime.
    let prepared = sort_without_lock(context, name, options)?;
    let prepared = prepared.map(|(gathered, results)| (gathered, items_of(&results)));
    let length = store.write(shards, |writer| {
        if let Some((gathered, items)) = &prepared
            && gathered.still_holds(writer)?
        {
            writer.tell_as(KeyEvent::SortStore, database, &target, |writer| {
                writer.put_items(database, &target, ValueType::List, items, None, &limits)
            })?;
            return Ok(items.len());
        }
        let reader = writer.reader();
        let mut lookup = Lookup {
            reader: &reader,
            database,
            misses: tells.then(Vec::new),
        };
        let results = sorted(&mut lookup, name, options)?;
        for name in lookup.misses.iter().flatten() {
            let name = writer.key(name);
            writer.tell(KeyEvent::KeyMiss, database, &name);
        }
        let items = items_of(&results);
        writer.tell_as(KeyEvent::SortStore, database, &target, |writer| {
            writer.put_items(database, &target, ValueType::List, &items, None, &limits)
        })?;
        Ok::<_, Failure>(results.len())
    })?;
    store.note_use(&store.key(name));
    store.note_use(&target);
    reply.integer(length as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(pattern: &str) -> (Vec<&[u8]>, bool) {
        match Pattern::parse(pattern.as_bytes()) {
            Pattern::Element => (Vec::new(), true),
            Pattern::Nothing => (Vec::new(), false),
            Pattern::Key(before, behind, field) => {
                let mut parts = vec![before, behind];
                parts.extend(field);
                (parts, true)
            }
        }
    }

    #[test]
    fn pattern_search_stops_at_the_first_zero_byte() {
        assert_eq!(shape("#"), (vec![], true));
        assert_eq!(shape("#\0*"), (vec![], true));
        assert_eq!(shape("nosort"), (vec![], false));
        assert_eq!(shape("a\0*"), (vec![], false));
        assert_eq!(shape("w_*_x"), (vec![&b"w_"[..], b"_x"], true));
        assert_eq!(shape("w_*->f"), (vec![&b"w_"[..], b"", b"f"], true));
        assert_eq!(shape("*x->f->g"), (vec![&b""[..], b"x", b"f->g"], true));
        assert_eq!(shape("w_*->"), (vec![&b"w_"[..], b"->"], true));
        assert_eq!(shape("a->b*"), (vec![&b"a->b"[..], b""], true));
        assert_eq!(shape("*->\0f"), (vec![&b""[..], b"->\0f"], true));
    }

    #[test]
    fn limit_is_clamped_to_the_elements() {
        let chosen = |start: i64, count: i64| {
            let (start, count) = (start.to_string(), count.to_string());
            let words = [b"LIMIT", start.as_bytes(), count.as_bytes()];
            let options = Options::parse(&words, (false, true)).expect("sound options");
            options.chosen(5)
        };
        assert_eq!(chosen(1, 2), 1..3);
        assert_eq!(chosen(-3, 2), 0..2);
        assert_eq!(chosen(2, -1), 2..5);
        assert_eq!(chosen(4, i64::MAX), 4..5);
        assert_eq!(chosen(i64::MAX, 1), 5..5);
        assert_eq!(chosen(0, 0), 0..0);
    }
}
