//! Replies as trees, in memory that is used again.

use std::ffi::{c_int, c_void};
use std::ptr;

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::Reply;
use undercroft_numbers::double_text;

use crate::border::{call, check_place};
use crate::handle::{Handle, Kind, Pool};
use crate::status::{Outcome, Refused, Status};

/// The kinds of values. The numbers are those of `uc_type` in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Type {
    Nil = 0,
    Status = 1,
    String = 2,
    Integer = 3,
    Double = 4,
    Boolean = 5,
    Error = 6,
    Array = 7,
    Map = 8,
    Set = 9,
}

/// `uc_value`: one value of a reply.
pub(crate) struct Value {
    pub(crate) kind: Type,
    /// Bytes of a text, items of an aggregate, pairs of a map.
    pub(crate) length: usize,
    pub(crate) content: Content,
}

/// What a value is made of, by its type.
pub(crate) union Content {
    pub(crate) integer: i64,
    pub(crate) double: f64,
    /// Where its bytes or its items begin, until the reply is finished.
    start: usize,
    /// Its bytes, with a zero behind them.
    pub(crate) text: *const u8,
    /// Its items, side by side; those of a map are key and value in turns.
    pub(crate) items: *const Value,
}

impl Value {
    const NIL: Value = Value {
        kind: Type::Nil,
        length: 0,
        content: Content { integer: 0 },
    };

    pub(crate) fn is_text(&self) -> bool {
        matches!(self.kind, Type::Status | Type::String | Type::Error)
    }

    /// How many values its items are, side by side.
    pub(crate) fn items(&self) -> usize {
        match self.kind {
            Type::Map => self.length * 2,
            Type::Array | Type::Set => self.length,
            _ => 0,
        }
    }
}

/// `uc_reply`: a reply, written by a command, read by C. The items of an aggregate lie side by side, so that each is
/// found at once.
pub(crate) struct Tree {
    values: Vec<Value>,
    bytes: Vec<u8>,
    /// The aggregates that miss items, the innermost one last.
    open: Vec<Gap>,
    /// Whether values have the types of RESP2 alone.
    is_flat: bool,
    /// So many bytes of the reply could not be allocated.
    lacking: Option<usize>,
    /// Memory for the values of several keys.
    pub(crate) scratch: Vec<u8>,
}

/// Where the next item goes, and how many are to come.
struct Gap {
    next: usize,
    missing: usize,
}

// SAFETY: the pointers in it lead into its own vectors, which move with it.
unsafe impl Send for Tree {}
// SAFETY: as above; shared references to it change nothing.
unsafe impl Sync for Tree {}

impl Kind for Tree {
    const NAME: &'static str = "uc_reply";
    const OPEN: u32 = 0x7563_5210;

    fn pool() -> &'static Pool<Tree> {
        static POOL: Pool<Tree> = Pool::new();
        &POOL
    }

    fn readable(&self) -> *const c_void {
        ptr::from_ref(self.root()).cast()
    }
}

pub(crate) type ReplyHandle = Handle<Tree>;

impl Tree {
    fn new() -> Tree {
        let mut tree = Tree {
            values: Vec::new(),
            bytes: Vec::new(),
            open: Vec::new(),
            is_flat: false,
            lacking: None,
            scratch: Vec::new(),
        };
        tree.begin(Protocol::Resp3);
        tree
    }

    /// Forgets what was in it. What is not written stays nil.
    pub(crate) fn begin(&mut self, protocol: Protocol) {
        self.lacking = None;
        self.values.clear();
        self.values.push(Value::NIL);
        self.bytes.clear();
        self.open.clear();
        self.open.push(Gap {
            next: 0,
            missing: 1,
        });
        self.protocol(protocol);
    }

    /// The whole reply. C reads it where it lies, until this is changed.
    pub(crate) fn root(&self) -> &Value {
        &self.values[0]
    }

    /// The text, if the reply is an error that is not finished yet.
    pub(crate) fn error_text(&self) -> Option<String> {
        let root = self.root();
        (root.kind == Type::Error).then(|| {
            // SAFETY: the reply is not finished, so that a text has its start.
            let start = unsafe { root.content.start };
            String::from_utf8_lossy(&self.bytes[start..start + root.length]).into_owned()
        })
    }

    /// Makes addresses of the places where texts and items begin: from now on nothing moves. A reply for which this
    /// process had no memory is nil, and an error.
    pub(crate) fn finish(&mut self) -> Outcome<()> {
        if let Some(bytes) = self.lacking {
            (self.values, self.bytes) = (Vec::new(), Vec::new());
            self.begin(Protocol::Resp3);
            return Err(Refused::new(
                Status::Error,
                &format!(
                    "ERR this process could not allocate memory for {bytes} more bytes of a reply: free some, raise its \
                     limit (ulimit -v), or ask for parts"
                ),
            ));
        }
        let items = self.values.as_ptr();
        for value in &mut self.values {
            if value.is_text() {
                // SAFETY: a text that is not finished has its start, which lies in `bytes`.
                value.content.text = unsafe { self.bytes.as_ptr().add(value.content.start) };
            } else if value.items() > 0 {
                // SAFETY: an aggregate that is not finished has its start, which lies in `values`.
                value.content.items = unsafe { items.add(value.content.start) };
            }
        }
        Ok(())
    }

