//! Defines a reference to a Lua state, and accesses the values on its stack.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::null_mut;

use mlua_sys::lua_State;

/// A Lua state, as seen by a function that Lua has called.
///
/// A reference to a `State` is the pointer that Lua passed to the function. Each method calls Lua.
/// The interpreter lives for `'i`.
///
/// # Why the methods are safe
///
/// The types guarantee two rules:
/// - The state outlives every reference to it. Only calls from Lua ([`entry`](super::entry())) and
///   [`Interpreter`](super::Interpreter) create references, for the duration of a call.
/// - The bytes of a string outlive their use. They borrow the state, and methods that remove or
///   replace values on the stack require `&mut self`.
///
/// Functions must follow three more rules that Rust's types cannot express. These rules are the
/// contract of the `unsafe` constructor [`State::from_raw`], and the reason why this type is not
/// public:
/// - An index must refer to a value on the stack, and a function must not remove more values than
///   the stack contains.
/// - A function pushes at most 20 values, for which every call has room, unless it reserves more
///   room with [`State::has_room`] or [`State::check_room_for`]. In builds with debug assertions,
///   which all tests use, Lua checks the first two rules.
/// - No frame between a method that can raise an error and the enclosing protected call owns a
///   value with a destructor, because an error is a long jump that runs no destructors. Every
///   method can raise an out-of-memory error, except the methods that only read or remove values.
///   The [`Context`](super::context::Context) owns the values with destructors.
pub(crate) struct State<'i> {
    /// The zero-sized start of the Lua state, in an `UnsafeCell` because Lua changes the state even
    /// through a shared reference.
    lua: UnsafeCell<lua_State>,
    interpreter: PhantomData<&'i ()>,
}

/// The pseudo-index of the table of globals.
pub(crate) const GLOBALS: c_int = mlua_sys::LUA_GLOBALSINDEX;

/// Returns the index of an upvalue of the running function.
pub(crate) const fn upvalue(number: c_int) -> c_int {
    GLOBALS - number
}

/// The type of a Lua value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind(pub(super) c_int);

impl Kind {
    pub(crate) const NIL: Kind = Kind(mlua_sys::LUA_TNIL);
    pub(crate) const BOOLEAN: Kind = Kind(mlua_sys::LUA_TBOOLEAN);
    pub(crate) const POINTER: Kind = Kind(mlua_sys::LUA_TLIGHTUSERDATA);
    pub(crate) const NUMBER: Kind = Kind(mlua_sys::LUA_TNUMBER);
    pub(crate) const STRING: Kind = Kind(mlua_sys::LUA_TSTRING);
    pub(crate) const TABLE: Kind = Kind(mlua_sys::LUA_TTABLE);
    pub(crate) const FUNCTION: Kind = Kind(mlua_sys::LUA_TFUNCTION);
    #[cfg(test)]
    pub(crate) const MEMORY: Kind = Kind(mlua_sys::LUA_TUSERDATA);
    #[cfg(test)]
    pub(crate) const COROUTINE: Kind = Kind(mlua_sys::LUA_TTHREAD);

    /// Returns Lua's name for the type.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            mlua_sys::LUA_TNONE => "no value",
            mlua_sys::LUA_TNIL => "nil",
            mlua_sys::LUA_TBOOLEAN => "boolean",
            mlua_sys::LUA_TNUMBER => "number",
            mlua_sys::LUA_TSTRING => "string",
            mlua_sys::LUA_TTABLE => "table",
            mlua_sys::LUA_TFUNCTION => "function",
            mlua_sys::LUA_TTHREAD => "thread",
            _ => "userdata",
        }
    }
}

/// The key under which the registry stores a value.
#[derive(Clone, Copy)]
pub(crate) struct RegistryKey(pub(super) c_int);

impl Default for RegistryKey {
    /// Returns the key that stands for nil, which the registry does not store.
    fn default() -> RegistryKey {
        RegistryKey(mlua_sys::LUA_REFNIL)
    }
}

/// Calls a function of Lua's C API on a state.
macro_rules! lua {
    ($state:expr, $function:ident $(, $argument:expr)*) => {
        // SAFETY: the state is alive, and the calling function follows the rules of `State`.
        unsafe { mlua_sys::$function($state.raw() $(, $argument)*) }
    };
}
pub(super) use lua;

