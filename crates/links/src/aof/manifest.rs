//! The manifest of an append-only folder, which lists the files in the order of their commands.

use std::fmt;

/// The files of an append-only folder, in the order in which to load them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The name of the base, if there is one.
    pub base: Option<String>,
    /// The names of the increments, in ascending order.
    pub increments: Vec<String>,
}

/// The reason why a manifest cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The number of the line, counted from 1.
    pub line: usize,
    /// A description of the expected line.
    pub expected: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "damaged in line {}: expected {}",
            self.line, self.expected
        )
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// Parses the text of a manifest.
    ///
    /// # Errors
    /// Returns an error if a line is malformed, if there are two bases, if increments are not in
    /// ascending order, or if a file is outside the folder.
    pub fn parse(text: &str) -> Result<Manifest, ManifestError> {
        let (mut manifest, mut last) = (Manifest::default(), 0);
        for (line, text) in (1..).zip(text.lines()) {
            let wrong = |expected| ManifestError { line, expected };
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let words: Vec<&str> = text.split_ascii_whitespace().collect();
            let (mut name, mut number, mut kind) = (None, None, None);
            for pair in words.chunks(2) {
                match *pair {
                    ["file", value] => name = Some(value.trim_matches('"')),
                    ["seq", value] => number = value.parse::<u64>().ok(),
                    ["type", value] => kind = Some(value),
                    // Redis ignores names that it does not know.
                    [_, _] => {}
                    _ => return Err(wrong("a value after each name")),
                }
            }
            let (Some(name), Some(number), Some(kind)) = (name, number, kind) else {
                return Err(wrong("file NAME seq NUMBER type TYPE"));
            };
            if name.contains('/') || name.is_empty() {
                return Err(wrong("the name of a file in the same folder"));
            }
            match kind {
                "b" if manifest.base.is_some() => return Err(wrong("a single base")),
                "b" => manifest.base = Some(name.to_owned()),
                "i" if number <= last => return Err(wrong("increments in ascending order")),
                "i" => {
                    last = number;
                    manifest.increments.push(name.to_owned());
                }
                // Files that a rewrite has replaced.
                "h" => {}
                _ => return Err(wrong("the type b, i or h")),
            }
        }
        if manifest == Manifest::default() {
            return Err(ManifestError {
                line: 1,
                expected: "a base or an increment",
            });
        }
        Ok(manifest)
    }

    /// Returns the names of all files, in the order in which to load them.
    pub fn files(&self) -> Vec<&str> {
        let base = self.base.iter();
        base.chain(&self.increments).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_lists_the_files_in_order() {
        let text = "file appendonly.aof.2.base.rdb seq 2 type b\n\
                    file appendonly.aof.1.incr.aof seq 1 type h\n# comment\n\n\
                    file appendonly.aof.4.incr.aof seq 4 type i startoffset 17\n\
                    file \"appendonly.aof.5.incr.aof\" seq 5 type i\n";
        let manifest = Manifest::parse(text).expect("sound");
        assert_eq!(
            manifest.files(),
            [
                "appendonly.aof.2.base.rdb",
                "appendonly.aof.4.incr.aof",
                "appendonly.aof.5.incr.aof"
            ]
        );
    }

    #[test]
    fn malformed_manifests_are_refused_with_their_line() {
        for (text, line, expected) in [
            ("", 1, "a base or an increment"),
            ("file a seq 1 type h\n", 1, "a base or an increment"),
            ("file a seq 1 type b\nfile", 2, "a value after each name"),
            ("file a seq x type b", 1, "file NAME seq NUMBER type TYPE"),
            ("file a seq 1", 1, "file NAME seq NUMBER type TYPE"),
            ("file a seq 1 type x", 1, "the type b, i or h"),
            (
                "file ../a seq 1 type b",
                1,
                "the name of a file in the same folder",
            ),
            (
                "file a seq 1 type b\nfile b seq 2 type b",
                2,
                "a single base",
            ),
            (
                "file a seq 2 type i\nfile b seq 2 type i",
                2,
                "increments in ascending order",
            ),
        ] {
            let error = Manifest::parse(text).expect_err("malformed");
            assert_eq!((error.line, error.expected), (line, expected), "{text}");
        }
    }
}
