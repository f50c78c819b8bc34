//! Finds information about the processes that use a store.

use std::fs;

use undercroft_engine::User;

/// Returns a human-readable description of a process that uses a store.
pub(crate) fn described(user: &User) -> String {
    let pid = user.pid;
    if !user.here {
        return format!("pid {pid} in another pid namespace");
    }
    match name_of(pid) {
        _ if user.ended => {
            format!("pid {pid} (has ended; a process that it forked is still running)")
        }
        Some(name) => format!("pid {pid} ({name})"),
        None => format!("pid {pid} (gone)"),
    }
}

/// Returns the name of a process: its command line without the directory of the program, or its
/// short name. Returns `None` if the process is not visible, for example because it is in another
/// PID namespace.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<String> = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).escape_debug().to_string())
        .collect();
    if words.is_empty() {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        return Some(name.trim().to_owned());
    }
    Some(cut(&words))
}

/// Shortens a command line to at most 60 characters.
fn cut(words: &[String]) -> String {
    const LONGEST: usize = 60;
    let line = words.join(" ");
    // Omit the directory, which can be longer than the text that distinguishes processes.
    let program = words[0].rfind('/').filter(|_| words[0].starts_with('/'));
    let text = &line[program.map_or(0, |slash| slash + 1)..];
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let start: String = text.chars().take(LONGEST - 3).collect();
    format!("{start}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_this_process_is_found() {
        let name = name_of(std::process::id()).expect("this process lives");
        assert!(name.contains("undercroft"), "{name}");
        assert_eq!(name_of(u32::MAX), None);
    }

    #[test]
    fn long_directory_does_not_hide_the_arguments() {
        let program = format!("/{}/python3", "long/".repeat(20));
        let words = [program, "worker.py".to_owned()];
        assert_eq!(cut(&words), "python3 worker.py");
        let title = ["worker [/srv/app]".to_owned()];
        assert_eq!(cut(&title), title[0]);
        let many = ["a".repeat(50), "b".repeat(50)];
        assert_eq!(cut(&many), format!("{} bbbbbb...", "a".repeat(50)));
    }
}
