//! Describes weaknesses.

/// How dangerous a weakness is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// A protection that is not used, or a habit that makes other weaknesses worse.
    Low,
    /// A weakness that needs another one, or a local attacker.
    Medium,
    /// A weakness that gives access to data or to the machine.
    High,
}

impl Severity {
    /// Returns the name that the report shows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
        }
    }
}

/// A weakness.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// The weakness, with the file, parameter or user that has it.
    pub(super) what: String,
    /// The danger of the weakness.
    pub(super) why: &'static str,
    /// The remedy.
    pub(super) remedy: String,
}

/// Collects findings.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn add(
        &mut self,
        severity: Severity,
        what: impl Into<String>,
        why: &'static str,
        remedy: impl Into<String>,
    ) {
        self.0.push(Finding {
            severity,
            what: what.into(),
            why,
            remedy: remedy.into(),
        });
    }
}