/// Methods that create references to the state.
impl<'i> State<'i> {
    /// Returns a reference to the Lua state at an address that Lua passed.
    ///
    /// # Safety
    /// The Lua state must be alive for `'a`, and its interpreter for `'i`. Functions that receive
    /// the reference must follow the rules of [`State`].
    #[inline]
    pub(super) unsafe fn from_raw<'a>(lua: *mut lua_State) -> &'a mut State<'i> {
        // SAFETY: the caller guarantees that the Lua state is alive, and a zero-sized value is
        // never read or written.
        unsafe { &mut *lua.cast() }
    }

    /// Returns the pointer to the Lua state.
    #[inline]
    pub(super) fn raw(&self) -> *mut lua_State {
        self.lua.get()
    }

    /// Returns a second reference to the state. Values borrowed through it do not prevent changes
    /// to the stack.
    ///
    /// # Safety
    /// Values borrowed through this reference must stay on the stack, or otherwise reachable for
    /// Lua, as long as they are used.
    #[inline]
    pub(crate) unsafe fn anchored<'a>(&self) -> &'a State<'a> {
        // SAFETY: the Lua state outlives every function that it calls.
        unsafe { State::from_raw(self.raw()) }
    }
}

/// Methods that read values. Only converting a number to bytes can raise an error.
impl State<'_> {
    /// Returns the number of values on the stack of the running function, which is the index of the
    /// top value.
    #[inline]
    pub(crate) fn top(&self) -> c_int {
        lua!(self, lua_gettop)
    }

    #[inline]
    pub(crate) fn kind(&self, index: c_int) -> Kind {
        Kind(lua!(self, lua_type, index))
    }

    #[inline]
    pub(crate) fn is_none_or_nil(&self, index: c_int) -> bool {
        lua!(self, lua_type, index) <= mlua_sys::LUA_TNIL
    }

    /// Returns whether a value is a number, or a string that Lua converts to a number.
    pub(crate) fn is_number(&self, index: c_int) -> bool {
        lua!(self, lua_isnumber, index) != 0
    }

    /// Returns whether a value is a string or a number.
    #[inline]
    pub(crate) fn is_string(&self, index: c_int) -> bool {
        lua!(self, lua_isstring, index) != 0
    }

    #[inline]
    pub(crate) fn is_table(&self, index: c_int) -> bool {
        self.kind(index) == Kind::TABLE
    }

    /// Returns whether a value is a function written in Rust or C.
    pub(crate) fn is_native(&self, index: c_int) -> bool {
        lua!(self, lua_iscfunction, index) != 0
    }

    /// Returns whether a value counts as true in a condition, as every value except nil and false
    /// does.
    #[inline]
    pub(crate) fn boolean(&self, index: c_int) -> bool {
        lua!(self, lua_toboolean, index) != 0
    }

    /// Returns the value as a number. Converts strings as Lua does, and returns 0 for other values.
    #[inline]
    pub(crate) fn number(&self, index: c_int) -> f64 {
        lua!(self, lua_tonumber, index)
    }

    /// Returns the bytes of a string, or no bytes if the value is neither a string nor a number.
    /// Converts a number to a string in place, which raises an error if memory runs out.
    #[inline]
    pub(crate) fn bytes(&self, index: c_int) -> &[u8] {
        let mut length = 0;
        let text = lua!(self, lua_tolstring, index, &mut length);
        if text.is_null() {
            return b"";
        }
        // SAFETY: Lua strings do not move, and this string stays alive as long as the state is
        // borrowed.
        unsafe { std::slice::from_raw_parts(text.cast(), length) }
    }

    /// Returns the bytes of a string up to the first zero byte, where C strings end.
    pub(crate) fn c_bytes(&self, index: c_int) -> &[u8] {
        let text = lua!(self, lua_tolstring, index, null_mut());
        if text.is_null() {
            return b"";
        }
        // SAFETY: the string stays alive as long as the state is borrowed, and every Lua string
        // ends with a zero byte.
        unsafe { CStr::from_ptr(text).to_bytes() }
    }

    /// Returns the bytes of a string including the terminating zero byte.
    pub(crate) fn bytes_with_zero(&self, index: c_int) -> &[u8] {
        let bytes = self.bytes(index);
        // SAFETY: a zero byte follows the bytes of every Lua string.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len() + 1) }
    }

    /// Returns the length of a string or a table, like Lua's `#`.
    #[inline]
    pub(crate) fn length(&self, index: c_int) -> usize {
        lua!(self, lua_objlen, index)
    }

    /// Returns the address of a table, a function or another heap object.
    #[inline]
    pub(crate) fn address(&self, index: c_int) -> usize {
        lua!(self, lua_topointer, index).addr()
    }

    /// Returns whether a value is `cjson.null`, which is a null pointer.
    pub(crate) fn is_null(&self, index: c_int) -> bool {
        self.kind(index) == Kind::POINTER && lua!(self, lua_touserdata, index).is_null()
    }

    pub(crate) fn raw_equal(&self, one: c_int, other: c_int) -> bool {
        lua!(self, lua_rawequal, one, other) != 0
    }
}

