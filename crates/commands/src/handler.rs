//! What every command handler is given.

use crate::arguments::CommandError;
use crate::reply::Reply;
use crate::session::{Host, Session};

/// Everything a handler may see and change besides its arguments and its reply.
pub struct Context<'a> {
    /// The connection that sent the command; an embedded client has one, too.
    pub session: &'a mut Session,
    /// The server, or the embedding process.
    pub host: &'a dyn Host,
}

/// Runs one command. The arguments have the command's name first and are as many as its arity says.
///
/// A handler writes one whole reply, or returns an error before it has written anything.
pub type Handler = fn(&mut Context<'_>, &[&[u8]], &mut dyn Reply) -> Result<(), CommandError>;
