//! An invalidation for one connection, and its form in the protocol.

use std::sync::Arc;

use undercroft_commands::protocol::Protocol;
use undercroft_commands::session::Session;
use undercroft_resp::encode;

/// The channel of invalidations for a connection that receives those of another connection in RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// The subject of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A key that the connection has read.
    Read(Arc<[u8]>),
    /// A key that the connection has read, and that was removed to free memory.
    Evicted(Arc<[u8]>),
    /// Keys with a prefix. The receiver is told only about keys that its user may read, because it
    /// must not learn the names of others.
    Prefixed(Arc<[Arc<[u8]>]>),
    /// All keys.
    All,
    /// The connection with this ID, which receives the invalidations, no longer exists.
    Broken(u64),
}

/// An invalidation for a connection, identified by its token on its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) token: u64,
    /// Whether the connection receives the push for another connection.
    pub(super) is_redirected: bool,
    pub(super) subject: Subject,
}

/// Replaces the pushes for each connection by one that stands for all of them. A connection may receive
/// pushes of its own and those of others, which have different forms.
pub(crate) fn collapse(pushes: &mut Vec<Push>) {
    pushes.sort_by_key(|push| (push.token, push.is_redirected));
    pushes.dedup_by_key(|push| (push.token, push.is_redirected));
    for push in pushes {
        *push = push.all_of();
    }
}

impl Push {
    /// Returns a push that stands for all that the connection could have missed.
    fn all_of(&self) -> Push {
        Push {
            subject: Subject::All,
            ..self.clone()
        }
    }

    /// Returns whether the push precedes the reply to a command that has run before the push is sent,
    /// and that has not read any key. As in Redis, this is so if memory was freed for the command.
    pub(crate) fn precedes_reply(&self) -> bool {
        matches!(self.subject, Subject::Evicted(_))
    }

    /// Appends the push in the form that its receiver understands, if there is one. As in Redis, a
    /// connection that uses RESP2 can only receive the invalidations of another connection, while it
    /// has subscriptions.
    pub(crate) fn append(&self, session: &Session, out: &mut Vec<u8>) {
        let is_resp3 = session.protocol == Protocol::Resp3;
        let receives = is_resp3 || self.is_redirected && !session.subscriptions.is_empty();
        if !receives {
            return;
        }
        let start = out.len();
        match (&self.subject, is_resp3) {
            (Subject::Broken(id), true) => {
                push_header(out, b"tracking-redir-broken");
                encode::integer(out, *id as i64);
                return;
            }
            (Subject::Broken(_), false) => return,
            (_, true) => push_header(out, b"invalidate"),
            (_, false) => {
                encode::array(out, 3);
                encode::bulk(out, b"message");
                encode::bulk(out, CHANNEL);
            }
        }
        match &self.subject {
            Subject::Read(key) | Subject::Evicted(key) => {
                encode::array(out, 1);
                encode::bulk(out, key);
            }
            Subject::Prefixed(keys) => {
                let may_read = |key: &&Arc<[u8]>| session.login.may_read(key);
                let readable = keys.iter().filter(may_read);
                let count = readable.clone().count();
                if count == 0 {
                    return out.truncate(start);
                }
                encode::array(out, count);
                readable.for_each(|key| encode::bulk(out, key));
            }
            Subject::All if is_resp3 => out.extend_from_slice(b"_\r\n"),
            Subject::All | Subject::Broken(_) => out.extend_from_slice(b"$-1\r\n"),
        }
    }
}

/// Begins a push of two elements with its kind.
fn push_header(out: &mut Vec<u8>, kind: &[u8]) {
    out.extend_from_slice(b">2\r\n");
    encode::bulk(out, kind);
}

#[cfg(test)]
mod tests {
    use undercroft_commands::session::Login;

    use super::*;

    fn shown(session: &Session, is_redirected: bool, subject: Subject) -> String {
        let mut out = Vec::new();
        let push = Push {
            token: 1,
            is_redirected,
            subject,
        };
        push.append(session, &mut out);
        String::from_utf8_lossy(&out).replace("\r\n", " ")
    }

    #[test]
    fn collapsed_pushes_reach_every_connection_in_both_forms() {
        let push = |token, is_redirected, key: &[u8]| Push {
            token,
            is_redirected,
            subject: Subject::Read(key.into()),
        };
        let mut pushes = vec![
            push(2, true, b"a"),
            push(1, false, b"b"),
            push(2, false, b"c"),
            push(1, false, b"d"),
            push(2, true, b"e"),
        ];
        collapse(&mut pushes);
        let all = |token, is_redirected| push(token, is_redirected, b"").all_of();
        assert_eq!(pushes, [all(1, false), all(2, false), all(2, true)]);
    }

    #[test]
    fn pushes_have_the_forms_of_redis() {
        let mut session = Session::new(1, Login::trusted(), 0);
        let key = || Subject::Read(b"key".as_slice().into());
        assert_eq!(shown(&session, false, key()), "");
        assert_eq!(shown(&session, true, key()), "", "without a subscription");
        session.protocol = Protocol::Resp3;
        let start = ">2 $10 invalidate ";
        assert_eq!(shown(&session, false, key()), format!("{start}*1 $3 key "));
        assert_eq!(shown(&session, true, Subject::All), format!("{start}_ "));
        assert_eq!(
            shown(&session, false, Subject::Broken(7)),
            ">2 $21 tracking-redir-broken :7 "
        );
        let keys: [Arc<[u8]>; 2] = [b"a".as_slice().into(), b"b".as_slice().into()];
        let keys = Subject::Prefixed(keys.into());
        assert_eq!(
            shown(&session, false, keys.clone()),
            format!("{start}*2 $1 a $1 b ")
        );
        session.login = Login::unknown();
        assert_eq!(shown(&session, false, keys), "", "it may read no key");
    }
}
