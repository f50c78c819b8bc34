//! Converts Rust values to the arguments of commands.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

/// The number of words that need no allocation.
const FEW: usize = 8;
/// The maximum number of characters of a 64-bit integer.
const DIGITS: usize = 20;

/// The words of a command, most of which are borrowed from the caller's values.
///
/// ```
/// use undercroft::{Args, ToArgs};
/// struct Point { x: f64, y: f64 }
/// impl ToArgs for Point {
///     fn write_args<'a>(&'a self, args: &mut Args<'a>) {
///         args.push_owned(format!("{},{}", self.x, self.y).into_bytes());
///     }
/// }
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// store.rpush("points", [Point { x: 1.0, y: 2.5 }])?;
/// assert_eq!(store.lindex("points", 0)?.as_deref(), Some(&b"1,2.5"[..]));
/// # Ok::<(), undercroft::Error>(())
/// ```
pub struct Args<'a> {
    few: [Word<'a>; FEW],
    count: usize,
    /// The words after the first `FEW` words.
    more: Vec<Word<'a>>,
    /// The words that were made for the command. They are stored separately, so that other words
    /// need no destructor.
    owned: Vec<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum Word<'a> {
    Borrowed(&'a [u8]),
    Digits([u8; DIGITS], u8),
    /// The index of a word in `owned`.
    Owned(u32),
}

impl Word<'_> {
    #[inline]
    fn bytes<'w>(&'w self, owned: &'w [Vec<u8>]) -> &'w [u8] {
        match self {
            Word::Borrowed(bytes) => bytes,
            Word::Digits(digits, count) => &digits[..usize::from(*count)],
            Word::Owned(index) => &owned[*index as usize],
        }
    }
}

impl<'a> Args<'a> {
    #[inline]
    pub(crate) fn new() -> Args<'a> {
        Args {
            few: [Word::Borrowed(&[]); FEW],
            count: 0,
            more: Vec::new(),
            owned: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn of(values: &'a (impl ToArgs + ?Sized)) -> Args<'a> {
        let mut args = Args::new();
        values.write_args(&mut args);
        args
    }

    /// Adds an argument without copying it.
    ///
    /// ```
    /// use undercroft::{Args, ToArgs};
    /// struct Id(String);
    /// impl ToArgs for Id {
    ///     fn write_args<'a>(&'a self, args: &mut Args<'a>) {
    ///         args.push(self.0.as_bytes());
    ///     }
    /// }
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.exists(Id("key".to_owned()))?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    #[inline]
    pub fn push(&mut self, argument: &'a [u8]) {
        self.push_word(Word::Borrowed(argument));
    }

    /// Adds an argument that was made for this command (see [`Args`]).
    ///
    /// ```
    /// use undercroft::{Args, ToArgs};
    /// struct Key(u32);
    /// impl ToArgs for Key {
    ///     fn write_args<'a>(&'a self, args: &mut Args<'a>) {
    ///         args.push_owned(format!("user:{}", self.0).into_bytes());
    ///     }
    /// }
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// assert_eq!(store.exists(Key(1))?, 0);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn push_owned(&mut self, argument: Vec<u8>) {
        // A command of 2^32 words does not fit into memory.
        self.push_word(Word::Owned(self.owned.len() as u32));
        self.owned.push(argument);
    }

    fn push_digits(&mut self, text: &str) {
        let mut digits = [0; DIGITS];
        match digits.get_mut(..text.len()) {
            Some(start) => {
                start.copy_from_slice(text.as_bytes());
                self.push_word(Word::Digits(digits, text.len() as u8));
            }
            None => self.push_owned(text.as_bytes().to_vec()),
        }
    }

    #[inline]
    fn push_word(&mut self, word: Word<'a>) {
        match self.few.get_mut(self.count) {
            Some(slot) => *slot = word,
            None => self.more.push(word),
        }
        self.count += 1;
    }

    /// Returns all words in one list.
    pub(crate) fn to_vec(&self) -> Vec<&[u8]> {
        let few = &self.few[..self.count.min(FEW)];
        let all = few.iter().chain(&self.more);
        all.map(|word| word.bytes(&self.owned)).collect()
    }

    /// Calls `body` with all words.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&[&[u8]]) -> R) -> R {
        if self.count > FEW {
            return body(&self.to_vec());
        }
        let mut words: [&[u8]; FEW] = [&[]; FEW];
        for (to, from) in words.iter_mut().zip(&self.few[..self.count]) {
            *to = from.bytes(&self.owned);
        }
        body(&words[..self.count])
    }
}

