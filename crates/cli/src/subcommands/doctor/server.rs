//! Checks the settings and the users of a server.

use std::fs;

use super::findings::{Findings, Severity};
use super::guesses::guess;
use super::settings::{Described, is_loopback};

/// The shortest password that is not reported, in characters.
const PASSWORD_MIN: usize = 16;
/// The time before the end of a certificate from which it is reported, in seconds.
const SOON: i64 = 30 * 86_400;

/// Checks a server.
pub(super) fn check(described: &Described, findings: &mut Findings) {
    let is_remote = check_network(described, findings);
    check_users(described, is_remote, findings);
    check_permissions(described, findings);
    check_encryption(described, findings);
    check_process(described, findings);
}

/// Checks who can connect. Returns whether other machines can.
fn check_network(described: &Described, findings: &mut Findings) -> bool {
    let mut open = described
        .value("bind")
        .split_whitespace()
        .filter(|address| !is_loopback(address.trim_start_matches('-')));
    let Some(address) = open.next() else {
        return false;
    };
    let (plain, encrypted) = (described.value("port"), described.value("tls-port"));
    if plain == "0" && encrypted == "0" {
        return false;
    }
    if plain != "0" {
        findings.add(
            Severity::High,
            format!("port {plain} is open to other machines at {address} without encryption"),
            "passwords and data cross the network in clear text",
            "set 'port 0' and tls-port, or bind 127.0.0.1",
        );
    }
    if described.value("protected-mode") == "no" {
        findings.add(
            Severity::Medium,
            "protected-mode is no",
            "other machines are not refused while the default user needs no password",
            "set 'protected-mode yes'",
        );
    }
    true
}

fn check_users(described: &Described, is_remote: bool, findings: &mut Findings) {
    let is_protected = described.value("protected-mode") == "yes";
    for line in &described.users {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, name, rules @ ..] = &words[..] else {
            continue;
        };
        let has = |wanted: &[&str]| rules.iter().any(|rule| wanted.contains(rule));
        if !has(&["on"]) {
            continue;
        }
        let is_broad = has(&["~*", "allkeys"]) && has(&["+@all", "allcommands"]);
        if has(&["nopass"]) {
            let severity = match is_remote && !is_protected {
                true => Severity::High,
                false => Severity::Medium,
            };
            let rights = if is_broad {
                " and may do everything"
            } else {
                ""
            };
            findings.add(
                severity,
                format!("user {name} needs no password{rights}"),
                "every process that can connect has the rights of the user",
                format!(
                    "ACL SETUSER {name} resetpass '>PASSWORD', or 'off' if the user is not used"
                ),
            );
        } else if is_broad && *name != "default" {
            findings.add(
                Severity::Medium,
                format!("user {name} may run every command on every key"),
                "a stolen password gives control of the server, its users and its data",
                format!("ACL SETUSER {name} -@dangerous, and only the keys that it needs"),
            );
        } else if has(&["~*", "allkeys"]) && has(&["+@dangerous", "+@admin"]) {
            findings.add(
                Severity::Medium,
                format!("user {name} may run dangerous commands on every key"),
                "FLUSHALL, CONFIG, KEYS and DEBUG can remove data or stop the service",
                format!("ACL SETUSER {name} -@dangerous, and single commands instead"),
            );
        }
        for password in rules.iter().filter_map(|rule| rule.strip_prefix('>')) {
            check_password(&format!("a password of user {name}"), password, findings);
        }
        for hash in rules.iter().filter_map(|rule| rule.strip_prefix('#')) {
            if let Some(password) = guess(name, hash) {
                findings.add(
                    Severity::High,
                    format!("user {name} has the password '{password}'"),
                    "it is one of the first that an attacker tries",
                    format!("ACL SETUSER {name} '<{password}' '>PASSWORD', one of ACL GENPASS"),
                );
            }
        }
    }
    for name in ["requirepass", "masterauth"] {
        let value = described.value(name);
        if !value.is_empty() && described.field("process_id").is_some() {
            check_password(name, value, findings);
        }
    }
}

fn check_password(what: &str, password: &str, findings: &mut Findings) {
    let length = password.chars().count();
    if length < PASSWORD_MIN {
        findings.add(
            Severity::Medium,
            format!("{what} has only {length} characters"),
            "passwords are hashed without a delay, so a short one can be guessed",
            "use a password of ACL GENPASS",
        );
    }
}

