//! Generates random commands, with one file for each family and one function for each command.
//!
//! The commands use few keys, so that they interact, and take valid and invalid values and options
//! of every kind. Two servers never read their clocks at the same instant, but two properties make
//! their runs comparable. First, relative expiry times differ from each other by far more than the
//! duration of a run, so comparisons between them are unambiguous. Second, no key expires during a
//! run.
//!
//! - `bitmaps`, `geo`, `hashes`, `hyperloglog`, `lists`, `sets`, `sort`, `sorted`, `strings`: the
//!   commands for one type of value each, with all of their options.
//! - `keys`, `expire`: commands on keys of any type, and on their expiry times.
//! - `blocking`: blocking commands with timeouts of at most one millisecond, and pushes that serve
//!   them.
//! - `lua`: scripts in Lua.
//! - `messages`: published messages without receivers.
//! - `payload`: DUMP payloads, written independently of the product.
//! - `scripting`: scripts from widely used programs.
//! - `server`: connection and server commands that leave the connection usable.
//! - `streams`: commands on streams, groups and consumers. Blocking commands wait for at most one
//!   millisecond.
//! - `transactions`: transactions of random commands, some of them invalid, with and without
//!   watched keys.

mod bitmaps;
mod blocking;
mod expire;
mod geo;
mod hashes;
mod hyperloglog;
mod keys;
mod lists;
mod lua;
mod messages;
pub mod payload;
mod scripting;
mod server;
mod sets;
mod sort;
mod sorted;
mod streams;
mod strings;
mod transactions;

use crate::command::Command;

/// A function that appends one command, or several commands that belong together.
type Make = fn(&mut Generator, &mut Vec<Command>);

/// The generators of one family, each with its weight.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// The family's name on the command line.
    pub name: &'static str,
    makers: &'static [(u32, Make)],
}

/// All families.
pub const FAMILIES: &[Family] = &[
    strings::FAMILY,
    bitmaps::FAMILY,
    hyperloglog::FAMILY,
    keys::FAMILY,
    lists::FAMILY,
    expire::FAMILY,
    server::FAMILY,
    transactions::FAMILY,
    hashes::FAMILY,
    sets::FAMILY,
    sorted::FAMILY,
    geo::FAMILY,
    sort::FAMILY,
    messages::FAMILY,
    blocking::FAMILY,
    scripting::LOCKS_FAMILY,
    scripting::FAMILY,
    streams::FAMILY,
    lua::FAMILY,
];

/// The databases that commands use. There are few of them, so that they fill up.
const DATABASES: [&str; 4] = ["0", "1", "2", "9"];

/// The keys, both plain and difficult: empty, binary, with a space, with glob characters.
const KEYS: [&[u8]; 14] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"key:1",
    b"key:2",
    b"key:10",
    b"",
    b"two words",
    b"k[1]",
    b"st*r",
    b"\x00\xff\r\n",
    b"{tag}x",
    b"UPPER",
];

/// Arguments that are almost integers, or extreme integers. None is a small positive number,
/// because a key with such an expiry time expires during the run.
const ODD: [&[u8]; 22] = [
    b"0",
    b"-1",
    b"-0",
    b"+1",
    b" 1",
    b"1 ",
    b"01",
    b"",
    b"1.0",
    b"1e3",
    b"abc",
    b"0x10",
    b"-",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"nan",
    b"inf",
    b"\x00",
    b"*",
];

/// A generator of commands from a seed.
#[derive(Debug)]
pub struct Generator {
    rng: fastrand::Rng,
    makers: Vec<(u32, Make)>,
    total: u32,
    expiries: u64,
    ready: std::collections::VecDeque<Command>,
}

impl Generator {
    /// Creates a generator of all commands in the given families.
    pub fn new(seed: u64, families: &[Family]) -> Self {
        let makers: Vec<_> = families
            .iter()
            .flat_map(|f| f.makers.iter().copied())
            .collect();
        let total = makers.iter().map(|(weight, _)| weight).sum();
        let rng = fastrand::Rng::with_seed(seed);
        Generator {
            rng,
            makers,
            total,
            expiries: 0,
            ready: Default::default(),
        }
    }