impl std::fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = self.to_vec();
        let words = words.iter().map(|word| String::from_utf8_lossy(word));
        f.debug_list().entries(words).finish()
    }
}

/// A value that becomes any number of arguments of a command.
///
/// - Text, bytes (slices, arrays and vectors of `u8`, `Bytes`), numbers and truth values (1 or 0)
///   become one argument.
/// - Slices, arrays, vectors, sets and tuples become the arguments of their items.
/// - Maps become keys and values in turn.
/// - `None` becomes no argument.
///
/// ```
/// use std::collections::BTreeMap;
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// store.hset("user:1", ("born", 1815))?;
/// store.hset("user:1", [("name", "Ada"), ("title", "Countess")])?;
/// store.hset("user:1", &BTreeMap::from([("score", 9.5)]))?;
/// assert_eq!(store.hlen("user:1")?, 4);
/// assert_eq!(store.del("user:1")?, 1);
/// assert_eq!(store.del(["user:2", "user:3"])?, 0);
/// # Ok::<(), undercroft::Error>(())
/// ```
pub trait ToArgs {
    /// Adds the arguments.
    ///
    /// ```
    /// use undercroft::{Args, ToArgs};
    /// struct User { name: String, visits: u32 }
    /// impl ToArgs for User {
    ///     fn write_args<'a>(&'a self, args: &mut Args<'a>) {
    ///         args.push(b"name");
    ///         self.name.write_args(args);
    ///         args.push(b"visits");
    ///         self.visits.write_args(args);
    ///     }
    /// }
    /// ```
    fn write_args<'a>(&'a self, args: &mut Args<'a>);

    /// Adds the arguments of several values. Bytes override it, because together they are one
    /// argument.
    #[doc(hidden)]
    fn write_all<'a>(items: &'a [Self], args: &mut Args<'a>)
    where
        Self: Sized,
    {
        items.iter().for_each(|item| item.write_args(args));
    }
}

/// A value that becomes exactly one argument of a command: a key, a field or a value.
///
/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
/// store.set("key", "text")?;
/// store.set("key", vec![0, 159, 146, 150_u8])?;
/// store.set(7, 1.5)?;
/// assert_eq!(store.get("7")?.as_deref(), Some(&b"1.5"[..]));
/// # Ok::<(), undercroft::Error>(())
/// ```
pub trait ToSingleArg: ToArgs {
    /// Calls `body` with the argument.
    ///
    /// ```
    /// use undercroft::ToSingleArg;
    /// assert_eq!(42.with_arg(<[u8]>::to_vec), b"42");
    /// ```
    fn with_arg<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R;
}

macro_rules! bytes {
    ($([$($generic:tt)*] $type:ty,)*) => {$(
        impl<$($generic)*> ToArgs for $type {
            #[inline]
            fn write_args<'a>(&'a self, args: &mut Args<'a>) {
                args.push(self.as_ref());
            }
        }

        impl<$($generic)*> ToSingleArg for $type {
            #[inline]
            fn with_arg<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
                body(self.as_ref())
            }
        }
    )*};
}

bytes!([] str, [] String, [] Bytes,);

macro_rules! single_bytes {
    ($([$($generic:tt)*] $type:ty,)*) => {$(
        impl<$($generic)*> ToSingleArg for $type {
            #[inline]
            fn with_arg<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
                body(self)
            }
        }
    )*};
}

