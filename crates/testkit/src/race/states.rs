//! Lists the states that a key can be in: each type in each encoding and size, live or expired, and
//! the absent key.

use super::{Words, words};

/// The type of a value, as far as commands distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A key that does not exist or has expired.
    Absent,
    /// A string.
    String,
    /// A hash.
    Hash,
    /// A list.
    List,
    /// A set.
    Set,
    /// A sorted set.
    Sorted,
    /// A feed.
    Feed,
    /// A stream.
    Stream,
}

/// A state that a key can be in.
#[derive(Clone, Debug)]
pub struct State {
    /// The unique name of the state in test messages.
    pub name: &'static str,
    /// The type of the value for commands.
    pub family: Family,
    /// Whether commands on other types are also tested with this state. One state of each type
    /// suffices to test WRONGTYPE errors.
    pub is_usual: bool,
    /// The commands that create the state. `@` stands for the key.
    pub commands: Vec<Words>,
    /// The time from [`NOW`](super::NOW) until the key expires, in milliseconds.
    pub expires: Option<i64>,
}

/// Returns a string in which every eight-byte word identifies its value and its offset: each word
/// consists of `tag` and a number.
fn pattern(tag: char, length: usize) -> String {
    let word = |number: usize| format!("{tag}{:06}.", number % 1_000_000);
    let mut text: String = (0..length.div_ceil(8)).map(word).collect();
    text.truncate(length);
    text
}

fn set(tag: char, length: usize) -> Vec<Words> {
    vec![words(&format!("SET @ {}", pattern(tag, length)))]
}

/// Returns a single command with many items as arguments.
fn with_items(command: &str, items: impl Iterator<Item = String>) -> Vec<Words> {
    let items: Vec<String> = items.collect();
    vec![words(&format!("{command} @ {}", items.join(" ")))]
}

/// Returns the commands that create a hash. All hashes share their first fields, but their values
/// differ.
fn hash(tag: char, fields: usize, length: usize) -> Vec<Words> {
    let field = |number| format!("m{number} {}", pattern(tag, length + number % 3));
    with_items("HSET", (0..fields).map(field))
}

fn list(tag: char, items: usize, length: usize) -> Vec<Words> {
    let item = |number| format!("{tag}{number}{}", pattern(tag, length));
    with_items("RPUSH", (0..items).map(item))
}

/// Returns the commands that create a set. Even members occur in all sets, and odd members contain
/// `tag`.
fn set_of(tag: char, members: usize) -> Vec<Words> {
    let member = |number: usize| match number % 2 {
        0 => format!("m{number}"),
        _ => format!("m{number}{tag}"),
    };
    with_items("SADD", (0..members).map(member))
}

fn sorted(tag: char, members: usize, first: usize, length: usize) -> Vec<Words> {
    let member = |number: usize| match number % 2 {
        0 => format!("{} m{number}", first + number * 2),
        _ => format!("{} m{number}{}", first + number * 2, pattern(tag, length)),
    };
    with_items("ZADD", (0..members).map(member))
}

/// Returns the commands that create a stream and a group with pending entries. Half of the entries
/// are the same in all streams.
fn stream(tag: char, entries: usize) -> Vec<Words> {
    let entry = |number: usize| match number % 2 {
        0 => format!("XADD @ {number}-1 f m{number}"),
        _ => format!("XADD @ {number}-1 f m{number}{tag} g{tag} 7"),
    };
    let mut commands: Vec<Words> = (1..=entries).map(|number| words(&entry(number))).collect();
    commands.push(words("XGROUP CREATE @ g 0"));
    let given = entries / 2;
    commands.push(words(&format!(
        "XREADGROUP GROUP g c COUNT {given} STREAMS @ >"
    )));
    commands.push(words("XREADGROUP GROUP g d COUNT 2 STREAMS @ >"));
    commands.push(words("XACK @ g 1-1"));
    commands
}