    /// Returns whether the next command belongs to the previous one.
    pub fn is_amid(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the next command.
    pub fn command(&mut self) -> Command {
        loop {
            if let Some(command) = self.ready.pop_front() {
                return command;
            }
            let mut ticket = self.rng.u32(0..self.total);
            let mut made = Vec::new();
            let maker = self.makers.iter().find_map(|(weight, make)| {
                if ticket < *weight {
                    return Some(*make);
                }
                ticket -= weight;
                None
            });
            if let Some(make) = maker {
                make(self, &mut made);
            }
            // Do not corrupt commands that belong together, because the second command removes data
            // that the first must not leave in the database.
            if let [only] = made.as_mut_slice() {
                self.spoil(only);
            }
            // Drop ids that are generated from the clock, because they differ between two servers.
            made.retain(|Command(words)| {
                !words[0].eq_ignore_ascii_case(b"XADD") || !words.contains(&b"*".to_vec())
            });
            self.ready.extend(made);
        }
    }

    /// Occasionally corrupts a command: its arity, order, case, or one argument.
    fn spoil(&mut self, command: &mut Command) {
        let args = &mut command.0;
        // Do not corrupt CONFIG, because a changed setting affects all later commands.
        if args[0].eq_ignore_ascii_case(b"CONFIG") {
            return;
        }
        // Prevent a corrupted command from blocking without a timeout.
        let waits = ["BL", "BR", "BZ", "XREAD"]
            .iter()
            .any(|start| args[0].starts_with(start.as_bytes()));
        // Preserve the single score of these sets' members, because Redis defines lexical ranges
        // only for equal scores.
        let has_one_score = args[0] == b"ZADD" && args[1].starts_with(b"text:");
        let is_lex = args[0].windows(3).any(|part| part == b"LEX");
        let by_text = is_lex || args.iter().any(|word| word == b"BYLEX");
        let first = match by_text {
            true if args[0] == b"ZRANGESTORE" => 3,
            true => 2,
            false => 1,
        };
        match self.rng.u32(0..200) {
            0..=6 if waits || has_one_score => {}
            0 if args.len() > first => {
                args.remove(self.rng.usize(first..args.len()));
            }
            1 | 2 if args.len() >= first => {
                let odd = self.odd();
                args.insert(self.rng.usize(first..=args.len()), odd);
            }
            3..=6 if args.len() > first => {
                let place = self.rng.usize(first..args.len());
                args[place] = self.odd();
            }
            7 => args.truncate(1),
            8..=19 => {
                for letter in &mut args[0] {
                    if self.rng.bool() {
                        *letter = letter.to_ascii_lowercase();
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns true with a probability of 1 in `n`.
    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(0..n) == 0
    }

    /// Returns a random number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.rng.usize(0..n)
    }

    /// Returns one of the choices.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.rng.usize(0..choices.len())]
    }

    /// Returns a key from the pool, or rarely a long key.
    pub(crate) fn key(&mut self) -> Vec<u8> {
        if self.one_in(60) {
            return vec![b'L'; self.pick(&[45, 255, 256, 5000])];
        }
        self.pick(&KEYS).to_vec()
    }

    /// Returns one to four keys, possibly repeated.
    pub(crate) fn keys(&mut self) -> Vec<Vec<u8>> {
        (0..self.rng.usize(1..=4)).map(|_| self.key()).collect()
    }

    /// Returns a database number, rarely an invalid one.
    pub(crate) fn database(&mut self) -> Vec<u8> {
        if self.one_in(12) {
            return self
                .pick(&["16", "-1", "abc", "99999999999", "1.5", ""])
                .into();
        }
        self.pick(&DATABASES).into()
    }

    /// Returns an argument that is almost an integer, or an extreme integer.
    pub(crate) fn odd(&mut self) -> Vec<u8> {
        self.pick(&ODD).to_vec()
    }

    /// Returns a value: short or long text, an integer, a float, binary data, or an empty string.
    pub(crate) fn value(&mut self) -> Vec<u8> {
        match self.rng.u32(0..100) {
            0..=4 => Vec::new(),
            5..=29 => self.integer(),
            30..=39 => self.float(),
            40..=44 => self.odd(),
            45..=49 => (0..self.rng.usize(0..30))
                .map(|_| self.rng.u8(..))
                .collect(),
            // Use few distinct letters, so that LCS finds matches, and lengths around 44 bytes,
            // where Redis changes its encoding.
            50..=74 => (0..self.rng.usize(1..20))
                .map(|_| self.pick(b"abc "))
                .collect(),
            75..=86 => (0..self.rng.usize(38..70))
                .map(|_| self.pick(b"abcd"))
                .collect(),
            87..=95 => (0..self.rng.usize(70..600))
                .map(|_| self.pick(b"ab"))
                .collect(),
            96..=98 => vec![self.pick(b"xyz"); self.rng.usize(600..3000)],
            _ => vec![self.pick(b"xyz"); self.pick(&[4096, 16384, 32767, 65536, 70_000])],
        }
    }

    /// Returns an integer as text: small, at the limits of its range, or arbitrary.
    pub(crate) fn integer(&mut self) -> Vec<u8> {
        let number = match self.rng.u32(0..10) {
            0..=4 => self.rng.i64(-20..200),
            5 | 6 => self.rng.i64(9_990..10_010),
            7 => i64::MAX - self.rng.i64(0..5),
            8 => i64::MIN + self.rng.i64(0..5),
            _ => self.rng.i64(..) >> self.rng.u32(0..60),
        };
        number.to_string().into_bytes()
    }

    /// Returns a float as text, plain or in scientific notation.
    pub(crate) fn float(&mut self) -> Vec<u8> {
        let whole = self.rng.i64(-1000..1000);
        match self.rng.u32(0..8) {
            0 => format!("{whole}.5"),
            1 => format!("{whole}.{:03}", self.rng.u32(0..1000)),
            2 => format!("{whole}e{}", self.rng.u32(0..6)),
            3 => format!("{whole}e-{}", self.rng.u32(0..8)),
            4 => format!("0.{}", self.rng.u32(0..100_000)),
            5 => format!("{}", self.rng.i64(..)),
            6 => self
                .pick(&["3.0e3", "1E5", ".5", "5.", "-0.0", "+2.5", "1e17"])
                .into(),
            _ => self
                .pick(&["nan", "inf", "-inf", "1e400", "1.5x", " 1.5", "1,5"])
                .into(),
        }
        .into_bytes()
    }

    /// Returns a position in a string: small, negative, beyond the end, or not a number.
    pub(crate) fn position(&mut self) -> Vec<u8> {
        match self.rng.u32(0..20) {
            0 => self.odd(),
            1 => self.rng.i32(-70_000..70_000).to_string().into(),
            _ => self.rng.i32(-30..60).to_string().into(),
        }
    }

    /// Returns a time to live in seconds that is far in the future and far from all others in the
    /// run. It is a multiple of 1000 s, and is repeated only after a million calls.
    pub(crate) fn seconds(&mut self) -> u64 {
        self.expiries += 1;
        // Multiplication by an odd factor modulo a power of two yields each residue once.
        let scattered = self.expiries.wrapping_mul(0x9E37_79B1) % (1 << 20);
        1_000_000 + scattered * 1000
    }

    /// Returns an absolute time in seconds that is later than every relative time (from the year
    /// 2096).
    pub(crate) fn future_instant(&mut self) -> u64 {
        4_000_000_000 + self.rng.u64(0..8) * 100
    }

    /// Returns an absolute time in seconds in the distant past.
    pub(crate) fn past_instant(&mut self) -> u64 {
        self.pick(&[1, 1000, 1_000_000_000])
    }
}

/// Builds a command from byte and text pieces.
pub(crate) fn command<A: Into<Vec<u8>>>(name: &str, args: impl IntoIterator<Item = A>) -> Command {
    let mut all = vec![name.as_bytes().to_vec()];
    all.extend(args.into_iter().map(Into::into));
    Command(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_commands() {
        let (mut one, mut two) = (Generator::new(7, FAMILIES), Generator::new(7, FAMILIES));
        for _ in 0..2000 {
            assert_eq!(one.command(), two.command());
        }
        let mut other = Generator::new(8, FAMILIES);
        assert!((0..20).any(|_| one.command() != other.command()));
    }

    #[test]
    fn every_command_is_generated_often() {
        // The written cases test the omitted commands: SHUTDOWN, QUIT and DEBUG end or halt a run,
        // and PFSELFTEST needs more than a second in Redis.
        let names = "GET SET GETEX GETDEL GETSET SETNX SETEX PSETEX MGET MSET MSETNX APPEND STRLEN \
            GETRANGE SETRANGE SUBSTR INCR DECR INCRBY DECRBY INCRBYFLOAT LCS SETBIT GETBIT BITCOUNT \
            BITPOS BITOP BITFIELD BITFIELD_RO PFADD PFCOUNT PFMERGE PFDEBUG DEL UNLINK EXISTS TYPE \
            KEYS SCAN RANDOMKEY RENAME RENAMENX COPY MOVE TOUCH DUMP RESTORE DBSIZE FLUSHDB FLUSHALL \
            SWAPDB EXPIRE PEXPIRE EXPIREAT PEXPIREAT TTL PTTL EXPIRETIME PEXPIRETIME PERSIST OBJECT \
            LPUSH RPUSH LPUSHX RPUSHX LPOP RPOP LLEN LRANGE LINDEX LSET LINSERT LREM LTRIM LPOS LMOVE RPOPLPUSH LMPOP \
            BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP \
            HSET HSETNX HMSET HGET HMGET HGETALL HDEL HEXISTS HLEN HKEYS HVALS HSTRLEN HINCRBY HINCRBYFLOAT \
            HRANDFIELD HSCAN SADD SREM SISMEMBER SMISMEMBER SCARD SMEMBERS SPOP SRANDMEMBER SMOVE SINTER \
            SINTERSTORE SINTERCARD SUNION SUNIONSTORE SDIFF SDIFFSTORE SSCAN \
            ZADD ZINCRBY ZREM ZCARD ZSCORE ZMSCORE ZRANK ZREVRANK ZCOUNT ZLEXCOUNT ZRANGE ZREVRANGE ZRANGEBYSCORE \
            ZREVRANGEBYSCORE ZRANGEBYLEX ZREVRANGEBYLEX ZRANGESTORE ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREMRANGEBYLEX \
            ZPOPMIN ZPOPMAX ZMPOP ZRANDMEMBER ZSCAN ZUNION ZUNIONSTORE ZINTER ZINTERSTORE ZINTERCARD ZDIFF ZDIFFSTORE \
            GEOADD GEOPOS GEODIST GEOHASH GEOSEARCH GEOSEARCHSTORE GEORADIUS GEORADIUS_RO GEORADIUSBYMEMBER \
            GEORADIUSBYMEMBER_RO MEMORY PING ECHO SELECT HELLO AUTH RESET TIME CLIENT COMMAND INFO CONFIG SLOWLOG MULTI \
            EXEC DISCARD WATCH UNWATCH PUBLISH SPUBLISH PUBSUB SORT SORT_RO EVAL";
        let mut generator = Generator::new(3, FAMILIES);
        let mut seen = std::collections::HashMap::new();
        for _ in 0..200_000 {
            *seen.entry(generator.command().word(0)).or_insert(0) += 1;
        }
        for name in names.split_whitespace() {
            let count = seen.get(name).copied().unwrap_or(0);
            assert!(count >= 20, "{name}: {count} of 200,000");
        }
    }

    #[test]
    fn every_relative_expiry_is_used_once() {
        let mut generator = Generator::new(1, FAMILIES);
        let mut all: Vec<u64> = (0..100_000).map(|_| generator.seconds()).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] >= 1000));
    }
}
