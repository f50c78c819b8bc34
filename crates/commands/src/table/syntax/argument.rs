//! Command arguments, as COMMAND DOCS describes them.

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string of bytes.
    String,
    /// An integer.
    Integer,
    /// A floating-point number.
    Double,
    /// A key.
    Key,
    /// A glob-style pattern.
    Pattern,
    /// A Unix time.
    UnixTime,
    /// A token without a value.
    PureToken,
    /// One of several arguments.
    OneOf,
    /// A sequence of arguments.
    Block,
}

impl Kind {
    /// Returns the name that COMMAND DOCS prints.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Double => "double",
            Kind::Key => "key",
            Kind::Pattern => "pattern",
            Kind::UnixTime => "unix-time",
            Kind::PureToken => "pure-token",
            Kind::OneOf => "oneof",
            Kind::Block => "block",
        }
    }
}

/// One argument of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// A descriptive name, which does not appear in calls.
    pub name: String,
    /// The type of the argument.
    pub kind: Kind,
    /// The token that precedes the argument, or that is the argument.
    pub token: Option<&'static str>,
    /// The index of the key specification that covers this argument, if any.
    pub key_spec: Option<usize>,
    /// Whether the argument may be omitted.
    pub optional: bool,
    /// Whether the argument may be repeated.
    pub multiple: bool,
    /// Whether each repetition includes the token.
    pub multiple_token: bool,
    /// The members of a block, or the alternatives of a choice.
    pub parts: Vec<Argument>,
}