single_bytes!([] [u8], [] Vec<u8>, [const N: usize] [u8; N],);

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl ToArgs for $type {
            fn write_args<'a>(&'a self, args: &mut Args<'a>) {
                args.push_digits(itoa::Buffer::new().format(*self));
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, i128, isize, u16, u32, u64, u128, usize);

macro_rules! single_integers {
    ($($type:ty),*) => {$(
        impl ToSingleArg for $type {
            fn with_arg<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
                body(itoa::Buffer::new().format(*self).as_bytes())
            }
        }
    )*};
}

single_integers!(
    i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize
);

impl ToArgs for u8 {
    fn write_args<'a>(&'a self, args: &mut Args<'a>) {
        args.push_digits(itoa::Buffer::new().format(*self));
    }

    #[inline]
    fn write_all<'a>(items: &'a [u8], args: &mut Args<'a>) {
        args.push(items);
    }
}

macro_rules! texts {
    ($($type:ty: $text:expr),*) => {$(
        impl ToArgs for $type {
            fn write_args<'a>(&'a self, args: &mut Args<'a>) {
                let text: fn(&$type) -> String = $text;
                args.push_digits(&text(self));
            }
        }

        impl ToSingleArg for $type {
            fn with_arg<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
                let text: fn(&$type) -> String = $text;
                body(text(self).as_bytes())
            }
        }
    )*};
}

// Redis parses `inf` and `-inf` in the form that Rust prints.
texts!(f32: f32::to_string, f64: f64::to_string, bool: |value| u8::from(*value).to_string());

macro_rules! pointers {
    ($([$($generic:tt)*] $type:ty,)*) => {$(
        impl<$($generic)*, T: ToArgs + ?Sized> ToArgs for $type {
            #[inline]
            fn write_args<'a>(&'a self, args: &mut Args<'a>) {
                (**self).write_args(args);
            }
        }

        impl<$($generic)*, T: ToSingleArg + ?Sized> ToSingleArg for $type {
            #[inline]
            fn with_arg<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
                (**self).with_arg(body)
            }
        }
    )*};
}

pointers!(['b] &'b T, ['b] &'b mut T,);

macro_rules! owners {
    ($($type:ty),*) => {$(
        impl<T: ToArgs + ?Sized> ToArgs for $type {
            fn write_args<'a>(&'a self, args: &mut Args<'a>) {
                (**self).write_args(args);
            }
        }

        impl<T: ToSingleArg + ?Sized> ToSingleArg for $type {
            fn with_arg<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
                (**self).with_arg(body)
            }
        }
    )*};
}

owners!(Box<T>, Rc<T>, Arc<T>);

impl<T: ToArgs + ToOwned + ?Sized> ToArgs for Cow<'_, T> {
    fn write_args<'a>(&'a self, args: &mut Args<'a>) {
        (**self).write_args(args);
    }
}

impl<T: ToSingleArg + ToOwned + ?Sized> ToSingleArg for Cow<'_, T> {
    fn with_arg<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
        (**self).with_arg(body)
    }
}

impl<T: ToArgs> ToArgs for [T] {
    #[inline]
    fn write_args<'a>(&'a self, args: &mut Args<'a>) {
        T::write_all(self, args);
    }
}

impl<T: ToArgs> ToArgs for Vec<T> {
    #[inline]
    fn write_args<'a>(&'a self, args: &mut Args<'a>) {
        T::write_all(self, args);
    }
}

impl<T: ToArgs, const N: usize> ToArgs for [T; N] {
    #[inline]
    fn write_args<'a>(&'a self, args: &mut Args<'a>) {
        T::write_all(self, args);
    }
}

impl<T: ToArgs> ToArgs for Option<T> {
    fn write_args<'a>(&'a self, args: &mut Args<'a>) {
        self.iter().for_each(|value| value.write_args(args));
    }
}

impl<T: ToArgs, S> ToArgs for HashSet<T, S> {
    fn write_args<'a>(&'a self, args: &mut Args<'a>) {
        self.iter().for_each(|item| item.write_args(args));
    }
}

