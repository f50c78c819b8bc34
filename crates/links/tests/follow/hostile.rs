//! Sources that send something else than a data set and changes.

use undercroft_links::follow::FollowError;

use crate::played::{ID, Played, Script, command, data_set, full};

/// Follows a source that sends these bytes, and returns the error of the connection.
fn error_of(played: &Played, sent: &[u8]) -> String {
    let (ended, progress) = played.follow(&Script {
        sent,
        connections: 1,
    });
    match ended {
        Ok(()) => progress.error.unwrap_or_default(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sources_that_speak_another_protocol_change_nothing() {
    let played = Played::new();
    played.store.set(0, b"old", b"value").expect("room");
    let begin = format!("+FULLRESYNC {ID} 0\r\n");
    let long = vec![b'x'; 200 << 10];
    let rows: Vec<(Vec<u8>, &str)> = vec![
        (b"-ERR no\r\n".to_vec(), "refused to replicate: ERR no"),
        (b"+OK\r\n".to_vec(), "expected a replication stream"),
        (b"+FULLRESYNC short 0\r\n".to_vec(), "replication stream"),
        (
            format!("+FULLRESYNC {ID} -3\r\n").into_bytes(),
            "replication stream",
        ),
        (
            format!("+FULLRESYNC {ID} 99999999999999999999\r\n").into_bytes(),
            "stream",
        ),
        (b"+CONTINUE\r\n".to_vec(), "replication stream"),
        (long, "without an end of line"),
        (
            format!("{begin}hello\r\n").into_bytes(),
            "length of a data set",
        ),
        (
            format!("{begin}$-5\r\n").into_bytes(),
            "length of a data set",
        ),
        (
            format!("{begin}$EOF:short\r\n").into_bytes(),
            "length of a data set",
        ),
        (
            format!("{begin}$20\r\nthis is no data set!").into_bytes(),
            "REDIS or VALKEY",
        ),
        (
            format!("{begin}$4000000000000\r\nREDIS0011").into_bytes(),
            "",
        ),
        (
            format!("{begin}-ERR out of memory\r\n").into_bytes(),
            "out of memory",
        ),
    ];
    for (sent, expected) in rows {
        let error = error_of(&played, &sent);
        let shown = String::from_utf8_lossy(&sent[..sent.len().min(80)]).into_owned();
        assert!(
            !error.is_empty() && error.contains(expected),
            "{shown}: {error}"
        );
        assert_eq!(played.get("old").as_deref(), Some("value"), "{shown}");
        assert_eq!(
            played.store.source().expect("a whole store"),
            None,
            "{shown}"
        );
    }
}

#[test]
fn data_set_that_is_cut_anywhere_changes_nothing() {
    let played = Played::new();
    played.store.set(0, b"old", b"value").expect("room");
    let whole = full(7, &[("a", "1"), ("b", "22")], b"");
    for end in 0..whole.len() {
        let error = error_of(&played, &whole[..end]);
        assert!(!error.is_empty(), "cut after {end} bytes");
        assert_eq!(
            played.get("old").as_deref(),
            Some("value"),
            "cut after {end}"
        );
    }
    assert_eq!(
        error_of(&played, &whole),
        "the source closed the connection"
    );
    assert_eq!(played.get("old"), None);
    assert_eq!(played.get("b").as_deref(), Some("22"));
    let source = played
        .store
        .source()
        .expect("a whole store")
        .expect("a source");
    assert_eq!((&source.id[..], source.position.offset), (ID.as_bytes(), 7));
}

#[test]
fn damaged_data_sets_change_nothing() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let played = Played::new();
    played.store.set(0, b"old", b"value").expect("room");
    let whole = data_set(&[("a", "1"), ("b", "22"), ("c", &"3".repeat(300))]);
    for _ in 0..60 {
        let mut data = whole.clone();
        let place = random.usize(..data.len());
        data[place] ^= 1 << random.u8(..8);
        let mut sent = format!("+FULLRESYNC {ID} 0\r\n${}\r\n", data.len()).into_bytes();
        sent.extend(data);
        let error = error_of(&played, &sent);
        assert!(error.contains("data set"), "byte {place}: {error}");
        assert_eq!(played.get("old").as_deref(), Some("value"), "byte {place}");
    }
}

#[test]
fn data_set_of_unknown_length_ends_with_its_mark() {
    let (mark, other) = ("m".repeat(40), "n".repeat(40));
    let data = data_set(&[("a", "1")]);
    for (end, is_right) in [(&mark, true), (&other, false)] {
        let played = Played::new();
        let mut sent = format!("+FULLRESYNC {ID} 0\r\n\n\n$EOF:{mark}\r\n").into_bytes();
        sent.extend(&data);
        sent.extend(end.as_bytes());
        sent.extend(command(&["SET", "b", "2"]));
        let error = error_of(&played, &sent);
        assert_eq!(error.contains("mark"), !is_right, "{error}");
        assert_eq!(played.get("b").is_some(), is_right);
        assert_eq!(played.get("a").is_some(), is_right);
    }
}

#[test]
fn garbage_after_changes_ends_the_connection_after_them() {
    let rows: [&[u8]; 4] = [
        b"*-7\r\n",
        b"*1\r\n$x\r\n",
        b"*99999999999\r\n",
        b"*2\r\n$3\r\nSET\r\n:1\r\n",
    ];
    for garbage in rows {
        let played = Played::new();
        let mut changes = command(&["SELECT", "0"]);
        changes.extend(command(&["SET", "b", "2"]));
        changes.extend(garbage);
        let error = error_of(&played, &full(0, &[("a", "1")], &changes));
        assert!(!error.is_empty());
        assert_eq!(played.get("a").as_deref(), Some("1"));
    }
}

#[test]
fn unknown_commands_end_the_following_with_an_error_that_names_them() {
    for words in [
        &["HEXPIRE", "k", "1"][..],
        &["SELECT", "16"],
        &["SELECT", "x"],
        &["SET", "k"],
    ] {
        let played = Played::new();
        let sent = full(0, &[("a", "1")], &command(words));
        let (ended, _) = played.follow(&Script {
            sent: &sent,
            connections: 1,
        });
        let error = ended.expect_err("an unsupported change");
        assert!(matches!(error, FollowError::Unsupported(_)), "{error}");
        assert!(error.to_string().contains(words[0]), "{error}");
        assert_eq!(played.get("a").as_deref(), Some("1"));
    }
}
