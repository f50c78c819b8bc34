//! Methods that hand their arguments on: a table of redis-py's, each the words of one command in their order.
//!
//! They are methods of the client, which runs the command, and of a pipeline, which queues it. As everywhere, what is
//! unusual is left to redis-py's method of the same name. So a row is a name, how many arguments it takes, and what
//! becomes of the reply.

use std::ffi::CStr;
use std::ptr;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use pyo3::{Borrowed, ffi, intern};
use smallvec::SmallVec;

use crate::client::Client;
use crate::execute::{Argument, FEW, ask};
use crate::held::Held;
use crate::hot::items;
use crate::method::{Call, Method, Miss, Outcome, add, is_word};
use crate::queue::Queue;
use crate::shape::Shape;

/// What a method takes, all by position.
#[derive(Clone, Copy)]
pub(crate) enum Takes {
    /// From so many words to so many.
    Words(usize, usize),
    /// So many words, and then a list of words, or words.
    Listed(usize),
    /// So many words, and then a list of words.
    List(usize),
    /// So many words, and then names and values in a dictionary.
    Fields(usize),
    /// A key, and then members and scores in a dictionary, which go the other way round.
    Scores,
    /// A key, and then an integer, which is 1 where it is not given.
    Amount,
}

/// Any number of words.
const ANY: usize = usize::MAX;

/// One row of the table.
pub(crate) struct Row {
    pub(crate) command: &'static str,
    pub(crate) takes: Takes,
    /// What becomes of the reply.
    shape: Shape,
}

/// The objects that become a command's words, in their order.
type Objects = SmallVec<[*mut ffi::PyObject; FEW]>;

impl Row {
    /// The objects that become words. What a list or a dictionary holds is kept alive by `held`.
    #[inline]
    pub(crate) fn objects<C>(
        &self,
        call: &Call<'_, '_, C>,
        held: &mut Held,
    ) -> Result<Objects, Miss> {
        let given = call.unnamed()?;
        if let Takes::Words(least, most) = self.takes {
            return match (least..=most).contains(&given.len()) {
                true => Ok(Objects::from_slice(given)),
                false => Err(Miss::Unusual),
            };
        }
        self.spread(given, held)
    }

    fn spread(&self, given: &[*mut ffi::PyObject], held: &mut Held) -> Result<Objects, Miss> {
        let fixed = match self.takes {
            Takes::Listed(fixed) | Takes::List(fixed) | Takes::Fields(fixed) => fixed,
            Takes::Scores | Takes::Amount | Takes::Words(..) => 1,
        };
        if given.len() < fixed {
            return Err(Miss::Unusual);
        }
        let (words, rest) = given.split_at(fixed);
        let mut objects = Objects::from_slice(words);
        match (self.takes, rest) {
            (Takes::Amount, []) => {
                // SAFETY: the thread is attached; it is a number that the interpreter always has.
                let one = unsafe { ffi::PyLong_FromLong(1) };
                if one.is_null() {
                    return Err(Miss::Set);
                }
                held.take(one);
                objects.push(one);
            }
            (Takes::Amount, &[amount]) => objects.push(amount),
            (Takes::Listed(_), [_, _, ..]) => objects.extend_from_slice(rest),
            (Takes::Listed(_) | Takes::List(_), &[listed]) => {
                // SAFETY: the thread is attached and the argument is a valid object.
                let (items, is_list) =
                    unsafe { (items(listed), ffi::PyList_CheckExact(listed) != 0) };
                match (items, self.takes) {
                    (_, Takes::List(_)) if !is_list => return Err(Miss::Unusual),
                    (Some(items), _) if items.is_empty() => return Err(Miss::Unusual),
                    (Some(items), _) => {
                        for item in items {
                            // SAFETY: the items are valid now; another thread may take them out of the list later.
                            unsafe { held.keep(item) };
                            objects.push(item);
                        }
                    }
                    (None, Takes::Listed(_)) => objects.push(listed),
                    (None, _) => return Err(Miss::Unusual),
                }
            }
            (Takes::Fields(_) | Takes::Scores, &[mapping]) => {
                each_pair(mapping, |name, value| {
                    // SAFETY: both are valid now; another thread may take them out of the dictionary later.
                    unsafe {
                        held.keep(name);
                        held.keep(value);
                    }
                    objects.extend(match self.takes {
                        Takes::Scores => [value, name],
                        _ => [name, value],
                    });
                })?;
                if objects.len() == fixed {
                    return Err(Miss::Unusual);
                }
            }
            _ => return Err(Miss::Unusual),
        }
        Ok(objects)
    }

