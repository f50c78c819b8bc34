//! A reference to Lua's state, and the values on its stack.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::null_mut;

use mlua_sys::lua_State;

/// Lua's state, as seen by a function that Lua calls.
///
/// A reference to it is the pointer that Lua passes, and each method calls Lua. The interpreter
/// lives for `'i`.
///
/// # Why the methods are safe
///
/// The types guarantee two rules:
/// - The state outlives every reference to it. Only calls from Lua ([`entry`](super::entry())) and
///   [`Interpreter`](super::Interpreter) create references, for the duration of a call.
/// - The bytes of a string outlive their use. They borrow the state, and methods that remove or
///   replace values on the stack take `&mut`.
///
/// Functions have to follow three more rules that Rust's types cannot express. They are the
/// contract of the `unsafe` constructor [`State::from_raw`], and the reason why this type is not
/// public:
/// - An index must refer to a value on the stack, and a function may only remove values that are
///   there.
/// - A function pushes at most 20 values, for which every call has room, unless it asks for more
///   with [`State::has_room`] or [`State::check_room_for`]. In builds with debug assertions, which
///   all tests use, Lua checks this rule and the first one.
/// - No frame between a method that may raise an error and the protected call around it owns a
///   value with a destructor, because an error is a long jump that runs no destructors. Every
///   method may raise an out-of-memory error, except those that only read or remove values. The
///   [`Context`](super::context::Context) owns the values with destructors.
pub(crate) struct State<'i> {
    /// The zero-sized start of the state. Lua changes the state even through a shared reference.
    lua: UnsafeCell<lua_State>,
    interpreter: PhantomData<&'i ()>,
}

/// The pseudo-index of the globals.
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

/// The key of a value in the registry.
#[derive(Clone, Copy)]
pub(crate) struct RegistryKey(pub(super) c_int);

impl Default for RegistryKey {
    /// Returns the key of nil, which the registry does not store.
    fn default() -> RegistryKey {
        RegistryKey(mlua_sys::LUA_REFNIL)
    }
}

/// Calls a function of Lua's C interface on a state.
macro_rules! lua {
    ($state:expr, $function:ident $(, $argument:expr)*) => {
        // SAFETY: the state is alive, and the calling function follows the rules of `State`.
        unsafe { mlua_sys::$function($state.raw() $(, $argument)*) }
    };
}
pub(super) use lua;

/// References to the state.
impl<'i> State<'i> {
    /// Returns a reference to the state that Lua passed.
    ///
    /// # Safety
    /// The state must be alive for `'a`, and its interpreter for `'i`. Functions that get the
    /// reference must follow the rules of [`State`].
    #[inline]
    pub(super) unsafe fn from_raw<'a>(lua: *mut lua_State) -> &'a mut State<'i> {
        // SAFETY: the caller guarantees that the state is alive, and a zero-sized value is never
        // read or written.
        unsafe { &mut *lua.cast() }
    }

    /// Returns the pointer to Lua's state.
    #[inline]
    pub(super) fn raw(&self) -> *mut lua_State {
        self.lua.get()
    }

    /// Returns a second reference to the state, whose borrows do not block changes to the stack.
    ///
    /// # Safety
    /// Values borrowed through this reference must stay on the stack, or otherwise reachable for
    /// Lua, while they are in use.
    #[inline]
    pub(crate) unsafe fn anchored<'a>(&self) -> &'a State<'a> {
        // SAFETY: the state outlives the function that uses it.
        unsafe { State::from_raw(self.raw()) }
    }
}

