//! The recorded place in the source's stream: it is exactly the one after the last change that the
//! store has, wherever the connection is cut.

use crate::played::{Played, Script, command, full};

/// The place of the first change.
const FIRST: u64 = 1000;

#[test]
fn place_belongs_to_the_changes_wherever_the_stream_is_cut() {
    let commands: Vec<Vec<u8>> = vec![
        command(&["SELECT", "0"]),
        command(&["INCR", "n"]),
        command(&["PING"]),
        command(&["MULTI"]),
        command(&["INCR", "n"]),
        command(&["INCR", "n"]),
        command(&["EXEC"]),
        command(&["SELECT", "3"]),
        command(&["SELECT", "0"]),
        command(&["INCR", "n"]),
    ];
    let changes = commands.concat();
    // The value after each command, and the number of bytes up to its end.
    let mut states = vec![(0, 0)];
    let mut length = 0;
    for (number, command) in commands.iter().enumerate() {
        length += command.len();
        let value = match number {
            0 => 0,
            1..6 => 1,
            6..9 => 3,
            _ => 4,
        };
        states.push((length, value));
    }
    for cut in 0..=changes.len() {
        let played = Played::new();
        let sent = full(FIRST, &[("n", "0")], &changes[..cut]);
        let _ = played.follow(&Script {
            sent: &sent,
            connections: 1,
        });
        let value: u64 = played.get("n").expect("a value").parse().expect("a number");
        let source = played
            .store
            .source()
            .expect("a whole store")
            .expect("a source");
        let place = (source.position.offset - FIRST) as usize;
        let whole = states.iter().rev().find(|(end, _)| *end <= cut);
        let (_, expected) = whole.expect("the beginning");
        assert_eq!(value, *expected as u64, "cut after {cut} bytes");
        // The commands after the place, applied again, must not repeat a change.
        let (_, at_place) = states
            .iter()
            .find(|(end, _)| *end == place)
            .unwrap_or_else(|| panic!("{place} is no end of a command"));
        assert_eq!(
            value, *at_place as u64,
            "place {place}, cut after {cut} bytes"
        );
        let is_amid = (states[4].0..states[7].0).contains(&place);
        assert!(!is_amid, "place {place} is within a transaction");
    }
}
