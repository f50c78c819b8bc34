//! The versions of the protocol.

/// The version of the protocol a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, until HELLO 3.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

impl Protocol {
    /// As HELLO and CLIENT LIST number it.
    pub const fn version(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}