    /// Runs the command.
    fn run(&self, call: &Call<'_, '_>) -> Outcome {
        if call.client.is_shaped() {
            return Err(Miss::Unusual);
        }
        let mut held = Held::default();
        let objects = self.objects(call, &mut held)?;
        let mut given: SmallVec<[Argument<'_>; FEW]> = SmallVec::with_capacity(objects.len());
        for object in objects {
            given.push(call.word(object)?);
        }
        let mut words: SmallVec<[&[u8]; FEW]> = SmallVec::with_capacity(given.len() + 1);
        words.push(self.command.as_bytes());
        words.extend(given.iter().map(Argument::bytes));
        let reply = ask(
            call.client,
            call.py,
            &words,
            true,
            self.shape.takes_numbers(),
        );
        let result = reply.and_then(|reply| self.shape.apply(reply));
        result.map(Bound::into_ptr).map_err(Miss::Raised)
    }
}

impl Row {
    /// Queues the command.
    fn queue(&self, call: &Call<'_, '_, Queue>, word: &PyOnceLock<Py<PyString>>) -> Outcome {
        let (py, queue) = (call.py, call.client);
        if queue.runs_at_once() {
            return Err(Miss::Unusual);
        }
        let mut held = Held::default();
        let objects = self.objects(call, &mut held)?;
        // SAFETY: the thread is attached and the objects are valid.
        if !objects.iter().all(|&object| unsafe { is_word(object) }) {
            return Err(Miss::Unusual);
        }
        let word = word.get_or_init(py, || PyString::intern(py, self.command).unbind());
        let mut words: SmallVec<[Borrowed<'_, '_, PyAny>; FEW]> = SmallVec::new();
        words.push(word.bind(py).as_any().as_borrowed());
        // SAFETY: as above; what a list or a dictionary held is kept alive.
        words.extend(
            objects
                .iter()
                .map(|&object| unsafe { Borrowed::from_ptr(py, object) }),
        );
        let options = PyDict::new(py);
        let queued = PyTuple::new(py, words).and_then(|words| {
            // As redis-py's methods ask for them.
            if self.shape == Shape::Pairs {
                options.set_item(intern!(py, "withscores"), true)?;
            }
            queue.add(
                py,
                &PyTuple::new(py, [words.into_any(), options.into_any()])?,
            )
        });
        queued.map_err(Miss::Raised)?;
        Ok(call.receiver().to_owned().into_ptr())
    }
}

/// Goes over a dictionary.
fn each_pair(
    mapping: *mut ffi::PyObject,
    mut visit: impl FnMut(*mut ffi::PyObject, *mut ffi::PyObject),
) -> Result<(), Miss> {
    let (mut position, mut name, mut value) = (0, ptr::null_mut(), ptr::null_mut());
    // SAFETY: the mapping is a valid object, whose type is checked first; it is walked only while nothing else runs.
    unsafe {
        if ffi::PyDict_CheckExact(mapping) == 0 {
            return Err(Miss::Unusual);
        }
        while ffi::PyDict_Next(mapping, &mut position, &mut name, &mut value) != 0 {
            visit(name, value);
        }
    }
    Ok(())
}

/// The rows: command, method, what it takes and what becomes of the reply, its signature and what it does. Those that
/// are queued only are hot methods of the client.
macro_rules! rows {
    (
        run { $($command:ident $name:ident $takes:expr => $shape:ident, $signature:literal, $does:literal;)* }
        queued { $($queued:ident $queued_name:ident $queued_takes:expr;)* }
    ) => {
        $(
            #[allow(clippy::upper_case_acronyms, reason = "named as the command is")]
            struct $command;

            impl $command {
                const ROW: Row = Row {
                    command: stringify!($command),
                    takes: { use Takes::*; $takes },
                    shape: Shape::$shape,
                };
                const METHOD: &CStr = c_str(concat!(stringify!($name), "\0"));
                const TEXT: &CStr = c_str(concat!(
                    stringify!($name), "($self, ", $signature, ")\n--\n\n", $does, "\0",
                ));
            }

            impl Method<Client> for $command {
                const NAME: &'static CStr = $command::METHOD;
                const DOC: &'static CStr = $command::TEXT;

                fn call(call: &Call<'_, '_>) -> Outcome {
                    $command::ROW.run(call)
                }
            }

            impl Method<Queue> for $command {
                const NAME: &'static CStr = $command::METHOD;
                const DOC: &'static CStr = $command::TEXT;

                fn call(call: &Call<'_, '_, Queue>) -> Outcome {
                    static WORD: PyOnceLock<Py<PyString>> = PyOnceLock::new();
                    $command::ROW.queue(call, &WORD)
                }
            }
        )*

        mod queued {
            $(
                #[allow(non_camel_case_types, reason = "named as the method is")]
                pub(super) struct $queued_name;
            )*
        }

        $(
            impl Method<Queue> for queued::$queued_name {
                const NAME: &'static CStr = c_str(concat!(stringify!($queued_name), "\0"));
                const DOC: &'static CStr = c"Queue the command.";

                fn call(call: &Call<'_, '_, Queue>) -> Outcome {
                    static WORD: PyOnceLock<Py<PyString>> = PyOnceLock::new();
                    const ROW: Row = Row {
                        command: stringify!($queued),
                        takes: { use Takes::*; $queued_takes },
                        shape: Shape::Reply,
                    };
                    ROW.queue(call, &WORD)
                }
            }
        )*

        /// Adds the methods to a class of clients, and to one of pipelines. Returns the names of the commands whose
        /// methods are native, those with a typed call among them.
        #[pyfunction]
        pub(crate) fn add_rows(
            clients: &Bound<'_, PyType>,
            pipelines: &Bound<'_, PyType>,
        ) -> PyResult<Vec<&'static str>> {
            $(
                add::<Client, $command>(clients)?;
                add::<Queue, $command>(pipelines)?;
            )*
            $(add::<Queue, queued::$queued_name>(pipelines)?;)*
            Ok(vec![$(stringify!($command),)* $(stringify!($queued),)*])
        }
    };
}

