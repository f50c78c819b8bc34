//! Defines command arguments in the form in which COMMAND DOCS describes them.

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An arbitrary string.
    String,
    /// An integer.
    Integer,
    /// A floating-point number.
    Double,
    /// A key name.
    Key,
    /// A glob-style pattern.
    Pattern,
    /// A Unix timestamp.
    UnixTime,
    /// A token that is not followed by a value.
    PureToken,
    /// A choice among several arguments.
    OneOf,
    /// A sequence of arguments.
    Block,
}

impl Kind {
    /// Returns the type's name in the output of COMMAND DOCS.
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

/// An argument of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// A descriptive name of the argument, which does not appear in calls.
    pub name: String,
    /// The type of the argument.
    pub kind: Kind,
    /// The token that precedes the argument's value, or that is the entire argument.
    pub token: Option<&'static str>,
    /// The index of the key specification that covers this argument, if any.
    pub key_spec: Option<usize>,
    /// Whether the argument can be omitted.
    pub optional: bool,
    /// Whether the argument can be repeated.
    pub multiple: bool,
    /// Whether the token is repeated along with the value.
    pub multiple_token: bool,
    /// The arguments of a block, or the alternatives of a choice.
    pub parts: Vec<Argument>,
}