impl<T: ToArgs> ToArgs for BTreeSet<T> {
    fn write_args<'a>(&'a self, args: &mut Args<'a>) {
        self.iter().for_each(|item| item.write_args(args));
    }
}

impl<K: ToArgs, V: ToArgs, S> ToArgs for HashMap<K, V, S> {
    fn write_args<'a>(&'a self, args: &mut Args<'a>) {
        for (key, value) in self {
            key.write_args(args);
            value.write_args(args);
        }
    }
}

impl<K: ToArgs, V: ToArgs> ToArgs for BTreeMap<K, V> {
    fn write_args<'a>(&'a self, args: &mut Args<'a>) {
        for (key, value) in self {
            key.write_args(args);
            value.write_args(args);
        }
    }
}

impl ToArgs for () {
    fn write_args<'a>(&'a self, _: &mut Args<'a>) {}
}

macro_rules! tuples {
    ($($name:ident)*) => {
        tuples!(@ [] $($name)*);
    };
    (@ [$($done:ident)*]) => { tuples!(= $($done)*); };
    (@ [$($done:ident)*] $next:ident $($rest:ident)*) => {
        tuples!(= $($done)*);
        tuples!(@ [$($done)* $next] $($rest)*);
    };
    (=) => {};
    (= $($name:ident)+) => {
        impl<$($name: ToArgs),+> ToArgs for ($($name,)+) {
            #[inline]
            fn write_args<'a>(&'a self, args: &mut Args<'a>) {
                #[allow(non_snake_case, reason = "the type parameters name the items")]
                let ($($name,)+) = self;
                $($name.write_args(args);)+
            }
        }
    };
}

tuples!(A B C D E F G H I J K L);

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: impl ToArgs) -> Vec<String> {
        let args = Args::of(&values);
        let text = |word: &&[u8]| String::from_utf8_lossy(word).into_owned();
        let all: Vec<String> = args.to_vec().iter().map(text).collect();
        assert_eq!(
            args.with(|words| words.iter().map(text).collect::<Vec<_>>()),
            all
        );
        all
    }

    #[test]
    fn every_kind_of_value_becomes_its_arguments() {
        assert_eq!(
            words(("a", String::from("b"), b"c", vec![b'd'], [b'e', b'f'])),
            ["a", "b", "c", "d", "ef"]
        );
        assert_eq!(
            words((i64::MIN, u64::MAX, i128::MIN, 7_u8)),
            [
                "-9223372036854775808",
                "18446744073709551615",
                "-170141183460469231731687303715884105728",
                "7",
            ]
        );
        assert_eq!(
            words((1.5, -0.25_f32, f64::NEG_INFINITY, true, false)),
            ["1.5", "-0.25", "-inf", "1", "0"]
        );
        assert_eq!(words((Some("a"), None::<&str>, ())), ["a"]);
        assert_eq!(words(vec![("a", 1), ("b", 2)]), ["a", "1", "b", "2"]);
        assert_eq!(
            words(BTreeMap::from([("b", vec!["x", "y"]), ("a", vec![])])),
            ["a", "b", "x", "y"]
        );
        assert_eq!(words([&HashSet::from(["a"])]), ["a"]);
        let shared: (Arc<str>, Box<[u8]>, Cow<'_, str>) = ("a".into(), b"b"[..].into(), "c".into());
        assert_eq!(
            words((shared, Bytes::from_static(b"d"))),
            ["a", "b", "c", "d"]
        );
        assert_eq!(words(Vec::<&str>::new()), [""; 0]);
        for count in [7, 8, 9, 100] {
            let many: Vec<u32> = (0..count).collect();
            let texts: Vec<String> = many.iter().map(u32::to_string).collect();
            assert_eq!(words(&many), texts);
        }
        assert_eq!(
            format!("{:?}", Args::of(&("GET", b"\xff"))),
            "[\"GET\", \"\u{fffd}\"]"
        );
    }
}