/// Returns the commands that create a feed of eight-byte values, a third of them hidden. Half of
/// the values are the same in all feeds.
fn feed(tag: char, items: usize) -> Vec<Words> {
    let value = |number: usize| match number % 2 {
        0 => format!("m{number:07}"),
        _ => format!("m{number:06}{tag}"),
    };
    let mut commands = vec![words("FEED.CREATE @ SIZE 8 ATTRS 4:3:1")];
    if items > 0 {
        let item = |number| format!("{} ATTRS {}:{}:1", value(number), number % 16, number % 5);
        commands.extend(with_items(
            "FEED.ADD",
            std::iter::once("-1".to_owned()).chain((0..items).map(item)),
        ));
        commands.extend(with_items("FEED.HIDE", (0..items).step_by(3).map(value)));
    }
    commands
}

/// Returns the commands that create a feed with a tally (counts of its items by attribute). The
/// feed has so many leaves that repeated queries, which end the list, create the tally.
fn tallied_feed() -> Vec<Words> {
    let item = |number: usize| format!("{number:0200} ATTRS {}:{}:1", number % 16, number % 5);
    let mut commands = vec![words("FEED.CREATE @ SIZE 200 ATTRS 4:3:1")];
    commands.extend(with_items(
        "FEED.ADD",
        std::iter::once("-1".to_owned()).chain((0..500).map(item)),
    ));
    commands.extend((0..8).map(|_| words("FEED.COUNT @ WHERE 3::")));
    commands
}

