//! The processes that the crash tests kill.

use std::path::Path;

use undercroft_testkit::scenario::SCENARIOS;
use undercroft_testkit::{state, trace};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["act", scenario, path] => act(scenario, Path::new(path)),
        _ => {
            eprintln!("expected: act SCENARIO PATH, got {arguments:?}");
            std::process::exit(2);
        }
    }
}

/// Makes one scenario's change between two markers.
fn act(scenario: &str, path: &Path) {
    let scenario = SCENARIOS
        .iter()
        .find(|known| known.name == scenario)
        .unwrap_or_else(|| panic!("expected the name of a scenario, got {scenario:?}"));
    trace::trace_me();
    let store = state::open(path).expect("the prepared store");
    // Joins the store, so that the change begins with the first marker.
    store.recover().expect("a whole store");
    trace::marker();
    (scenario.act)(&store);
    trace::marker();
}