/// Reading values. Only reading the bytes of a number may raise an error.
impl State<'_> {
    /// Returns the number of values on the stack of the running function.
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

    /// Returns whether a value counts as true.
    #[inline]
    pub(crate) fn boolean(&self, index: c_int) -> bool {
        lua!(self, lua_toboolean, index) != 0
    }

    /// Returns the value as a number, converting strings as Lua does; 0 for any other value.
    #[inline]
    pub(crate) fn number(&self, index: c_int) -> f64 {
        lua!(self, lua_tonumber, index)
    }

    /// Returns the bytes of a string, or no bytes if the value is neither a string nor a number.
    /// Converts a number to a string in place, which raises an error if there is no memory.
    #[inline]
    pub(crate) fn bytes(&self, index: c_int) -> &[u8] {
        let mut length = 0;
        let text = lua!(self, lua_tolstring, index, &mut length);
        if text.is_null() {
            return b"";
        }
        // SAFETY: Lua's strings do not move, and this one stays alive while the state is borrowed.
        unsafe { std::slice::from_raw_parts(text.cast(), length) }
    }

    /// Returns the bytes up to the first zero byte, as C reads them.
    pub(crate) fn c_bytes(&self, index: c_int) -> &[u8] {
        let text = lua!(self, lua_tolstring, index, null_mut());
        if text.is_null() {
            return b"";
        }
        // SAFETY: the string stays alive while the state is borrowed, and every Lua string ends
        // with a zero byte.
        unsafe { CStr::from_ptr(text).to_bytes() }
    }

    /// Returns the bytes of a string with the zero byte that follows them.
    pub(crate) fn bytes_with_zero(&self, index: c_int) -> &[u8] {
        let bytes = self.bytes(index);
        // SAFETY: a zero byte follows every Lua string.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len() + 1) }
    }

    /// Returns the length of a string, or a border of a table as Lua's `#` does.
    #[inline]
    pub(crate) fn length(&self, index: c_int) -> usize {
        lua!(self, lua_objlen, index)
    }

    /// Returns the address of a table, a function or another object.
    #[inline]
    pub(crate) fn address(&self, index: c_int) -> usize {
        lua!(self, lua_topointer, index).addr()
    }

    /// Returns whether a value is `cjson.null`, a null pointer.
    pub(crate) fn is_null(&self, index: c_int) -> bool {
        self.kind(index) == Kind::POINTER && lua!(self, lua_touserdata, index).is_null()
    }

    pub(crate) fn raw_equal(&self, one: c_int, other: c_int) -> bool {
        lua!(self, lua_rawequal, one, other) != 0
    }
}

/// Argument checks, which raise an error that names the argument.
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
        // SAFETY: Lua's strings do not move, and this one stays alive while the state is borrowed.
        unsafe { std::slice::from_raw_parts(text.cast(), length) }
    }
}

/// Pushing values.
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

    /// Pushes `cjson.null`, a null pointer.
    pub(crate) fn push_null(&self) {
        lua!(self, lua_pushlightuserdata, null_mut());
    }

    /// Pushes a copy of the value at an index.
    #[inline]
    pub(crate) fn push_value(&self, index: c_int) {
        lua!(self, lua_pushvalue, index);
    }

    /// Pushes an empty table with room for items and fields.
    #[inline]
    pub(crate) fn push_table(&self, items: c_int, fields: c_int) {
        lua!(self, lua_createtable, items, fields);
    }

    /// Pushes the `tostring` text of a table, a function or another object: its type and address.
    pub(crate) fn push_type_and_address(&self, index: c_int) {
        let name = lua!(self, lua_typename, self.kind(index).0);
        let address = lua!(self, lua_topointer, index);
        lua!(self, lua_pushfstring, c"%s: %p".as_ptr(), name, address);
    }

    /// Pushes a block of memory that the garbage collector frees. Returns its address.
    pub(crate) fn push_memory(&self, length: usize) -> *mut u8 {
        lua!(self, lua_newuserdata, length).cast()
    }
}

/// Room on the stack, and removing, moving and replacing values.
impl State<'_> {
    /// Reserves room on the stack for `values` more values. Returns whether there is room.
    pub(crate) fn has_room(&self, values: c_int) -> bool {
        lua!(self, lua_checkstack, values) != 0
    }

    /// Raises an error if the stack has no room for `values` more values.
    pub(crate) fn check_room_for(&self, values: c_int, problem: &CStr) {
        lua!(self, luaL_checkstack, values, problem.as_ptr());
    }

    #[inline]
    pub(crate) fn pop(&mut self, values: c_int) {
        lua!(self, lua_settop, -values - 1);
    }

    /// Sets the number of values on the stack: removes values above it, and fills missing ones with
    /// nil.
    #[inline]
    pub(crate) fn set_top(&mut self, values: c_int) {
        lua!(self, lua_settop, values);
    }

    pub(crate) fn remove(&mut self, index: c_int) {
        lua!(self, lua_remove, index);
    }

    /// Moves the value on top of the stack to an index, and shifts the values above that index up.
    #[inline]
    pub(crate) fn insert(&mut self, index: c_int) {
        lua!(self, lua_insert, index);
    }

    /// Pops a value, and stores it at an index.
    #[inline]
    pub(crate) fn replace(&mut self, index: c_int) {
        lua!(self, lua_replace, index);
    }

    /// Pops a value, and stores it at an index.
    ///
    /// # Safety
    /// Nothing may borrow the value that is replaced.
    pub(crate) unsafe fn replace_unused(&self, index: c_int) {
        lua!(self, lua_replace, index);
    }

    /// Swaps the two values on top of the stack.
    pub(crate) fn swap(&mut self) {
        self.insert(-2);
    }

    /// Joins the top `values` values, strings or numbers, to one string.
    pub(crate) fn concatenate(&mut self, values: c_int) {
        lua!(self, lua_concat, values);
    }
}
