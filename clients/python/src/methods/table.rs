//! The table of methods that pass their arguments to a command as words, in order.
//!
//! A client's method runs the command. A pipeline's method of the same name queues it. The most
//! frequently called methods also have a typed engine call (`hot`), which is tried first. Arguments
//! that a row does not support are left to redis-py's method of the same name, if there is one. A
//! row specifies a name, parameters and the shape of the reply.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::client::Client;
use crate::hot::{Hot, Taking, counters, hashes, keys, lists, multi_key, pops, sets, strings};
use crate::methods::fastcall::{Call, Method, Outcome, add};
use crate::queue::Queue;

/// Expands to a parameter with its name and kind. The default kind is a single word.
macro_rules! parameter {
    ($name:ident) => {
        Parameter {
            name: stringify!($name),
            kind: ParameterKind::Word,
        }
    };
    ($name:ident: $kind:expr) => {
        Parameter {
            name: stringify!($name),
            kind: {
                use ParameterKind::*;
                $kind
            },
        }
    };
}

/// Defines the rows. Each one lists the command, the method, an optional typed call that is tried
/// first, the parameters, the shape of the reply, and the docstring.
macro_rules! rows {
    ($(
        $command:ident $name:ident $($room:ident::$hot:ident)?
        [$($parameter:ident $(: $kind:expr)?),*] => $shape:ident, $does:literal;
    )*) => {
        /// Contains one type for each method.
        mod methods {
            use super::plain;
            use crate::methods::row::{ParameterKind, Parameter, Row, leading_words};
            use crate::conversion::shape::Shape;

            $(
                #[allow(non_camel_case_types, reason = "named after the Python method")]
                pub(super) struct $name;

                impl $name {
                    const PARAMETERS: &'static [Parameter] = &[$(parameter!($parameter $(: $kind)?)),*];

                    pub(super) const ROW: &'static Row = &Row {
                        name: plain(stringify!($name)),
                        command: stringify!($command),
                        parameters: Self::PARAMETERS,
                        leading: leading_words(Self::PARAMETERS),
                        shape: Shape::$shape,
                        does: $does,
                    };
                }
            )*
        }

        $(
            impl Method<Client> for methods::$name {
                const NAME: &'static str = methods::$name::ROW.name;

                fn text() -> String {
                    methods::$name::ROW.text()
                }

                #[inline(always)]
                fn call(call: &Call<'_, '_>) -> Outcome {
                    $(
                        match <$room::$hot as Hot>::call(call) {
                            Err(miss) if miss.is_unusual() => {}
                            outcome => return outcome,
                        }
                    )?
                    methods::$name::ROW.run(call, None)
                }
            }

            impl Method<Queue> for methods::$name {
                const NAME: &'static str = methods::$name::ROW.name;

                fn text() -> String {
                    methods::$name::ROW.text()
                }

                fn call(call: &Call<'_, '_, Queue>) -> Outcome {
                    methods::$name::ROW.queue(call)
                }
            }
        )*

        /// The commands, each with the name of its method.
        const METHODS: &[(&str, &str)] = &[$((stringify!($command), methods::$name::ROW.name)),*];

        /// Adds the methods to the classes of clients and pipelines.
        pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
            let clients: Bound<'_, PyType> = module.py().get_type::<Client>();
            let pipelines: Bound<'_, PyType> = module.py().get_type::<Queue>();
            $(
                add::<Client, methods::$name>(&clients)?;
                add::<Queue, methods::$name>(&pipelines)?;
            )*
            install_taking(module)?;
            module.add("METHODS", METHODS.to_vec())
        }
    };
}

/// Defines methods for commands that remove elements from the store. Each entry lists the row's
/// method, the name of the variant with a `taken` list, and an optional typed call that is tried
/// first. `undercroft.embedded.taking` builds the public methods on these variants.
macro_rules! taking_rows {
    ($($name:ident $taking:literal $($room:ident::$hot:ident)?;)*) => {
        mod taking {
            $(
                #[allow(non_camel_case_types, reason = "named after the Python method")]
                pub(super) struct $name;
            )*
        }

        $(
            impl Method<Client> for taking::$name {
                const NAME: &'static str = $taking;

                fn text() -> String {
                    methods::$name::ROW.text()
                }

                #[inline(always)]
                fn call(call: &Call<'_, '_>) -> Outcome {
                    let (taken, call) = call.split_taken()?;
                    $(
                        match <$room::$hot as Taking>::take(&call, &taken) {
                            Err(miss) if miss.is_unusual() => {}
                            outcome => return outcome,
                        }
                    )?
                    methods::$name::ROW.run(&call, Some(&taken))
                }
            }
        )*

        /// Adds the variants with a `taken` list to the client class.
        fn install_taking(module: &Bound<'_, PyModule>) -> PyResult<()> {
            let clients: Bound<'_, PyType> = module.py().get_type::<Client>();
            $(add::<Client, taking::$name>(&clients)?;)*
            module.add("TAKING_METHODS", vec![$((methods::$name::ROW.name, $taking)),*])
        }
    };
}