    /// Makes room for so many more bytes of text and values. Returns false where this process has no memory.
    #[inline]
    fn make_room(&mut self, bytes: usize, values: usize) -> bool {
        if self.lacking.is_some() {
            return false;
        }
        let has_room =
            self.bytes.try_reserve(bytes).is_ok() && self.values.try_reserve(values).is_ok();
        if !has_room {
            self.lacking = Some(bytes.saturating_add(values.saturating_mul(size_of::<Value>())));
        }
        has_room
    }

    /// Cuts the outermost array off behind so many items: what follows was not answered.
    pub(crate) fn cut(&mut self, items: usize) {
        self.values[0].length = items;
        self.open.clear();
    }

    fn put(&mut self, value: Value) {
        let Some(gap) = self.open.last_mut() else {
            return;
        };
        self.values[gap.next] = value;
        gap.next += 1;
        gap.missing -= 1;
        self.close();
    }

    /// Ends the aggregates that miss nothing.
    fn close(&mut self) {
        while self.open.last().is_some_and(|gap| gap.missing == 0) {
            self.open.pop();
        }
    }

    fn put_text(&mut self, kind: Type, text: &[u8]) {
        if !self.make_room(text.len() + 1, 0) {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        self.put(Value {
            kind,
            length: text.len(),
            content: Content { start },
        });
    }

    fn put_aggregate(&mut self, kind: Type, length: usize) {
        let start = self.values.len();
        let value = Value {
            kind,
            length,
            content: Content { start },
        };
        let missing = value.items();
        if !self.make_room(0, missing) {
            return;
        }
        self.put(value);
        if missing > 0 {
            self.values.extend((0..missing).map(|_| Value::NIL));
            self.open.push(Gap {
                next: start,
                missing,
            });
        }
    }
}

impl Reply for Tree {
    fn simple(&mut self, text: &str) {
        self.put_text(Type::Status, text.as_bytes());
    }

    fn simple_bytes(&mut self, text: &[u8]) {
        self.put_text(Type::Status, text);
    }

    fn error(&mut self, text: &str) {
        self.put_text(Type::Error, text.as_bytes());
    }

    fn error_bytes(&mut self, text: &[u8]) {
        self.put_text(Type::Error, text);
    }

    fn integer(&mut self, value: i64) {
        self.put(Value {
            kind: Type::Integer,
            length: 0,
            content: Content { integer: value },
        });
    }

    #[inline]
    fn bulk(&mut self, bytes: &[u8]) {
        self.put_text(Type::String, bytes);
    }

    fn null(&mut self) {
        self.put(Value::NIL);
    }

    fn null_array(&mut self) {
        self.put(Value::NIL);
    }

    fn array(&mut self, length: usize) {
        self.put_aggregate(Type::Array, length);
    }

    fn map(&mut self, pairs: usize) {
        match self.is_flat {
            true => self.put_aggregate(Type::Array, pairs * 2),
            false => self.put_aggregate(Type::Map, pairs),
        }
    }

    fn set(&mut self, length: usize) {
        let kind = if self.is_flat { Type::Array } else { Type::Set };
        self.put_aggregate(kind, length);
    }

    fn push(&mut self, length: usize) {
        self.put_aggregate(Type::Array, length);
    }

    fn double(&mut self, value: f64) {
        if self.is_flat {
            return self.bulk(&double_text(value));
        }
        self.put(Value {
            kind: Type::Double,
            length: 0,
            content: Content { double: value },
        });
    }

    fn decimal(&mut self, digits: &str) {
        match self.is_flat {
            true => self.bulk(digits.as_bytes()),
            false => self.double(digits.parse().unwrap_or(f64::NAN)),
        }
    }

    fn boolean(&mut self, value: bool) {
        self.put(Value {
            kind: if self.is_flat {
                Type::Integer
            } else {
                Type::Boolean
            },
            length: 0,
            content: Content {
                integer: value.into(),
            },
        });
    }

    fn big_number(&mut self, digits: &str) {
        self.bulk(digits.as_bytes());
    }

    fn verbatim(&mut self, _: &str, text: &[u8]) {
        self.bulk(text);
    }

    fn protocol(&mut self, version: Protocol) {
        self.is_flat = version == Protocol::Resp2;
    }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_reply_new(reply: *mut *mut ReplyHandle) -> c_int {
    call(|| {
        check_place(reply)?;
        let mut tree = Tree::new();
        tree.finish()?;
        // SAFETY: the place is there.
        unsafe { reply.write(Handle::open(tree)) };
        Ok(Status::Ok)
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_reply_free(reply: *mut ReplyHandle) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { Handle::close(reply) }?);
        Ok(Status::Ok)
    })
}
