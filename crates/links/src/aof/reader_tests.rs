//! Tests of reading append-only files that the tests assemble.

use super::*;
use crate::rdb::Event;

/// Records commands and keys as text. Commands between MULTI and EXEC are recorded by EXEC.
#[derive(Default)]
struct Record {
    done: Vec<String>,
    queue: Option<Vec<String>>,
}

impl Replay for Record {
    fn snapshot<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<(), LoadError> {
        while let Some(event) = reader.next_event()? {
            if let Event::Key(key) = event {
                self.done.push(format!("key {}", key.key.escape_ascii()));
            }
        }
        Ok(())
    }

    fn command(&mut self, words: &[&[u8]], at: u64) -> Result<(), String> {
        let words: Vec<String> = words
            .iter()
            .map(|word| word.escape_ascii().to_string())
            .collect();
        let text = format!("{at}: {}", words.join(" "));
        match (&words[0][..], &mut self.queue) {
            ("MULTI", queue) => *queue = Some(Vec::new()),
            ("EXEC", queue) => self.done.extend(queue.take().ok_or("EXEC without MULTI")?),
            ("FAIL", _) => return Err("FAIL: ERR failed".to_owned()),
            (_, Some(queue)) => queue.push(text),
            (_, None) => self.done.push(text),
        }
        Ok(())
    }

    fn is_in_transaction(&self) -> bool {
        self.queue.is_some()
    }

    fn discard(&mut self) {
        self.queue = None;
    }
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
    }
    out
}

fn read(bytes: &[u8]) -> (Vec<String>, Result<Tail, String>) {
    let mut record = Record::default();
    let tail = read_aof(bytes, &mut record, &mut |_| true);
    (record.done, tail.map_err(|error| error.to_string()))
}

#[test]
fn commands_follow_an_optional_rdb_file() {
    let commands = [
        command(&["SET", "a", "1"]),
        b"#TS:1700000000\r\n".to_vec(),
        command(&["DEL", ""]),
    ]
    .concat();
    let expected = |start: usize| {
        let second = start + command(&["SET", "a", "1"]).len() + 16;
        // An annotation belongs to the command after it.
        [
            format!("{start}: SET a 1"),
            format!("{}: DEL ", second - 16),
        ]
    };
    let (done, tail) = read(&commands);
    assert_eq!((&done[..], tail), (&expected(0)[..], Ok(Tail::Whole)));
    let snapshot = b"REDIS0009\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";
    let (done, tail) = read(&[&snapshot[..], &commands].concat());
    assert_eq!(done[0], "key k");
    assert_eq!(
        (&done[1..], tail),
        (&expected(snapshot.len())[..], Ok(Tail::Whole))
    );
    assert_eq!(read(snapshot).1, Ok(Tail::Whole));
    assert_eq!(read(b""), (Vec::new(), Ok(Tail::Whole)));
}

#[test]
fn truncated_tail_ends_at_the_last_complete_command_or_transaction() {
    let parts = [
        command(&["SET", "a", "1"]),
        command(&["MULTI"]),
        command(&["SET", "b", "2"]),
        command(&["EXEC"]),
        command(&["SET", "c", "3"]),
    ];
    let bytes = parts.concat();
    let ends: Vec<usize> = parts
        .iter()
        .scan(0, |end, part| {
            *end += part.len();
            Some(*end)
        })
        .collect();
    for length in 0..=bytes.len() {
        let (done, tail) = read(&bytes[..length]);
        let (commands, whole) = match length {
            length if length < ends[0] => (0, 0),
            length if length < ends[3] => (1, ends[0]),
            length if length < ends[4] => (2, ends[3]),
            _ => (3, ends[4]),
        };
        assert_eq!(done.len(), commands, "{length}");
        let expected = match length - whole {
            0 => Tail::Whole,
            bytes => Tail::Truncated {
                at: whole as u64,
                bytes: bytes as u64,
            },
        };
        assert_eq!(tail, Ok(expected), "{length}");
    }
}

#[test]
fn damage_is_refused_with_its_offset() {
    let good = command(&["SET", "a", "1"]);
    for (bad, offset, expected) in [
        (&b"SET a 1\r\n"[..], 0, "'*' and the number"),
        (b"*0\r\n", 0, "a number of words from 1"),
        (b"*-1\r\n", 0, "a number of words from 1"),
        (b"*9999999999\r\n", 0, "a number of words from 1"),
        (b"*1\r\n:3\r\n", 4, "'$' and the length"),
        (b"*1\r\n$-1\r\n", 4, "the length of a word from 0"),
        (b"*1\r\n$99999999999\r\n", 4, "the length of a word from 0"),
        (b"*1\r\n$1\r\nabc", 9, "the end of a word"),
        (b"*1\n", 0, "a line that ends with CR LF"),
        (&[b'*'; 300], 0, "a line that ends with CR LF"),
    ] {
        let bytes = [&good[..], bad].concat();
        let (done, tail) = read(&bytes);
        let why = tail.expect_err("damaged");
        let at = format!(
            "damaged at byte {}: expected {expected}",
            good.len() + offset
        );
        assert!(why.starts_with(&at), "{why}");
        assert_eq!(done.len(), 1);
    }
    let (_, tail) = read(&[&good[..], &command(&["FAIL"])].concat());
    let why = tail.expect_err("the command fails");
    assert_eq!(why, format!("at byte {}: FAIL: ERR failed", good.len()));
    assert!(read(b"RUBBISH!!").1.is_err());
}
