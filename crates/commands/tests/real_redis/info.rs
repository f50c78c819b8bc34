//! Tests that INFO has the same fields as a real server, with values in the same format.

use std::collections::BTreeMap;

use undercroft_commands::reply::Tree;

use crate::host::run;
use crate::support::RealServer;

/// Redis' fields that Undercroft does not have, each with the reason.
const LEFT_OUT: &[(&str, &str)] = &[("gcc_version", "it is not built by gcc")];

/// Undercroft's fields that Redis does not have.
const OURS: &[&str] = &[
    // Redis 7.2 has these fields.
    "acl_access_denied_auth",
    "acl_access_denied_channel",
    "acl_access_denied_cmd",
    "acl_access_denied_key",
    // Redis 8.6 has this field.
    "acl_access_denied_tls_cert",
    "journal_durability",
    "mem_lazyfree_pending",
    "store",
    "store_capacity",
    "store_free",
    "store_shards",
    "threads",
    "undercroft_version",
    "used_memory_undo_logs",
    "used_memory_waiting",
];

/// Returns whether the name of a field depends on the commands that have run.
fn is_counted(name: &str) -> bool {
    let before = ["cmdstat_", "errorstat_", "latency_percentiles_", "db"];
    before.iter().any(|before| name.starts_with(before))
}

/// Parses the output of INFO into section names, each with its fields and their values.
fn sections(text: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut sections: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("# ") {
            sections.push((title.to_owned(), BTreeMap::new()));
            continue;
        }
        let (name, value) = line.split_once(':').expect("a field");
        let section = sections.last_mut().expect("a title comes first");
        if !is_counted(name) {
            assert!(
                section.1.insert(name.into(), value.into()).is_none(),
                "{name} twice"
            );
        }
    }
    sections
}

fn text(reply: Tree) -> String {
    match reply {
        Tree::Bulk(text) => String::from_utf8(text).expect("text"),
        other => panic!("no text: {other:?}"),
    }
}

/// The fields that contain hexadecimal IDs, which can happen to consist only of decimal digits.
const IDS: &[&str] = &[
    "redis_build_id",
    "run_id",
    "master_replid",
    "master_replid2",
];

/// Returns whether a value is a placeholder, which a freshly started server reports.
fn is_unknown(value: &str) -> bool {
    value.parse::<f64>().is_ok_and(|number| !number.is_finite())
}

/// Returns the format of a value: a number with its count of decimals, a percentage, or a word.
fn form(value: &str) -> String {
    let number = value.strip_suffix('%').unwrap_or(value);
    let unit = if number.len() < value.len() { "%" } else { "" };
    match (number.parse::<f64>(), number.split_once('.')) {
        (Ok(_), Some((_, digits))) => format!("number with {} digits{unit}", digits.len()),
        (Ok(_), None) => format!("number{unit}"),
        (Err(_), _) => "word".to_owned(),
    }
}

#[test]
fn fields_equal_those_of_redis() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    for which in [
        "",
        "default",
        "all",
        "everything",
        "cpu all",
        "cpu default",
        "CPU nosuch",
        "commandSTATS",
    ] {
        let line = format!("INFO {which}");
        let theirs = sections(&text(client.words(line.trim())));
        let ours = sections(&text(run(line.trim())));
        let titles = |sections: &[(String, _)]| -> Vec<String> {
            sections.iter().map(|(title, _)| title.clone()).collect()
        };
        assert_eq!(titles(&ours), titles(&theirs), "{line}");
        let mut compared = 0;
        for ((title, ours), (_, theirs)) in ours.iter().zip(&theirs) {
            for (name, value) in theirs {
                if let Some((_, reason)) = LEFT_OUT.iter().find(|(other, _)| other == name) {
                    assert!(!ours.contains_key(name), "{name} exists, though {reason}");
                    continue;
                }
                let own = ours.get(name);
                let own = own.unwrap_or_else(|| panic!("{title} has no {name}"));
                if IDS.contains(&name.as_str()) {
                    assert!(
                        own.bytes().all(|byte| byte.is_ascii_hexdigit()),
                        "{name}: {own}"
                    );
                } else if !value.is_empty() && !own.is_empty() && !is_unknown(value) {
                    assert_eq!(form(own), form(value), "{name}: {own} and {value}");
                }
                compared += 1;
            }
            for name in ours.keys() {
                assert!(
                    theirs.contains_key(name) || OURS.contains(&name.as_str()),
                    "{title} has {name}"
                );
            }
        }
        if which == "everything" {
            assert!(compared > 150, "only {compared}");
        }
    }
}

#[test]
fn empty_store_is_not_reported_as_fragmented() {
    let sections = sections(&text(run("INFO memory")));
    let ratio: f64 = sections[0].1["mem_fragmentation_ratio"]
        .parse()
        .expect("a number");
    assert!((1.0..2.0).contains(&ratio), "{ratio}");
}
