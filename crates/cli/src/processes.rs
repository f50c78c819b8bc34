//! What the system tells about the processes that use a store.

use std::fs;

/// The name of a process, as `ps` shows it: its command line, or its short name. None where it cannot be seen, for
/// example from another pid namespace.
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
    const LONGEST: usize = 60;
    let text = words.join(" ");
    if text.chars().count() <= LONGEST {
        return Some(text);
    }
    let start: String = text.chars().take(LONGEST - 3).collect();
    Some(format!("{start}..."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_own_name() {
        let name = name_of(std::process::id()).expect("this process lives");
        assert!(name.contains("undercroft"), "{name}");
        assert_eq!(name_of(u32::MAX), None);
    }
}
