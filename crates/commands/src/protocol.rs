//! Defines the protocol versions.

/// The protocol version that a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, which is in effect until the client sends HELLO 3.
    #[default]
    Resp2,
    /// RESP3, which is in effect after the client has sent HELLO 3.
    Resp3,
}

impl Protocol {
    /// Returns the version number that HELLO and CLIENT LIST report.
    pub const fn version(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}