/// Methods that check arguments. On failure, they raise an error that names the argument.
impl State<'_> {
    pub(crate) fn check_any(&self, index: c_int) {
        lua!(self, luaL_checkany, index);
    }

    #[inline]
    pub(crate) fn check_kind(&self, index: c_int, kind: Kind) {
        lua!(self, luaL_checktype, index, kind.0);
    }

    #[inline]
    pub(crate) fn check_number(&self, index: c_int) -> f64 {
        lua!(self, luaL_checknumber, index)
    }

    /// Returns the bytes of an argument, which must be a string or a number.
    #[inline]
    pub(crate) fn check_bytes(&self, index: c_int) -> &[u8] {
        let mut length = 0;
        let text = lua!(self, luaL_checklstring, index, &mut length);
        // SAFETY: Lua strings do not move, and this string stays alive as long as the state is
        // borrowed.
        unsafe { std::slice::from_raw_parts(text.cast(), length) }
    }
}

/// Methods that push values.
impl State<'_> {
    #[inline]
    pub(crate) fn push_nil(&self) {
        lua!(self, lua_pushnil);
    }

    #[inline]
    pub(crate) fn push_boolean(&self, value: bool) {
        lua!(self, lua_pushboolean, c_int::from(value));
    }

    #[inline]
    pub(crate) fn push_number(&self, number: f64) {
        lua!(self, lua_pushnumber, number);
    }

    #[inline]
    pub(crate) fn push_integer(&self, number: i64) {
        lua!(self, lua_pushinteger, number);
    }

    /// Pushes bytes as a string.
    #[inline]
    pub(crate) fn push_bytes(&self, bytes: &[u8]) {
        lua!(self, lua_pushlstring_, bytes.as_ptr().cast(), bytes.len());
    }

    /// Pushes `cjson.null`, which is a null pointer.
    pub(crate) fn push_null(&self) {
        lua!(self, lua_pushlightuserdata, null_mut());
    }

    /// Pushes a copy of the value at an index.
    #[inline]
    pub(crate) fn push_value(&self, index: c_int) {
        lua!(self, lua_pushvalue, index);
    }

    /// Pushes an empty table with room for `items` array items and `fields` named fields.
    #[inline]
    pub(crate) fn push_table(&self, items: c_int, fields: c_int) {
        lua!(self, lua_createtable, items, fields);
    }

    /// Pushes the text that `tostring` returns for a table, a function or another object: its type
    /// and its address.
    pub(crate) fn push_type_and_address(&self, index: c_int) {
        let name = lua!(self, lua_typename, self.kind(index).0);
        let address = lua!(self, lua_topointer, index);
        lua!(self, lua_pushfstring, c"%s: %p".as_ptr(), name, address);
    }

    /// Pushes a block of memory that the garbage collector frees. Returns the block's address.
    pub(crate) fn push_memory(&self, length: usize) -> *mut u8 {
        lua!(self, lua_newuserdata, length).cast()
    }
}

/// Methods that reserve stack space, and methods that remove, move or replace values.
impl State<'_> {
    /// Reserves stack space for `values` more values. Returns false if there is not enough space.
    pub(crate) fn has_room(&self, values: c_int) -> bool {
        lua!(self, lua_checkstack, values) != 0
    }

    /// Reserves stack space for `values` more values. Raises an error if there is not enough space.
    pub(crate) fn check_room_for(&self, values: c_int, problem: &CStr) {
        lua!(self, luaL_checkstack, values, problem.as_ptr());
    }

    #[inline]
    pub(crate) fn pop(&mut self, values: c_int) {
        lua!(self, lua_settop, -values - 1);
    }

    /// Sets the number of values on the stack. Removes values above the new top, and fills missing
    /// values with nil.
    #[inline]
    pub(crate) fn set_top(&mut self, values: c_int) {
        lua!(self, lua_settop, values);
    }

    pub(crate) fn remove(&mut self, index: c_int) {
        lua!(self, lua_remove, index);
    }

    /// Moves the value on top of the stack to an index. Values at and above the index move up.
    #[inline]
    pub(crate) fn insert(&mut self, index: c_int) {
        lua!(self, lua_insert, index);
    }

    /// Pops a value, and stores it at an index in place of the old value.
    #[inline]
    pub(crate) fn replace(&mut self, index: c_int) {
        lua!(self, lua_replace, index);
    }

    /// Pops a value, and stores it at an index, even if the state is borrowed.
    ///
    /// # Safety
    /// The replaced value must not be borrowed.
    pub(crate) unsafe fn replace_unused(&self, index: c_int) {
        lua!(self, lua_replace, index);
    }

    /// Swaps the two values on top of the stack.
    pub(crate) fn swap(&mut self) {
        self.insert(-2);
    }

    /// Replaces the top `values` values, which must be strings or numbers, with their
    /// concatenation.
    pub(crate) fn concatenate(&mut self, values: c_int) {
        lua!(self, lua_concat, values);
    }
}
