//! Implements `undercroft doctor`, which reports weaknesses of a store's and a server's protection.
//!
//! - `files`: checks the owners and modes of files.
//! - `findings`: describes weaknesses.
//! - `guesses`: guesses passwords of which only the hash is known.
//! - `server`: checks the settings and the users of a server.
//! - `settings`: collects these from a running server, or from a configuration file.

mod files;
mod findings;
mod guesses;
mod server;
mod settings;

use serde_json::json;

use self::findings::{Finding, Findings, Severity};
use crate::arguments::doctor::Doctor;
use crate::failure::{FAILURE, Outcome, SUCCESS};
use crate::out::say;
use crate::store::{self, Access};

pub(crate) fn run(arguments: &Doctor) -> Outcome {
    let mut findings = Findings::default();
    let is_other = arguments.server.is_some() || arguments.config.is_some();
    // Without further arguments, the default store is meant.
    let store = match arguments.store.given() {
        None if is_other => None,
        _ => Some(store::open(arguments.store.name(), Access::Read)?),
    };
    if let Some(store) = &store {
        files::check_store(store, &mut findings);
    }
    let described = match (&arguments.server, &arguments.config) {
        (Some(url), _) => Some(settings::of_server(url)?),
        (None, Some(path)) => Some(settings::of_file(path)?),
        (None, None) => None,
    };
    if let Some(described) = &described {
        files::check_named(described, &mut findings);
        server::check(described, &mut findings);
    }
    let mut findings = findings.0;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    match arguments.json {
        true => print_json(&findings),
        false => print(&findings),
    }
    let is_high = findings
        .iter()
        .any(|finding| finding.severity == Severity::High);
    Ok(if is_high { FAILURE } else { SUCCESS })
}

fn print(findings: &[Finding]) {
    for finding in findings {
        say!("{}: {}", finding.severity.name(), finding.what);
        say!("    why: {}", finding.why);
        say!("    remedy: {}", finding.remedy);
    }
    let count = |severity| {
        let found = findings
            .iter()
            .filter(|finding| finding.severity == severity);
        found.count()
    };
    say!(
        "{} high, {} medium, {} low",
        count(Severity::High),
        count(Severity::Medium),
        count(Severity::Low)
    );
}

fn print_json(findings: &[Finding]) {
    let findings: Vec<_> = findings
        .iter()
        .map(|finding| {
            json!({
                "severity": finding.severity.name(),
                "what": finding.what,
                "why": finding.why,
                "remedy": finding.remedy,
            })
        })
        .collect();
    say!("{}", json!({ "findings": findings }));
}