taking_rows! {
    lpop "_lpop" lists::Lpop;
    rpop "_rpop" lists::Rpop;
    spop "_spop" pops::Spop;
    zpopmin "_zpopmin" pops::Zpopmin;
    zpopmax "_zpopmax" pops::Zpopmax;
    getdel "_getdel" pops::Getdel;
    getset "_getset" pops::Getset;
}

/// Strips `r#` from a name that is also a Rust keyword.
const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

rows! {
    GET get strings::Get [name] => Reply, "Return the string value of a key, or None if the key does not exist.";
    SET set strings::Set [name, value, ex: Named("EX"), px: Named("PX"), nx: Flag("NX"), xx: Flag("XX"), keepttl: Flag("KEEPTTL"), get: Turn("GET", Shape::Reply), exat: Named("EXAT"), pxat: Named("PXAT")] => OkOrNone, "Set a key to a string. Return True, or None if a condition (nx, xx) was not met; with get, return the old value.";
    MGET mget multi_key::Mget [keys: Listed] => Reply, "Return the string values of several keys in one atomic read, with None for each key that has no string.";
    MSET mset multi_key::Mset [mapping: Fields] => Ok, "Set several keys to strings atomically. Return True.";
    DEL delete keys::Delete [names: Words] => Reply, "Remove keys. Return how many existed.";
    EXISTS exists keys::Exists [names: Words] => Reply, "Return how many of the keys exist, counting repeated keys each time.";
    EXPIRE expire keys::Expire [name, time, nx: Flag("NX"), xx: Flag("XX"), gt: Flag("GT"), lt: Flag("LT")] => Truth, "Set a key to expire after a number of seconds. Return whether the expiry was set.";
    TTL ttl keys::Ttl [name] => Reply, "Return the number of seconds until a key expires, -1 if it never expires, or -2 if it does not exist.";
    LPUSH lpush lists::Lpush [name, values: Words] => Reply, "Add values to the head of a list. Return its length.";
    RPUSH rpush lists::Rpush [name, values: Words] => Reply, "Add values to the tail of a list. Return its length.";
    LPOP lpop [name, count: Maybe] => Reply, "Remove and return the first item of a list, or a list of count items, or None if the key does not exist.";
    RPOP rpop [name, count: Maybe] => Reply, "Remove and return the last item of a list, or a list of count items, or None if the key does not exist.";
    LRANGE lrange lists::Lrange [name, start, end] => Reply, "Return the items between two positions, inclusive. Negative positions count from the tail.";
    LLEN llen lists::Llen [name] => Reply, "Return the number of items in a list.";
    INCRBY incr counters::Incr [name, amount: Amount] => Reply, "Add to the integer value of a key, which counts as 0 if it does not exist. Return the sum.";
    INCRBY incrby counters::Incrby [name, amount: Amount] => Reply, "Add to the integer value of a key, which counts as 0 if it does not exist. Return the sum.";
    DECRBY decr counters::Decr [name, amount: Amount] => Reply, "Subtract from the integer value of a key, which counts as 0 if it does not exist. Return the difference.";
    DECRBY decrby counters::Decrby [name, amount: Amount] => Reply, "Subtract from the integer value of a key, which counts as 0 if it does not exist. Return the difference.";
    HGET hget hashes::Hget [name, key] => Reply, "Return the value of a hash field, or None if the field does not exist.";
    HSET hset hashes::Hset [name, key: First(""), value: Second, mapping: MaybeFields, items: MaybeList] => Reply, "Set hash fields, one by key and value, or several by a mapping or a list of items. Return how many fields are new.";
    SADD sadd sets::Sadd [name, values: Words] => Reply, "Add members to a set. Return how many are new.";
    SISMEMBER sismember sets::Sismember [name, value] => Reply, "Return 1 if a value is a member of a set, otherwise 0.";

    APPEND append [key, value] => Reply, "Append to a string. Return its length.";
    BITCOUNT bitcount [key, start: First(""), end: Second, mode: Maybe] => Reply, "Return the number of set bits in a string.";
    GETBIT getbit [name, offset] => Reply, "Return one bit of a string.";
    GETDEL getdel [name] => Reply, "Return a string and delete its key.";
    GETEX getex [name, ex: Named("EX"), px: Named("PX"), exat: Named("EXAT"), pxat: Named("PXAT"), persist: Flag("PERSIST")] => Reply, "Return a string and change when it expires.";
    GETRANGE getrange [key, start, end] => Reply, "Return part of a string.";
    GETSET getset [name, value] => Reply, "Set a string and return the old value.";
    INCRBYFLOAT incrbyfloat [name, amount: Or("1.0")] => Float, "Add to the numeric value of a key. Return the sum.";
    MSETNX msetnx [mapping: Fields] => Truth, "Set several keys to strings if none of them exists. Return whether they were set.";
    PSETEX psetex [name, time_ms, value] => Truth, "Set a string that expires after a number of milliseconds.";
    SETEX setex [name, time, value] => Truth, "Set a string that expires after a number of seconds.";
    SETNX setnx [name, value] => Truth, "Set a string if its key does not exist. Return whether it was set.";
    SETRANGE setrange [name, offset, value] => Reply, "Overwrite part of a string. Return its length.";
    STRLEN strlen [name] => Reply, "Return the length of a string.";

    EXPIREAT expireat [name, when, nx: Flag("NX"), xx: Flag("XX"), gt: Flag("GT"), lt: Flag("LT")] => Truth, "Set a key to expire at a Unix time in seconds. Return whether the expiry was set.";
    EXPIRETIME expiretime [key] => Reply, "Return the Unix time in seconds at which a key expires.";
    PERSIST persist [name] => Truth, "Remove a key's time to live. Return whether it had one.";
    PEXPIRE pexpire [name, time, nx: Flag("NX"), xx: Flag("XX"), gt: Flag("GT"), lt: Flag("LT")] => Truth, "Set a key to expire after a number of milliseconds. Return whether the expiry was set.";
    PEXPIREAT pexpireat [name, when, nx: Flag("NX"), xx: Flag("XX"), gt: Flag("GT"), lt: Flag("LT")] => Truth, "Set a key to expire at a Unix time in milliseconds. Return whether the expiry was set.";
    PEXPIRETIME pexpiretime [key] => Reply, "Return the Unix time in milliseconds at which a key expires.";
    PTTL pttl [name] => Reply, "Return the number of milliseconds until a key expires.";
    RENAME rename [src, dst] => Ok, "Rename a key.";
    RENAMENX renamenx [src, dst] => Truth, "Rename a key if the new name is free. Return whether it was renamed.";
    TOUCH touch [args: Words] => Reply, "Mark keys as used. Return how many of them exist.";
    KEYS keys [pattern: Or("*")] => Reply, "Return all keys that match a pattern.";
    DBSIZE dbsize [] => Reply, "Return the number of keys.";
    FLUSHDB flushdb [asynchronous: Flag("ASYNC")] => Ok, "Remove all keys from the database.";
    TYPE r#type [name] => Reply, "Return the type of a key's value.";
    UNLINK unlink [names: Words] => Reply, "Remove keys. Return how many existed.";

    HDEL hdel [name, keys: Words] => Reply, "Remove fields from a hash. Return how many existed.";
    HEXISTS hexists [name, key] => Truth, "Return whether a hash has a field.";
    HGETALL hgetall [name] => Dict, "Return a hash as a dictionary.";
    HINCRBY hincrby [name, key, amount: Amount] => Reply, "Add to an integer in a hash. Return the sum.";
    HINCRBYFLOAT hincrbyfloat [name, key, amount: Or("1.0")] => Float, "Add to a number in a hash. Return the sum.";
    HKEYS hkeys [name] => Reply, "Return the names of a hash's fields.";
    HLEN hlen [name] => Reply, "Return the number of fields in a hash.";
    HMGET hmget [name, keys: Listed] => Reply, "Return the values of hash fields, with None for each missing field.";
    HSETNX hsetnx [name, key, value] => Reply, "Set a hash field if it does not exist. Return 1 if it was set.";
    HSTRLEN hstrlen [name, key] => Reply, "Return the length of a value in a hash.";
    HVALS hvals [name] => Reply, "Return the values of a hash's fields.";

    LINDEX lindex [name, index] => Reply, "Return the list item at a position.";
    LINSERT linsert [name, where, refvalue, value] => Reply, "Insert an item before or after another item. Return the list's length.";
    LMOVE lmove [first_list, second_list, src: Or("LEFT"), dest: Or("RIGHT")] => Reply, "Move an item from one list to another, and return the item.";
    LPOS lpos [name, value, rank: Named("RANK"), count: Named("COUNT"), maxlen: Named("MAXLEN")] => Reply, "Return the position of an item in a list.";
    LPUSHX lpushx [name, values: Words] => Reply, "Add values to the head of an existing list. Return its length.";
    LREM lrem [name, count, value] => Reply, "Remove items equal to a value. Return how many were removed.";
    LSET lset [name, index, value] => Ok, "Replace the list item at a position.";
    LTRIM ltrim [name, start, end] => Ok, "Remove all items from a list except those between two positions.";
    RPOPLPUSH rpoplpush [src, dst] => Reply, "Move the last item of a list to the head of another list, and return the item.";
    RPUSHX rpushx [name, values: Words] => Reply, "Add values to the tail of an existing list. Return its length.";

    SCARD scard [name] => Reply, "Return the number of members in a set.";
    SDIFF sdiff [keys: Listed] => Set, "Return the members of the first set that are not in any other set.";
    SINTER sinter [keys: Listed] => Set, "Return the intersection of sets.";
    SMEMBERS smembers [name] => Set, "Return all members of a set.";
    SMISMEMBER smismember [name, values: Listed] => Reply, "Return whether each value is a member of a set.";
    SMOVE smove [src, dst, value] => Truth, "Move a member from one set to another. Return whether it existed.";
    SPOP spop [name, count: Maybe] => Reply, "Remove and return one or more random members of a set.";
    SRANDMEMBER srandmember [name, number: Maybe] => Reply, "Return one or more random members of a set.";
    SREM srem [name, values: Words] => Reply, "Remove members from a set. Return how many existed.";
    SUNION sunion [keys: Listed] => Set, "Return the union of sets.";

    ZADD zadd [name, mapping: Scores, nx: Flag("NX"), xx: Flag("XX"), ch: Flag("CH"), incr: Turn("INCR", Shape::Float), gt: Flag("GT"), lt: Flag("LT")] => Reply, "Set the scores of members of a sorted set. Return how many members are new.";
    ZCARD zcard [name] => Reply, "Return the number of members in a sorted set.";
    ZCOUNT zcount [name, min, max] => Reply, "Return how many members have scores in a range.";
    ZINCRBY zincrby [name, amount, value] => Float, "Add to a member's score. Return the sum.";
    ZLEXCOUNT zlexcount [name, min, max] => Reply, "Return how many members are in a lexicographic range.";
    ZMSCORE zmscore [key, members: List] => Floats, "Return the scores of members, with None for each missing member.";
    ZPOPMAX zpopmax [name, count: Maybe] => Pairs, "Remove and return the members with the highest scores.";
    ZPOPMIN zpopmin [name, count: Maybe] => Pairs, "Remove and return the members with the lowest scores.";
    ZRANGE zrange [name, start, end, desc: Flag("REV"), withscores: Turn("WITHSCORES", Shape::Pairs), score_cast_func: Float, byscore: Flag("BYSCORE"), bylex: Flag("BYLEX"), offset: First("LIMIT"), num: Second] => Reply, "Return the members between two ranks.";
    ZRANGEBYLEX zrangebylex [name, min, max, start: First("LIMIT"), num: Second] => Reply, "Return the members in a lexicographic range.";
    ZRANGEBYSCORE zrangebyscore [name, min, max, start: First("LIMIT"), num: Second, withscores: Turn("WITHSCORES", Shape::Pairs), score_cast_func: Float] => Reply, "Return the members with scores in a range.";
    ZRANK zrank [name, value, withscore: Turn("WITHSCORE", Shape::Reply), score_cast_func: Float] => Reply, "Return the rank of a member.";
    ZREM zrem [name, values: Words] => Reply, "Remove members. Return how many existed.";
    ZREMRANGEBYLEX zremrangebylex [name, min, max] => Reply, "Remove the members in a lexicographic range. Return how many were removed.";
    ZREMRANGEBYRANK zremrangebyrank [name, min, max] => Reply, "Remove the members between two ranks. Return how many were removed.";
    ZREMRANGEBYSCORE zremrangebyscore [name, min, max] => Reply, "Remove the members with scores in a range. Return how many were removed.";
    ZREVRANGE zrevrange [name, start, end, withscores: Turn("WITHSCORES", Shape::Pairs), score_cast_func: Float] => Reply, "Return the members between two ranks, counted from the highest score.";
    ZREVRANGEBYLEX zrevrangebylex [name, max, min, start: First("LIMIT"), num: Second] => Reply, "Return the members in a lexicographic range, in reverse order.";
    ZREVRANGEBYSCORE zrevrangebyscore [name, max, min, start: First("LIMIT"), num: Second, withscores: Turn("WITHSCORES", Shape::Pairs), score_cast_func: Float] => Reply, "Return the members with scores in a range, highest first.";
    ZREVRANK zrevrank [name, value, withscore: Turn("WITHSCORE", Shape::Reply), score_cast_func: Float] => Reply, "Return the rank of a member, counted from the highest score.";
    ZSCORE zscore [name, value] => Float, "Return the score of a member.";

    PFADD pfadd [name, values: Words] => Reply, "Add to a HyperLogLog. Return 1 if its count may have changed.";
    PFCOUNT pfcount [sources: Words] => Reply, "Return the approximate number of distinct values in HyperLogLogs.";
}