fn check_permissions(described: &Described, findings: &mut Findings) {
    for (name, why) in [
        (
            "enable-debug-command",
            "clients with DEBUG can stop a thread of the server for any time",
        ),
        (
            "enable-protected-configs",
            "clients with CONFIG SET can choose where the server writes files",
        ),
    ] {
        let severity = match described.value(name) {
            "yes" => Severity::Medium,
            "local" => Severity::Low,
            _ => continue,
        };
        findings.add(
            severity,
            format!("{name} is {}", described.value(name)),
            why,
            format!("set '{name} no'"),
        );
    }
    for (name, bad, why, remedy) in [
        (
            "sandbox",
            "no",
            "a fault in the server gives access to all files of its user",
            "set 'sandbox auto' or 'sandbox yes'",
        ),
        (
            "audit-log",
            "",
            "no record shows who logged in or changed users and settings",
            "set audit-log to a file in a folder that only the server's user can read",
        ),
        (
            "maxmemory",
            "0",
            "clients can fill the memory of the machine",
            "set maxmemory to less than the memory of the machine",
        ),
    ] {
        if described.value(name) == bad {
            let shown = if bad.is_empty() { "not set" } else { bad };
            findings.add(Severity::Low, format!("{name} is {shown}"), why, remedy);
        }
    }
    if described.field("sandbox") == Some("none") && described.value("sandbox") != "no" {
        findings.add(
            Severity::Low,
            "the server runs without a sandbox, because the kernel has no Landlock",
            "a fault in the server gives access to all files of its user",
            "enable Landlock in the kernel (lsm=landlock,...)",
        );
    }
}

fn check_encryption(described: &Described, findings: &mut Findings) {
    let Some(certificate) = &described.certificate else {
        return;
    };
    match certificate {
        Err(reason) => findings.add(
            Severity::High,
            format!("the certificate cannot be used: {reason}"),
            "a server with this configuration does not start",
            "correct the file that the error names",
        ),
        Ok(seconds) if *seconds < 0 => findings.add(
            Severity::High,
            "the certificate has expired",
            "clients that check it refuse to connect",
            "replace the files of tls-cert-file and tls-key-file, and send SIGHUP to the server",
        ),
        Ok(seconds) if *seconds < SOON => findings.add(
            Severity::Medium,
            format!("the certificate expires in {} days", seconds / 86_400),
            "clients that check it will refuse to connect",
            "replace the files of tls-cert-file and tls-key-file, and send SIGHUP to the server",
        ),
        Ok(_) => {}
    }
    if described.value("tls-auth-clients") == "no" {
        findings.add(
            Severity::Low,
            "tls-auth-clients is no",
            "a password alone is enough to connect from any machine",
            "give clients certificates, and set 'tls-auth-clients yes'",
        );
    }
    let protocols = described.value("tls-protocols").to_ascii_lowercase();
    if protocols.split_whitespace().any(|word| word == "tlsv1.2") && !protocols.contains("tlsv1.3")
    {
        findings.add(
            Severity::Medium,
            "tls-protocols allows only TLSv1.2",
            "TLS 1.3 encrypts certificates and removes outdated ciphers",
            "add TLSv1.3 to tls-protocols",
        );
    }
}

/// Checks the process of a running server, if it is on this machine.
fn check_process(described: &Described, findings: &mut Findings) {
    let Some(process) = described.field("process_id").filter(|_| described.is_local) else {
        return;
    };
    let read =
        |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    // In another pid namespace, the number is that of another process.
    if read("comm").trim() != "undercroft" {
        return;
    }
    let status = read("status");
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    if user.and_then(|line| line.split_whitespace().nth(1)) == Some("0") {
        findings.add(
            Severity::High,
            format!("the server (process {process}) runs as root"),
            "a fault in the server gives control of the machine",
            "run it as a user of its own, as the unit in packaging/systemd does",
        );
    }
    let limits = read("limits");
    let core = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max core file size"));
    if core.is_some_and(|line| line.split_whitespace().next() != Some("0")) {
        findings.add(
            Severity::Low,
            format!("the server (process {process}) may write core dumps"),
            "a core dump contains passwords, keys and data",
            "set LimitCORE=0 in the unit, or run 'ulimit -c 0' first",
        );
    }
}
