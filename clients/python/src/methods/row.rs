//! One row of the table of methods: which words its parameters become, and its signature.

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

/// The kind of a parameter: which words of the command it becomes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    /// A word.
    Word,
    /// A word, which is this one where it is not given.
    Or(&'static str),
    /// An integer, which is 1 where it is not given.
    Amount,
    /// A word, where it is given.
    Maybe,
    /// A word, where it is given together with the next parameter; behind this one, unless that is empty.
    First(&'static str),
    /// The word behind that of the parameter before.
    Second,
    /// This word and another, where it is given.
    Named(&'static str),
    /// This word, where it is true.
    Flag(&'static str),
    /// The same, and then this becomes of the reply.
    Turn(&'static str, Shape),
    /// How scores become numbers, which is nothing but `float`.
    Float,
    /// All other arguments, each a word.
    Words,
    /// A list of words, or all other arguments.
    Listed,
    /// A list of words.
    List,
    /// A list of words, where it is given.
    MaybeList,
    /// Names and values in a dictionary.
    Fields,
    /// The same, where it is given.
    MaybeFields,
    /// Members and scores in a dictionary, which go the other way round, behind all other words.
    Scores,
}

/// A parameter of a method.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: ParameterKind,
}

/// One row of the table.
pub(crate) struct Row {
    /// The method.
    pub(crate) name: &'static str,
    pub(crate) command: &'static str,
    pub(crate) parameters: &'static [Parameter],
    /// See [`leading_words`].
    pub(crate) leading: Option<usize>,
    /// What becomes of the reply.
    pub(crate) shape: Shape,
    /// What the method does.
    pub(crate) does: &'static str,
}

/// With so many arguments, all by position, the words of a call are these arguments: each is a word, and the other
/// parameters become nothing. None where there is no such number.
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
    // What may be called without any argument has rules of its own.
    match words == 0 && other > 0 {
        true => None,
        false => Some(words),
    }
}

/// A word of a command.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    /// What an object stands for.
    Object(*mut ffi::PyObject),
    Literal(&'static str),
}

/// A call whose arguments have become words.
pub(crate) struct ParsedCall {
    /// In their order, without the command's name.
    pub(crate) words: SmallVec<[Word; FEW]>,
    pub(crate) shape: Shape,
    /// How many parameters were given that need not be.
    pub(crate) options: usize,
}

impl Row {
    /// Parses the arguments of a call. What a list or a dictionary holds is kept alive by `references`.
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
        // redis-py refuses some options together, which a server might take or refuse with other words.
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
                        // redis-py takes times and numbers as texts, too, or refuses them.
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
                    // As redis-py's methods take them.
                    if *kind != ParameterKind::Listed && told.is_some() && !is_list(value) {
                        return Err(Miss::UNUSUAL);
                    }
                    // SAFETY: the thread is attached and the argument is a valid object.
                    match unsafe { items(value) } {
                        Some(items) => {
                            // Without any, redis-py has answers of its own.
                            if items.is_empty() && raises == Raises::RedisPys {
                                return Err(Miss::UNUSUAL);
                            }
                            for item in items {
                                // SAFETY: it is valid now; another thread may take it out of the list later.
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
                        // redis-py has answers of its own.
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
        // Without keys, or fields and values, it is redis-py's to refuse.
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

    /// The word in front of a pair, of which this is the second parameter.
    fn literal_before(&self, name: &str) -> Option<&'static str> {
        let mut both = self.parameters.windows(2);
        let both = both.find(|both| both[1].name == name)?;
        match both[0].kind {
            ParameterKind::First(literal) if !literal.is_empty() => Some(literal),
            _ => None,
        }
    }

    /// Runs the command. What it takes out of the store goes onto the list, where there is one.
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

    /// The method's signature and what it does, as the interpreter wants to have it.
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

/// The number 1, kept alive by `references`.
fn one(references: &mut References) -> Result<*mut ffi::PyObject, Miss> {
    // SAFETY: the thread is attached; a new reference, or null with an exception set.
    let one = unsafe { ffi::PyLong_FromLong(1) };
    if one.is_null() {
        return Err(Miss::set());
    }
    references.take(one);
    Ok(one)
}

pub(crate) fn is_none(object: *mut ffi::PyObject) -> bool {
    // SAFETY: None is always there.
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

/// Whether an object is `True`; any but the two truth values is unusual.
pub(crate) fn truth(object: *mut ffi::PyObject) -> Result<bool, Miss> {
    // SAFETY: True and False are always there.
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

/// Adds what a dictionary holds, each value before its name if asked to. Returns how many there are.
pub(crate) fn pairs(
    mapping: *mut ffi::PyObject,
    turned: bool,
    references: &mut References,
    words: &mut SmallVec<[Word; FEW]>,
) -> Result<usize, Miss> {
    let (mut position, mut name, mut value) = (0, ptr::null_mut(), ptr::null_mut());
    let mut count = 0;
    // SAFETY: the mapping is a valid object, whose type is checked first; it is walked only while nothing else runs.
    // What it holds is valid now; another thread may take it out later.
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
