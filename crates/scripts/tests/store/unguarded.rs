//! Tests scripts that only read the globals and scripts that try to change them.

use undercroft_commands::reply::Tree;

use crate::host::{Client, Embedded};

fn text(reply: Tree) -> String {
    match reply {
        Tree::Bulk(bytes) => String::from_utf8(bytes).expect("text"),
        other => panic!("a text, and not {other:?}"),
    }
}

fn eval(client: &mut Client<'_>, script: &str, keys: usize, texts: &[&str]) -> Tree {
    let count = keys.to_string();
    client.run(&[&["EVAL", script, &count], texts].concat())
}

#[test]
fn each_run_sees_exactly_its_keys_and_arguments() {
    const SHOWN: &str = "local all = '' \
        for index = 1, 300 do all = all .. (KEYS[index] or '-') .. (ARGV[index] or '.') end \
        return #KEYS .. ' ' .. #ARGV .. ' ' .. all";
    let embedded = Embedded::new();
    let mut client = embedded.client();
    let names: Vec<String> = (0..300).map(|number| format!("name:{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (keys, all) in [
        (1, 3),
        (0, 0),
        (2, 2),
        (250, 300),
        (0, 1),
        (60, 70),
        (1, 1),
        (3, 200),
    ] {
        let mut expected = format!("{keys} {} ", all - keys);
        let (first, rest) = names[..all].split_at(keys);
        for index in 0..300 {
            expected += first.get(index).unwrap_or(&"-");
            expected += rest.get(index).unwrap_or(&".");
        }
        assert_eq!(
            text(eval(&mut client, SHOWN, keys, &names[..all])),
            expected
        );
        // Changes that a script makes to its tables must not affect later scripts.
        let changed = "table.insert(KEYS, 'x') ARGV[2] = 'y' KEYS[1] = 'z' return KEYS[#KEYS]";
        eval(&mut client, changed, keys, &names[..all]);
    }
}

#[test]
fn scripts_cannot_change_shared_globals() {
    const READ_ONLY: &str = "Attempt to modify a readonly table";
    let embedded = Embedded::new();
    let mut client = embedded.client();
    let reads =
        "return redis.call('echo', type(redis.sha1hex) .. tostring(string.x) .. tostring(redis.x))";
    for script in [
        "redis.x = 1",
        "string.x = 1",
        "local all = redis all.x = 1",
        "local function deep() return function() redis.call = nil end end deep()()",
        "(function(library) library.x = 1 end)(string)",
        "x = 1",
        "_G.x = 1",
        "rawset(redis, 'x', 1)",
        "table.insert(redis, 1)",
        "setmetatable(string, {})",
        "pcall = nil",
        "loadstring('redis.x = 1')()",
        "getmetatable('').x = 1",
    ] {
        let Tree::Error(error) = eval(&mut client, script, 0, &[]) else {
            panic!("{script} is refused");
        };
        assert!(error.contains(READ_ONLY), "{script}: {error}");
        assert_eq!(text(eval(&mut client, reads, 0, &[])), "functionnilnil");
    }
    for (script, shown) in [
        ("return tostring(next(redis) ~= nil)", "true"),
        (
            "local count = 0 for _ in pairs(math) do count = count + 1 end return tostring(count > 20)",
            "true",
        ),
        (
            "return type(cjson) .. type(cmsgpack) .. type(struct) .. type(bit)",
            "tabletabletabletable",
        ),
        ("return ('x'):rep(3) .. string.rep('y', 2)", "xxxyy"),
        ("return select(2, pcall(error, 'told'))", "told"),
    ] {
        assert_eq!(text(eval(&mut client, script, 0, &[])), shown, "{script}");
    }
    let Tree::Error(error) = eval(&mut client, "return nothing", 0, &[]) else {
        panic!("there is no such global");
    };
    assert!(
        error.contains("nonexistent global variable 'nothing'"),
        "{error}"
    );
}
