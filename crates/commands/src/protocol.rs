//! The versions of the protocol.

/// The protocol version that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, the default until HELLO 3.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

impl Protocol {
    /// Returns the version number in HELLO and CLIENT LIST.
    pub const fn version(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}