const fn c_str(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a text with a zero byte in its midst"),
    }
}

rows! {
    run {
        APPEND append Words(2, 2) => Reply, "key, value", "Add to the end of a string. Return its length.";
        BITCOUNT bitcount Words(1, 1) => Reply, "key, start=None, end=None, mode=None", "Return how many bits of a string are set.";
        GETBIT getbit Words(2, 2) => Reply, "name, offset", "Return a bit of a string.";
        GETDEL getdel Words(1, 1) => Reply, "name", "Return a string and remove its key.";
        GETEX getex Words(1, 1) => Reply, "name, ex=None, px=None, exat=None, pxat=None, persist=False", "Return a string and change when it expires.";
        GETRANGE getrange Words(3, 3) => Reply, "key, start, end", "Return a part of a string.";
        GETSET getset Words(2, 2) => Reply, "name, value", "Set a string and return the old one.";
        INCRBYFLOAT incrbyfloat Words(2, 2) => Float, "name, amount=1.0", "Add to the number that a key holds. Return the sum.";
        MSETNX msetnx Fields(0) => Truth, "mapping", "Set several keys to strings if none of them is there. Return whether that was done.";
        PSETEX psetex Words(3, 3) => Truth, "name, time_ms, value", "Set a string that expires after so many milliseconds.";
        SETEX setex Words(3, 3) => Truth, "name, time, value", "Set a string that expires after so many seconds.";
        SETNX setnx Words(2, 2) => Truth, "name, value", "Set a string if its key is not there. Return whether that was done.";
        SETRANGE setrange Words(3, 3) => Reply, "name, offset, value", "Overwrite a part of a string. Return its length.";
        STRLEN strlen Words(1, 1) => Reply, "name", "Return the length of a string.";

        EXPIREAT expireat Words(2, 2) => Truth, "name, when, nx=False, xx=False, gt=False, lt=False", "Let a key expire at a time in seconds. Return whether it is there.";
        EXPIRETIME expiretime Words(1, 1) => Reply, "key", "Return when a key expires, in seconds.";
        PERSIST persist Words(1, 1) => Truth, "name", "Let a key not expire. Return whether it would have.";
        PEXPIRE pexpire Words(2, 2) => Truth, "name, time, nx=False, xx=False, gt=False, lt=False", "Let a key expire after so many milliseconds. Return whether it is there.";
        PEXPIREAT pexpireat Words(2, 2) => Truth, "name, when, nx=False, xx=False, gt=False, lt=False", "Let a key expire at a time in milliseconds. Return whether it is there.";
        PEXPIRETIME pexpiretime Words(1, 1) => Reply, "key", "Return when a key expires, in milliseconds.";
        PTTL pttl Words(1, 1) => Reply, "name", "Return after how many milliseconds a key expires.";
        RENAME rename Words(2, 2) => Ok, "src, dst", "Rename a key.";
        RENAMENX renamenx Words(2, 2) => Truth, "src, dst", "Rename a key if the new name is free. Return whether that was done.";
        TOUCH touch Words(1, ANY) => Reply, "*args", "Note a use of keys. Return how many of them are there.";
        TYPE type Words(1, 1) => Reply, "name", "Return the type of what a key holds.";
        UNLINK unlink Words(1, ANY) => Reply, "*names", "Remove keys. Return how many of them were there.";

        HDEL hdel Words(2, ANY) => Reply, "name, *keys", "Remove fields of a hash. Return how many were there.";
        HEXISTS hexists Words(2, 2) => Truth, "name, key", "Return whether a hash has a field.";
        HGETALL hgetall Words(1, 1) => Dict, "name", "Return a hash as a dictionary.";
        HINCRBY hincrby Words(3, 3) => Reply, "name, key, amount=1", "Add to an integer in a hash. Return the sum.";
        HINCRBYFLOAT hincrbyfloat Words(3, 3) => Float, "name, key, amount=1.0", "Add to a number in a hash. Return the sum.";
        HKEYS hkeys Words(1, 1) => Reply, "name", "Return the names of a hash's fields.";
        HLEN hlen Words(1, 1) => Reply, "name", "Return the number of a hash's fields.";
        HMGET hmget Listed(1) => Reply, "name, keys, *args", "Return the values of fields of a hash, None for each that is not there.";
        HSETNX hsetnx Words(3, 3) => Reply, "name, key, value", "Set a field of a hash if it is not there. Return 1 if that was done.";
        HSTRLEN hstrlen Words(2, 2) => Reply, "name, key", "Return the length of a value in a hash.";
        HVALS hvals Words(1, 1) => Reply, "name", "Return the values of a hash's fields.";

        LINDEX lindex Words(2, 2) => Reply, "name, index", "Return the item of a list at a position.";
        LINSERT linsert Words(4, 4) => Reply, "name, where, refvalue, value", "Insert an item before or behind another one. Return the list's length.";
        LMOVE lmove Words(4, 4) => Reply, "first_list, second_list, src='LEFT', dest='RIGHT'", "Move an item from one list to another. Return it.";
        LPOS lpos Words(2, 2) => Reply, "name, value, rank=None, count=None, maxlen=None", "Return the position of an item of a list.";
        LPUSHX lpushx Words(2, ANY) => Reply, "name, *values", "Add values at the head of a list that is there. Return its length.";
        LREM lrem Words(3, 3) => Reply, "name, count, value", "Remove items that equal a value. Return how many there were.";
        LSET lset Words(3, 3) => Ok, "name, index, value", "Replace the item of a list at a position.";
        LTRIM ltrim Words(3, 3) => Ok, "name, start, end", "Remove all items of a list but those from one position to another.";
        RPOPLPUSH rpoplpush Words(2, 2) => Reply, "src, dst", "Move the last item of a list to the head of another. Return it.";
        RPUSHX rpushx Words(2, ANY) => Reply, "name, *values", "Add values at the tail of a list that is there. Return its length.";

        SCARD scard Words(1, 1) => Reply, "name", "Return the number of members of a set.";
        SDIFF sdiff Listed(0) => Set, "keys, *args", "Return what is in the first set and in none of the others.";
        SINTER sinter Listed(0) => Set, "keys, *args", "Return what is in all sets.";
        SMEMBERS smembers Words(1, 1) => Set, "name", "Return all members of a set.";
        SMISMEMBER smismember Listed(1) => Reply, "name, values, *args", "Return for each value whether it is a member of a set.";
        SMOVE smove Words(3, 3) => Truth, "src, dst, value", "Move a member from one set to another. Return whether it was there.";
        SPOP spop Words(1, 2) => Reply, "name, count=None", "Take a member of a set by chance, or so many.";
        SRANDMEMBER srandmember Words(1, 2) => Reply, "name, number=None", "Return a member of a set by chance, or so many.";
        SREM srem Words(2, ANY) => Reply, "name, *values", "Remove members of a set. Return how many were there.";
        SUNION sunion Listed(0) => Set, "keys, *args", "Return what is in any of the sets.";

        ZADD zadd Scores => Reply, "name, mapping, nx=False, xx=False, ch=False, incr=False, gt=False, lt=False", "Set scores of members of a sorted set. Return how many are new.";
        ZCARD zcard Words(1, 1) => Reply, "name", "Return the number of members of a sorted set.";
        ZCOUNT zcount Words(3, 3) => Reply, "name, min, max", "Return how many members have scores in a range.";
        ZINCRBY zincrby Words(3, 3) => Float, "name, amount, value", "Add to the score of a member. Return the sum.";
        ZLEXCOUNT zlexcount Words(3, 3) => Reply, "name, min, max", "Return how many members lie in a range of texts.";
        ZMSCORE zmscore List(1) => Floats, "key, members", "Return the scores of members, None for each that is not there.";
        ZPOPMAX zpopmax Words(1, 2) => Pairs, "name, count=None", "Take the members with the highest scores.";
        ZPOPMIN zpopmin Words(1, 2) => Pairs, "name, count=None", "Take the members with the lowest scores.";
        ZRANGE zrange Words(3, 3) => Reply, "name, start, end, desc=False, withscores=False, score_cast_func=float, byscore=False, bylex=False, offset=None, num=None", "Return the members from one place to another.";
        ZRANGEBYLEX zrangebylex Words(3, 3) => Reply, "name, min, max, start=None, num=None", "Return the members in a range of texts.";
        ZRANGEBYSCORE zrangebyscore Words(3, 3) => Reply, "name, min, max, start=None, num=None, withscores=False, score_cast_func=float", "Return the members with scores in a range.";
        ZRANK zrank Words(2, 2) => Reply, "name, value, withscore=False, score_cast_func=float", "Return the place of a member.";
        ZREM zrem Words(2, ANY) => Reply, "name, *values", "Remove members. Return how many were there.";
        ZREMRANGEBYLEX zremrangebylex Words(3, 3) => Reply, "name, min, max", "Remove the members in a range of texts. Return how many there were.";
        ZREMRANGEBYRANK zremrangebyrank Words(3, 3) => Reply, "name, min, max", "Remove the members from one place to another. Return how many there were.";
        ZREMRANGEBYSCORE zremrangebyscore Words(3, 3) => Reply, "name, min, max", "Remove the members with scores in a range. Return how many there were.";
        ZREVRANGE zrevrange Words(3, 3) => Reply, "name, start, end, withscores=False, score_cast_func=float", "Return the members from one place to another, counted from the highest score.";
        ZREVRANGEBYLEX zrevrangebylex Words(3, 3) => Reply, "name, max, min, start=None, num=None", "Return the members in a range of texts, the last first.";
        ZREVRANGEBYSCORE zrevrangebyscore Words(3, 3) => Reply, "name, max, min, start=None, num=None, withscores=False, score_cast_func=float", "Return the members with scores in a range, the highest first.";
        ZREVRANK zrevrank Words(2, 2) => Reply, "name, value, withscore=False, score_cast_func=float", "Return the place of a member, counted from the highest score.";
        ZSCORE zscore Words(2, 2) => Float, "name, value", "Return the score of a member.";

        PFADD pfadd Words(2, ANY) => Reply, "name, *values", "Add to a HyperLogLog. Return 1 if its count may have changed.";
        PFCOUNT pfcount Words(1, ANY) => Reply, "*sources", "Return about how many different values were added to HyperLogLogs.";
    }
    queued {
        GET get Words(1, 1);
        SET set Words(2, 2);
        MGET mget Listed(0);
        MSET mset Fields(0);
        DEL delete Words(1, ANY);
        EXISTS exists Words(1, ANY);
        EXPIRE expire Words(2, 2);
        TTL ttl Words(1, 1);
        INCRBY incr Amount;
        INCRBY incrby Amount;
        DECRBY decr Amount;
        DECRBY decrby Amount;
        LPUSH lpush Words(2, ANY);
        RPUSH rpush Words(2, ANY);
        LPOP lpop Words(1, 2);
        RPOP rpop Words(1, 2);
        LRANGE lrange Words(3, 3);
        LLEN llen Words(1, 1);
        HGET hget Words(2, 2);
        HSET hset Words(3, 3);
        SADD sadd Words(2, ANY);
        SISMEMBER sismember Words(2, 2);
    }
}
