//! The arguments of a command, as COMMAND DOCS describes them.

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    String,
    /// An integer.
    Integer,
    /// A floating point number.
    Double,
    /// A key.
    Key,
    /// A pattern.
    Pattern,
    /// A time since 1970.
    UnixTime,
    /// A token and nothing else.
    PureToken,
    /// One of several arguments.
    OneOf,
    /// Several arguments, one behind the other.
    Block,
}

impl Kind {
    /// As COMMAND DOCS prints it.
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
    /// Its name; no argument is called by it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The word that stands before it, or is all of it.
    pub token: Option<&'static str>,
    /// Which of the command's key specifications finds it.
    pub key_spec: Option<usize>,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether there may be several.
    pub multiple: bool,
    /// Whether each of several has the token before it.
    pub multiple_token: bool,
    /// The arguments of a group.
    pub parts: Vec<Argument>,
}