/// Returns all states. The first state is the absent key.
pub fn states() -> Vec<State> {
    use Family::{Absent, Feed, Hash, List, Set, Sorted, Stream, String};
    let mut all = Vec::new();
    let mut add = |name, family, is_usual, commands| {
        all.push(State {
            name,
            family,
            is_usual,
            commands,
            expires: None,
        });
    };
    add("absent", Absent, true, Vec::new());

    add("empty string", String, false, set('e', 0));
    add("string of 3", String, true, vec![words("SET @ abc")]);
    add(
        "integer",
        String,
        true,
        vec![words("SET @ 4611686018427387904")],
    );
    add("float", String, false, vec![words("SET @ 3.25")]);
    add("string of 200", String, false, set('b', 200));
    add("string of 300", String, false, set('c', 300));
    add("string of 3,900", String, true, set('d', 3900));
    add("string of 5,000", String, false, set('f', 5000));
    add("string of 20,000", String, false, set('g', 20_000));
    add("string of 100,000", String, false, set('h', 100_000));
    add("string of 300,000", String, false, set('i', 300_000));
    let mut appended = set('j', 30);
    appended.push(words(&format!("APPEND @ {}", pattern('k', 100))));
    add("string appended to", String, false, appended);
    add("sparse counter", String, false, {
        with_items("PFADD", (0..20).map(|number| format!("s{number}")))
    });
    add("dense counter", String, false, {
        with_items("PFADD", (0..3000).map(|number| format!("d{number}")))
    });

    add("hash of 1", Hash, true, hash('l', 1, 5));
    add("hash of 20", Hash, false, hash('m', 20, 30));
    add("hash of 120", Hash, false, hash('n', 120, 60));
    add("hash of integers", Hash, false, {
        with_items(
            "HSET",
            (0..30).map(|number| format!("m{number} {}", number * 1000)),
        )
    });
    add("hash of 200", Hash, true, hash('o', 200, 40));
    add("hash of large values", Hash, false, hash('p', 64, 5000));
    add(
        "hash of one large value",
        Hash,
        false,
        hash('q', 1, 100_000),
    );

    add("list of 1", List, true, list('r', 1, 5));
    add("list of integers", List, false, {
        with_items("RPUSH", (0..300).map(|number| (1000 + number).to_string()))
    });
    add("list of one length", List, false, list('s', 9, 40));
    add("list of 2,000", List, true, list('t', 2000, 10));
    add("list of large items", List, false, list('u', 12, 5000));

    add("set of integers", Set, true, {
        with_items("SADD", (0..100).map(|number| number.to_string()))
    });
    add("set of 4", Set, false, set_of('v', 4));
    add("set of 100", Set, false, set_of('w', 100));
    add("set of 400", Set, true, set_of('x', 400));

    add("sorted set of 1", Sorted, false, sorted('y', 1, 7, 3));
    add("sorted set of 20", Sorted, true, sorted('z', 20, 0, 10));
    add("sorted set of 100", Sorted, false, sorted('A', 100, 50, 50));
    add("sorted set of 300", Sorted, true, sorted('B', 300, 20, 20));
    add(
        "sorted set of long members",
        Sorted,
        false,
        sorted('C', 64, 1, 3000),
    );
    add("positions", Sorted, false, {
        let place = |n| format!("{}.5 {} m{n}", n % 90, (n * 7) % 80);
        with_items("GEOADD", (0..40).map(place))
    });
    add("many positions", Sorted, false, {
        let place = |n| format!("{}.25 {} m{n}", n % 95, (n * 3) % 70);
        with_items("GEOADD", (0..200).map(place))
    });

    add("stream of nothing", Stream, false, {
        vec![words("XGROUP CREATE @ g 0 MKSTREAM")]
    });
    add("stream of 5", Stream, false, stream('J', 5));
    add("stream of 250", Stream, true, stream('K', 250));
    add("stream of long entries", Stream, false, {
        (1..40)
            .map(|number| words(&format!("XADD @ {number}-1 f {}", pattern('L', 1500))))
            .collect()
    });

    add("feed of nothing", Feed, false, feed('D', 0));
    add("feed of 10", Feed, true, feed('E', 10));
    add("feed of 1,500", Feed, true, feed('F', 1500));
    add("feed with a tally", Feed, false, tallied_feed());
    add("queue of 400", Feed, false, {
        let mut commands = feed('G', 400);
        commands[0] = words("FEED.CREATE @ SIZE 8 ATTRS 4:3:1 ORDER QUEUE");
        commands
    });
    add("feed of 700 with an index", Feed, false, {
        let mut commands = feed('I', 700);
        commands[0] = words("FEED.CREATE @ SIZE 8 ATTRS 4:3:1 INDEX");
        commands
    });
    add("sorted feed of 900", Feed, false, {
        let mut commands = feed('H', 900);
        commands[0] = words("FEED.CREATE @ SIZE 8 ATTRS 4:3:1 ORDER SORTED TYPE TEXT");
        commands[1][2] = b"*".to_vec();
        commands
    });

    let living = ["string of 5,000", "hash of 200", "sorted set of 20"];
    let dead = [
        "integer",
        "string of 20,000",
        "hash of 20",
        "hash of 200",
        "list of 2,000",
        "set of 400",
        "sorted set of 300",
        "feed of 1,500",
    ];
    let find = |name| {
        all.iter()
            .find(|state: &&State| state.name == name)
            .cloned()
    };
    let expiring = living.map(|name| (name, 1_000_000)).into_iter();
    let expired = dead.map(|name| (name, -1000));
    let more: Vec<State> = expiring
        .chain(expired)
        .filter_map(|(name, expires)| {
            let state = find(name)?;
            let family = if expires < 0 { Absent } else { state.family };
            let prefix = if expires < 0 { "expired" } else { "expiring" };
            Some(State {
                name: format!("{prefix} {name}").leak(),
                family,
                is_usual: name == "hash of 200",
                expires: Some(expires),
                ..state
            })
        })
        .collect();
    all.extend(more);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = states().iter().map(|state| state.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count > 40, "only {count}");
    }

    #[test]
    fn patterns_identify_the_value_and_offset_of_bytes() {
        assert_eq!(pattern('x', 20), "x000000.x000001.x000");
    }
}
