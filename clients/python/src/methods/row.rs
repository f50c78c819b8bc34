//! One row of the method table, which specifies how arguments become words, and the method's
//! signature.

use std::fmt::Write;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use smallvec::SmallVec;

use crate::conversion::references::References;
use crate::conversion::shape::Shape;
use crate::error::Raises;
use crate::execute::{Argument, FEW, ask};
use crate::hot::items;
use crate::methods::fastcall::{Call, Miss, Outcome};

/// The kind of a parameter, which determines the words that its argument becomes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    /// A required word.
    Word,
    /// A word with the given default.
    Or(&'static str),
    /// An integer with the default 1.
    Amount,
    /// An optional word.
    Maybe,
    /// A word that is only valid together with the next parameter. The given literal precedes the
    /// pair, unless it is empty.
    First(&'static str),
    /// The second word of a pair that [`First`](ParameterKind::First) begins.
    Second,
    /// An optional word, which the given literal precedes.
    Named(&'static str),
    /// The given literal if the argument is true.
    Flag(&'static str),
    /// The given literal if the argument is true. The literal also changes the shape of the reply.
    Turn(&'static str, Shape),
    /// The function that converts scores, which must be `float`.
    Float,
    /// All remaining arguments, each of which is a word.
    Words,
    /// A list of words, or all remaining arguments.
    Listed,
    /// A list of words.
    List,
    /// An optional list of words.
    MaybeList,
    /// A dictionary of names and values.
    Fields,
    /// An optional dictionary of names and values.
    MaybeFields,
    /// A dictionary of members and scores, which follow all other words. Each score precedes its
    /// member.
    Scores,
}

/// A parameter of a method.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: ParameterKind,
}

/// One row of the table.
pub(crate) struct Row {
    /// The name of the method.
    pub(crate) name: &'static str,
    pub(crate) command: &'static str,
    pub(crate) parameters: &'static [Parameter],
    /// The number of arguments that need no parsing; see [`leading_words`].
    pub(crate) leading: Option<usize>,
    /// The shape of the result.
    pub(crate) shape: Shape,
    /// The docstring of the method.
    pub(crate) does: &'static str,
}

/// Returns the number of positional arguments of a call that needs no parsing, because each
/// argument is one word and the remaining parameters add none. Returns None if the method has no
/// such call.
pub(crate) const fn leading_words(parameters: &[Parameter]) -> Option<usize> {
    let mut words = 0;
    while words < parameters.len() && matches!(parameters[words].kind, ParameterKind::Word) {
        words += 1;
    }
    let mut other = words;
    while other < parameters.len() {
        match parameters[other].kind {
            ParameterKind::Named(_)
            | ParameterKind::Flag(_)
            | ParameterKind::Turn(..)
            | ParameterKind::Maybe => {}
            _ => return None,
        }
        other += 1;
    }
    // A method without required words always parses its arguments.
    match words == 0 && other > 0 {
        true => None,
        false => Some(words),
    }
}

/// A word of a command.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    /// The object whose encoding is the word.
    Object(*mut ffi::PyObject),
    Literal(&'static str),
}

/// A call whose arguments have been parsed into words.
pub(crate) struct ParsedCall {
    /// The words in order, without the command's name.
    pub(crate) words: SmallVec<[Word; FEW]>,
    pub(crate) shape: Shape,
    /// The number of options that were passed.
    pub(crate) options: usize,
}

impl Row {
    /// Parses the arguments of a call. `references` keeps the contents of lists and dictionaries
    /// alive.
    #[inline]
    pub(crate) fn parse<C>(
        &self,
        call: &Call<'_, '_, C>,
        raises: Raises,
        references: &mut References,
    ) -> Result<ParsedCall, Miss> {
        let mut parsed = ParsedCall {
            words: SmallVec::new(),
            shape: self.shape,
            options: 0,
        };
        match call.unnamed() {
            Ok(given) if self.leading == Some(given.len()) => {
                parsed
                    .words
                    .extend(given.iter().map(|&object| Word::Object(object)));
            }
            _ => self.parse_any(call, raises, references, &mut parsed)?,
        }
        // Leave calls with several options to redis-py, which rejects combinations that a server
        // might accept or might reject with a different message.
        match raises == Raises::RedisPys && parsed.options > 1 {
            true => Err(Miss::UNUSUAL),
            false => Ok(parsed),
        }
    }

    fn parse_any<C>(
        &self,
        call: &Call<'_, '_, C>,
        raises: Raises,
        references: &mut References,
        parsed: &mut ParsedCall,
    ) -> Result<(), Miss> {
        let given = call.by_position();
        let (mut place, mut unused, mut first, mut last) = (0, call.names_count(), None, None);
        for Parameter { name, kind } in self.parameters {
            let value = if *kind == ParameterKind::Words {
                None
            } else if let Some(&value) = given.get(place) {
                place += 1;
                Some(value)
            } else {
                let named = (unused > 0).then(|| call.named(name.as_bytes())).flatten();
                unused -= usize::from(named.is_some());
                named
            };
            let rest = given.get(place..).unwrap_or_default();
            let told = value.filter(|&value| !is_none(value));
            let words = &mut parsed.words;
            match (*kind, value) {
                (ParameterKind::Word, Some(value))
                | (ParameterKind::Or(_) | ParameterKind::Amount, Some(value)) => {
                    words.push(Word::Object(value));
                }
                (ParameterKind::Or(other), None) => words.push(Word::Literal(other)),
                (ParameterKind::Amount, None) => words.push(Word::Object(one(references)?)),
                (ParameterKind::Maybe, _) => words.extend(told.map(Word::Object)),
                (ParameterKind::First(_), _) => first = told,
                (ParameterKind::Second, _) => match (first.take(), told) {
                    (Some(one), Some(other)) => {
                        words.extend(self.literal_before(name).map(Word::Literal));
                        words.extend([Word::Object(one), Word::Object(other)]);
                        parsed.options += 1;
                    }
                    (None, None) => {}
                    _ => return Err(Miss::UNUSUAL),
                },
                (ParameterKind::Named(literal), _) => {
                    if let Some(value) = told {
                        // Leave other types to redis-py, which accepts some times and numbers as
                        // text and rejects the rest.
                        if raises == Raises::RedisPys && !is_integer(value) {
                            return Err(Miss::UNUSUAL);
                        }
                        words.extend([Word::Literal(literal), Word::Object(value)]);
                        parsed.options += 1;
                    }
                }
                (ParameterKind::Flag(literal) | ParameterKind::Turn(literal, _), _) => {
                    if told.map(truth).transpose()?.unwrap_or(false) {
                        words.push(Word::Literal(literal));
                        parsed.options += 1;
                        if let ParameterKind::Turn(_, shape) = *kind {
                            parsed.shape = shape;
                        }
                    }
                }
                (ParameterKind::Float, Some(value)) if !is_float_type(value) => {
                    return Err(Miss::UNUSUAL);
                }
                (ParameterKind::Float, _) => {}
                (ParameterKind::Words, _) => {
                    words.extend(rest.iter().map(|&object| Word::Object(object)));
                    place = given.len();
                }
                (ParameterKind::Listed, Some(value)) if !rest.is_empty() => {
                    words.push(Word::Object(value));
                    words.extend(rest.iter().map(|&object| Word::Object(object)));
                    place = given.len();
                }
                (
                    ParameterKind::Listed | ParameterKind::List | ParameterKind::MaybeList,
                    Some(value),
                ) => {
                    // Leave other types to redis-py, whose methods also require a list.
                    if *kind != ParameterKind::Listed && told.is_some() && !is_list(value) {
                        return Err(Miss::UNUSUAL);
                    }
                    // SAFETY: the thread is attached and the argument is a valid object.
                    match unsafe { items(value) } {
                        Some(items) => {
                            // Leave an empty list to redis-py, which has its own error or result
                            // for it.
                            if items.is_empty() && raises == Raises::RedisPys {
                                return Err(Miss::UNUSUAL);
                            }
                            for item in items {
                                // SAFETY: the item is valid now. The reference keeps it alive if
                                // another thread removes it from the list.
                                unsafe { references.keep(item) };
                                words.push(Word::Object(item));
                            }
                        }
                        None if *kind == ParameterKind::Listed => words.push(Word::Object(value)),
                        None if *kind == ParameterKind::MaybeList && told.is_none() => {}
                        None => return Err(Miss::UNUSUAL),
                    }
                    parsed.options +=
                        usize::from(*kind == ParameterKind::MaybeList && told.is_some());
                }
                (ParameterKind::Fields, Some(value)) | (ParameterKind::Scores, Some(value)) => {
                    last = (*kind == ParameterKind::Scores).then_some(value);
                    if last.is_none() && pairs(value, false, references, words)? == 0 {
                        // Leave an empty dictionary to redis-py, which has its own error for it.
                        if raises == Raises::RedisPys {
                            return Err(Miss::UNUSUAL);
                        }
                    }
                }
                (ParameterKind::MaybeFields, _) => {
                    if let Some(value) = told {
                        pairs(value, false, references, words)?;
                        parsed.options += 1;
                    }
                }
                (ParameterKind::MaybeList, None) => {}
                (ParameterKind::Word | ParameterKind::Listed | ParameterKind::List, None)
                | (ParameterKind::Fields | ParameterKind::Scores, None) => {
                    return Err(Miss::UNUSUAL);
                }
            }
        }
        if place < given.len() || unused > 0 {
            return Err(Miss::UNUSUAL);
        }
        if let Some(scores) = last {
            let count = pairs(scores, true, references, &mut parsed.words)?;
            let is_one = count == 1 || count > 1 && parsed.shape == self.shape;
            if !is_one && raises == Raises::RedisPys {
                return Err(Miss::UNUSUAL);
            }
        }
        // Leave a call without keys, or without fields and values, to redis-py, which rejects it.
        let mut kinds = self.parameters.iter().map(|parameter| parameter.kind);
        let least = match kinds.any(|kind| kind == ParameterKind::MaybeFields) {
            true => 3,
            false => 1,
        };
        match parsed.words.len() < least && raises == Raises::RedisPys {
            true => Err(Miss::UNUSUAL),
            false => Ok(()),
        }
    }

    /// Returns the literal that precedes a pair, given the name of the pair's second parameter.
    fn literal_before(&self, name: &str) -> Option<&'static str> {
        let mut both = self.parameters.windows(2);
        let both = both.find(|both| both[1].name == name)?;
        match both[0].kind {
            ParameterKind::First(literal) if !literal.is_empty() => Some(literal),
            _ => None,
        }
    }

    /// Runs the command. Elements that it removes from the store are recorded in `taken`, if given.
    pub(crate) fn run<'py>(
        &self,
        call: &Call<'_, 'py>,
        taken: Option<&Bound<'py, PyList>>,
    ) -> Outcome {
        if call.client.is_shaped() {
            return Err(Miss::UNUSUAL);
        }
        let mut references = References::default();
        let parsed = self.parse(call, call.client.codec.raises, &mut references)?;
        let mut given: SmallVec<[Argument<'_>; FEW]> = SmallVec::with_capacity(parsed.words.len());
        for word in parsed.words {
            given.push(match word {
                Word::Object(object) => call.word(object)?,
                Word::Literal(text) => Argument::Of(text.as_bytes()),
            });
        }
        let mut words: SmallVec<[&[u8]; FEW]> = SmallVec::with_capacity(given.len() + 1);
        words.push(self.command.as_bytes());
        words.extend(given.iter().map(Argument::bytes));
        let result = ask(call.client, call.py, &words, true, parsed.shape, taken);
        result.map(Bound::into_ptr).map_err(Miss::from)
    }

    /// Returns the method's signature and docstring in the interpreter's format.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}($self", self.name);
        for Parameter { name, kind } in self.parameters {
            let written = match kind {
                ParameterKind::Word
                | ParameterKind::List
                | ParameterKind::Fields
                | ParameterKind::Scores => {
                    write!(text, ", {name}")
                }
                ParameterKind::Or(other) if other.parse::<f64>().is_ok() => {
                    write!(text, ", {name}={other}")
                }
                ParameterKind::Or(other) => write!(text, ", {name}='{other}'"),
                ParameterKind::Amount => write!(text, ", {name}=1"),
                ParameterKind::Maybe
                | ParameterKind::First(_)
                | ParameterKind::Second
                | ParameterKind::Named(_)
                | ParameterKind::MaybeList
                | ParameterKind::MaybeFields => write!(text, ", {name}=None"),
                ParameterKind::Flag(_) | ParameterKind::Turn(..) => write!(text, ", {name}=False"),
                ParameterKind::Float => write!(text, ", {name}=float"),
                ParameterKind::Words => write!(text, ", *{name}"),
                ParameterKind::Listed => write!(text, ", {name}, *args"),
            };
            written.expect("a text takes all that is written to it");
        }
        text + ")\n--\n\n" + self.does
    }
}

/// Returns the `int` object 1, kept alive by `references`.
fn one(references: &mut References) -> Result<*mut ffi::PyObject, Miss> {
    // SAFETY: the thread is attached. The result is a new reference, or null with an exception set.
    let one = unsafe { ffi::PyLong_FromLong(1) };
    if one.is_null() {
        return Err(Miss::set());
    }
    references.take(one);
    Ok(one)
}

pub(crate) fn is_none(object: *mut ffi::PyObject) -> bool {
    // SAFETY: `None` always exists.
    object == unsafe { ffi::Py_None() }
}

fn is_integer(object: *mut ffi::PyObject) -> bool {
    // SAFETY: the thread is attached and the argument is a valid object.
    unsafe { ffi::PyLong_CheckExact(object) != 0 }
}

fn is_list(object: *mut ffi::PyObject) -> bool {
    // SAFETY: the thread is attached and the argument is a valid object.
    unsafe { ffi::PyList_CheckExact(object) != 0 }
}

fn is_float_type(object: *mut ffi::PyObject) -> bool {
    object == (&raw mut ffi::PyFloat_Type).cast()
}

/// Whether an object is `True`. Any object other than `True` and `False` is unusual.
pub(crate) fn truth(object: *mut ffi::PyObject) -> Result<bool, Miss> {
    // SAFETY: `True` and `False` always exist.
    unsafe {
        if object == ffi::Py_True() {
            Ok(true)
        } else if object == ffi::Py_False() {
            Ok(false)
        } else {
            Err(Miss::UNUSUAL)
        }
    }
}

/// Adds the contents of a dictionary, with each value before its name if `turned` is set. Returns
/// the number of pairs.
pub(crate) fn pairs(
    mapping: *mut ffi::PyObject,
    turned: bool,
    references: &mut References,
    words: &mut SmallVec<[Word; FEW]>,
) -> Result<usize, Miss> {
    let (mut position, mut name, mut value) = (0, ptr::null_mut(), ptr::null_mut());
    let mut count = 0;
    // SAFETY: the mapping is a valid object whose type is checked first. No other thread runs
    // during the iteration, and the references keep the dictionary's contents alive afterwards.
    unsafe {
        if ffi::PyDict_CheckExact(mapping) == 0 {
            return Err(Miss::UNUSUAL);
        }
        while ffi::PyDict_Next(mapping, &mut position, &mut name, &mut value) != 0 {
            references.keep(name);
            references.keep(value);
            let pair = match turned {
                true => [value, name],
                false => [name, value],
            };
            words.extend(pair.map(Word::Object));
            count += 1;
        }
    }
    Ok(count)
}
