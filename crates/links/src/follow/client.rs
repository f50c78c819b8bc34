//! A connection on which a source runs ordinary commands, next to the one that replicates it.

use undercroft_resp::{ReplyLimits, ReplyReader, Value};

use crate::follow::error::FollowError;
use crate::follow::link::Link;
use crate::follow::sentinel;
use crate::follow::source_url::SourceUrl;

/// The position of a source's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    /// The number of bytes in the stream.
    pub offset: u64,
    /// Whether the source is itself a replica.
    pub is_replica: bool,
}

/// A connection on which a source runs ordinary commands.
pub struct SourceClient<'a> {
    link: Link<'a>,
    reader: ReplyReader,
}

impl<'a> SourceClient<'a> {
    /// Connects to a source and logs in. The work ends with an error once `stops` returns true.
    ///
    /// # Errors
    /// Returns an error if the source cannot be reached or refuses the login.
    pub fn connect(
        url: &SourceUrl,
        stops: &'a dyn Fn() -> bool,
    ) -> Result<SourceClient<'a>, FollowError> {
        let address = sentinel::find(url, stops)?;
        let mut link = Link::connect(&address, url, stops)?;
        link.log_in(url)?;
        Ok(SourceClient {
            link,
            reader: ReplyReader::new(ReplyLimits::default()),
        })
    }

    /// Runs a command. An error reply is returned as [`FollowError::Command`].
    ///
    /// # Errors
    /// Returns an error if the source replies with one, or if the connection is lost.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Value, FollowError> {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        self.link.send(&words)?;
        loop {
            let mut input = &self.link.input[..];
            let before = input.len();
            let value = self.reader.read(&mut input);
            let used = before - input.len();
            self.link.input.drain(..used);
            match value.map_err(|error| FollowError::Protocol(format!("{error:?}")))? {
                Some(Value::Error(text)) => {
                    return Err(FollowError::Command(format!(
                        "{}: {}",
                        words[0].escape_ascii(),
                        String::from_utf8_lossy(&text)
                    )));
                }
                Some(value) => return Ok(value),
                None => self.link.receive().map(drop)?,
            }
        }
    }

    /// Returns the lines of a section of INFO, each a name and a value.
    ///
    /// # Errors
    /// Returns the errors of [`call`](Self::call).
    pub fn info(&mut self, section: &str) -> Result<Vec<(String, String)>, FollowError> {
        let reply = self.call(&["INFO", section])?;
        let (Value::Bulk(text) | Value::Verbatim(_, text)) = reply else {
            return Err(FollowError::Protocol("expected the text of INFO".into()));
        };
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        Ok(lines
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect())
    }

    /// Returns the position of the source's stream.
    ///
    /// # Errors
    /// Returns the errors of [`call`](Self::call), or an error if the source does not report it.
    pub fn position(&mut self) -> Result<SourcePosition, FollowError> {
        let lines = self.info("replication")?;
        let field = |name: &str| lines.iter().find(|line| line.0 == name).map(|line| &line.1);
        let offset = field("master_repl_offset").and_then(|text| text.parse().ok());
        Ok(SourcePosition {
            offset: offset.ok_or_else(|| {
                FollowError::Protocol("expected master_repl_offset in INFO replication".into())
            })?,
            is_replica: field("role").is_some_and(|role| role == "slave"),
        })
    }
}
