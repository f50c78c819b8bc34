//! Builds replies as trees, in memory that later replies reuse.

use std::ffi::{c_int, c_void};
use std::ptr;

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::Reply;
use undercroft_numbers::double_text;

use crate::border::{call, check_place};
use crate::handle::{Handle, Kind, Pool};
use crate::status::{Outcome, Refused, Status};

/// The type of a value, with the numbers of `uc_type` in `undercroft.h`.
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

/// The C type `uc_value`: one value of a reply.
pub(crate) struct Value {
    pub(crate) kind: Type,
    /// The number of bytes in a text, items in an array or set, or pairs in a map.
    pub(crate) length: usize,
    pub(crate) content: Content,
}

/// The content of a value, which depends on its type.
pub(crate) union Content {
    pub(crate) integer: i64,
    pub(crate) double: f64,
    /// The offset of the bytes or items while the reply is unfinished.
    start: usize,
    /// The null-terminated bytes.
    pub(crate) text: *const u8,
    /// The contiguous items. In a map, keys and values alternate.
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

    /// Returns the number of contiguous values that make up the items.
    pub(crate) fn items(&self) -> usize {
        match self.kind {
            Type::Map => self.length * 2,
            Type::Array | Type::Set => self.length,
            _ => 0,
        }
    }
}

/// The C type `uc_reply`: a reply that a command writes and C reads. The items of an array, set or
/// map are contiguous, so access by index takes constant time.
pub(crate) struct Tree {
    values: Vec<Value>,
    bytes: Vec<u8>,
    /// Incomplete arrays, sets and maps, innermost last.
    open: Vec<Gap>,
    /// Whether the reply is limited to the types of RESP2.
    is_flat: bool,
    /// The number of bytes that the reply needed when an allocation failed.
    lacking: Option<usize>,
    /// A buffer for the values of several keys, which later calls reuse.
    pub(crate) scratch: Vec<u8>,
}

/// An incomplete array, set or map: the index of its next item, and the number of items that have
/// not been written yet.
struct Gap {
    next: usize,
    missing: usize,
}

// SAFETY: the tree's pointers point into its own vectors, which move with the tree.
unsafe impl Send for Tree {}
// SAFETY: the tree's pointers point into its own vectors, and nothing changes a tree through a
// shared reference.
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

    /// Clears the reply, which is nil until a value is written.
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

    /// Returns the complete reply, which C reads in place until the tree changes.
    pub(crate) fn root(&self) -> &Value {
        &self.values[0]
    }

    /// Returns the text of the unfinished reply if it is an error.
    pub(crate) fn error_text(&self) -> Option<String> {
        let root = self.root();
        (root.kind == Type::Error).then(|| {
            // SAFETY: the reply is unfinished, so a text's content is its start offset.
            let start = unsafe { root.content.start };
            String::from_utf8_lossy(&self.bytes[start..start + root.length]).into_owned()
        })
    }

    /// Replaces the offsets of texts and items with their addresses, after which the reply's memory
    /// must not move. If memory for the reply ran out, the reply becomes nil and the call fails.
    pub(crate) fn finish(&mut self) -> Outcome<()> {
        if let Some(bytes) = self.lacking {
            (self.values, self.bytes) = (Vec::new(), Vec::new());
            self.begin(Protocol::Resp3);
            return Err(Refused::new(
                Status::Error,
                &format!(
                    "ERR this process could not allocate {bytes} more bytes for a reply: free \
                     memory, raise the limit (ulimit -v) or request the value in parts"
                ),
            ));
        }
        let items = self.values.as_ptr();
        for value in &mut self.values {
            if value.is_text() {
                // SAFETY: the content of an unfinished text is its start offset, which lies within
                // `bytes`.
                value.content.text = unsafe { self.bytes.as_ptr().add(value.content.start) };
            } else if value.items() > 0 {
                // SAFETY: the content of an unfinished array, set or map is its start offset, which
                // lies within `values`.
                value.content.items = unsafe { items.add(value.content.start) };
            }
        }
        Ok(())
    }

    /// Reserves memory for more bytes of text and more values. Returns false if the allocation
    /// fails.
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

    /// Truncates the outermost array to its first `items` replies, because the remaining commands
    /// did not run.
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

    /// Closes the innermost arrays, sets and maps that are complete.
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
/// `reply` must be null or writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_reply_new(reply: *mut *mut ReplyHandle) -> c_int {
    call(|| {
        check_place(reply)?;
        let mut tree = Tree::new();
        tree.finish()?;
        // SAFETY: `check_place` verified that `reply` is not null, and the caller guarantees that
        // it is writable.
        unsafe { reply.write(Handle::open(tree)) };
        Ok(Status::Ok)
    })
}

/// # Safety
/// `reply` must be null or a handle that this library returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_reply_free(reply: *mut ReplyHandle) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `reply` is null or a handle from this library.
        drop(unsafe { Handle::close(reply) }?);
        Ok(Status::Ok)
    })
}
