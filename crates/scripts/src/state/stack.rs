//! A reference to Lua's state, and values on its stack.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::null_mut;

use mlua_sys::lua_State;

/// Lua's state, as a function that Lua calls sees it.
///
/// A reference to it is the pointer that Lua passes, and a method is a call of Lua. The interpreter lives for `'i`.
///
/// # Why the methods are safe
///
/// The types guarantee two rules:
/// - The state outlives every reference to it. Only Lua's calls of functions ([`entry`](super::entry())) and
///   [`Interpreter`](super::Interpreter) make references, for the time of a call.
/// - The bytes of a string outlive their use. They borrow the state, and a method that removes or replaces values on the
///   stack takes `&mut`.
///
/// Functions keep three more rules, which no type of Rust expresses. They are the contract of the `unsafe` constructor
/// [`State::from_raw`], and the reason why this type is not public:
/// - An index is that of a value on the stack, and a value that is removed is there.
/// - A function pushes at most 20 values, for which every call has room, unless it asks for more by [`State::has_room`]
///   or [`State::check_room_for`]. In builds with debug assertions, as in all tests, Lua itself checks these two rules.
/// - No frame between a method that may raise an error and the protected call around it has anything to drop: an error is
///   a long jump, which runs no destructors. Every method may raise one for want of memory, except those that only read
///   or remove values. Values that need to be dropped lie in the [`Context`](super::context::Context).
pub(crate) struct State<'i> {
    /// Of no size. Lua changes what is there, also by a shared reference.
    lua: UnsafeCell<lua_State>,
    interpreter: PhantomData<&'i ()>,
}

/// The globals, as an index.
pub(crate) const GLOBALS: c_int = mlua_sys::LUA_GLOBALSINDEX;

/// The index of an upvalue of the function that runs.
pub(crate) const fn upvalue(number: c_int) -> c_int {
    GLOBALS - number
}

/// The type of a value.
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

    /// Lua's name of it.
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

/// Where the registry keeps a value.
#[derive(Clone, Copy)]
pub(crate) struct RegistryKey(pub(super) c_int);

impl Default for RegistryKey {
    /// The key of nil, which the registry does not keep.
    fn default() -> RegistryKey {
        RegistryKey(mlua_sys::LUA_REFNIL)
    }
}

/// Calls a function of Lua's with a state and arguments.
macro_rules! lua {
    ($state:expr, $function:ident $(, $argument:expr)*) => {
        // SAFETY: the state is alive, and the function that has it keeps the rules of `State`.
        unsafe { mlua_sys::$function($state.raw() $(, $argument)*) }
    };
}
pub(super) use lua;

/// References.
impl<'i> State<'i> {
    /// The state that Lua has passed.
    ///
    /// # Safety
    /// The state is alive for `'a` and its interpreter for `'i`. Functions that are given the reference keep the rules of
    /// [`State`].
    #[inline]
    pub(super) unsafe fn from_raw<'a>(lua: *mut lua_State) -> &'a mut State<'i> {
        // SAFETY: as the caller says; a value of no size is nowhere written to or read from.
        unsafe { &mut *lua.cast() }
    }

    /// The state as Lua has it.
    #[inline]
    pub(super) fn raw(&self) -> *mut lua_State {
        self.lua.get()
    }

    /// A second reference, whose borrows do not keep the stack from being changed.
    ///
    /// # Safety
    /// Values that are borrowed through it stay on the stack, or otherwise reachable for Lua, while they are used.
    #[inline]
    pub(crate) unsafe fn anchored<'a>(&self) -> &'a State<'a> {
        // SAFETY: the state outlives the function that has it.
        unsafe { State::from_raw(self.raw()) }
    }
}

/// Reading. Of these, only reading the bytes of a number may raise an error.
impl State<'_> {
    /// The number of values on the stack of the function that runs.
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

    /// Whether a value is a number, or a string that is one to Lua.
    pub(crate) fn is_number(&self, index: c_int) -> bool {
        lua!(self, lua_isnumber, index) != 0
    }

    /// Whether a value is a string or a number.
    #[inline]
    pub(crate) fn is_string(&self, index: c_int) -> bool {
        lua!(self, lua_isstring, index) != 0
    }

    #[inline]
    pub(crate) fn is_table(&self, index: c_int) -> bool {
        self.kind(index) == Kind::TABLE
    }

    /// Whether a value is a function of Rust or C.
    pub(crate) fn is_native(&self, index: c_int) -> bool {
        lua!(self, lua_iscfunction, index) != 0
    }

    /// Whether a value counts as true.
    #[inline]
    pub(crate) fn boolean(&self, index: c_int) -> bool {
        lua!(self, lua_toboolean, index) != 0
    }

    /// A number, or the number that a string is to Lua; 0 of any other value.
    #[inline]
    pub(crate) fn number(&self, index: c_int) -> f64 {
        lua!(self, lua_tonumber, index)
    }

    /// The bytes of a string; none of a value that is neither a string nor a number. A number becomes a string where it
    /// lies, for which there may be no memory.
    #[inline]
    pub(crate) fn bytes(&self, index: c_int) -> &[u8] {
        let mut length = 0;
        let text = lua!(self, lua_tolstring, index, &mut length);
        if text.is_null() {
            return b"";
        }
        // SAFETY: Lua's strings do not move, and this one is there while the state is borrowed.
        unsafe { std::slice::from_raw_parts(text.cast(), length) }
    }

    /// The bytes up to the first zero, as C reads them.
    pub(crate) fn c_bytes(&self, index: c_int) -> &[u8] {
        let text = lua!(self, lua_tolstring, index, null_mut());
        if text.is_null() {
            return b"";
        }
        // SAFETY: as in `bytes`; a zero follows every string of Lua's.
        unsafe { CStr::from_ptr(text).to_bytes() }
    }

    /// The bytes of a string, and the zero that follows them.
    pub(crate) fn bytes_with_zero(&self, index: c_int) -> &[u8] {
        let bytes = self.bytes(index);
        // SAFETY: a zero follows every string of Lua's.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len() + 1) }
    }

    /// The length of a string, or a border of a table.
    #[inline]
    pub(crate) fn length(&self, index: c_int) -> usize {
        lua!(self, lua_objlen, index)
    }

    /// The address of a table, a function or the like.
    #[inline]
    pub(crate) fn address(&self, index: c_int) -> usize {
        lua!(self, lua_topointer, index).addr()
    }

    /// Whether a value is the pointer that `cjson.null` is.
    pub(crate) fn is_null(&self, index: c_int) -> bool {
        self.kind(index) == Kind::POINTER && lua!(self, lua_touserdata, index).is_null()
    }

    pub(crate) fn raw_equal(&self, one: c_int, other: c_int) -> bool {
        lua!(self, lua_rawequal, one, other) != 0
    }
}

/// Arguments, which raise an error that names them where they do not fit.
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

    /// The bytes of an argument that has to be a string or a number.
    #[inline]
    pub(crate) fn check_bytes(&self, index: c_int) -> &[u8] {
        let mut length = 0;
        let text = lua!(self, luaL_checklstring, index, &mut length);
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts(text.cast(), length) }
    }
}

/// Pushing.
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

    /// Pushes what `cjson.null` is.
    pub(crate) fn push_null(&self) {
        lua!(self, lua_pushlightuserdata, null_mut());
    }

    /// Pushes the value at an index once more.
    #[inline]
    pub(crate) fn push_value(&self, index: c_int) {
        lua!(self, lua_pushvalue, index);
    }

    /// Pushes an empty table with room for items and fields.
    #[inline]
    pub(crate) fn push_table(&self, items: c_int, fields: c_int) {
        lua!(self, lua_createtable, items, fields);
    }

    /// Pushes what `tostring` says of a table, a function or the like: its type and its address.
    pub(crate) fn push_type_and_address(&self, index: c_int) {
        let name = lua!(self, lua_typename, self.kind(index).0);
        let address = lua!(self, lua_topointer, index);
        lua!(self, lua_pushfstring, c"%s: %p".as_ptr(), name, address);
    }

    /// Pushes bytes of memory that the collector of garbage frees. Returns where they are.
    pub(crate) fn push_memory(&self, length: usize) -> *mut u8 {
        lua!(self, lua_newuserdata, length).cast()
    }
}

/// Room, and values that are taken off, moved or replaced.
impl State<'_> {
    /// Whether there is room on the stack for so many values more, which may then be pushed.
    pub(crate) fn has_room(&self, values: c_int) -> bool {
        lua!(self, lua_checkstack, values) != 0
    }

    /// Raises an error if there is no room on the stack for so many values more.
    pub(crate) fn check_room_for(&self, values: c_int, problem: &CStr) {
        lua!(self, luaL_checkstack, values, problem.as_ptr());
    }

    #[inline]
    pub(crate) fn pop(&mut self, values: c_int) {
        lua!(self, lua_settop, -values - 1);
    }

    /// Leaves so many values on the stack: those above are taken off, those that are missing are nil.
    #[inline]
    pub(crate) fn set_top(&mut self, values: c_int) {
        lua!(self, lua_settop, values);
    }

    pub(crate) fn remove(&mut self, index: c_int) {
        lua!(self, lua_remove, index);
    }

    /// Moves the value on top to an index, below the values that are there.
    #[inline]
    pub(crate) fn insert(&mut self, index: c_int) {
        lua!(self, lua_insert, index);
    }

    /// Replaces a value by the one on top.
    #[inline]
    pub(crate) fn replace(&mut self, index: c_int) {
        lua!(self, lua_replace, index);
    }

    /// Replaces a value by the one on top.
    ///
    /// # Safety
    /// Nothing borrows the value that is replaced.
    pub(crate) unsafe fn replace_unused(&self, index: c_int) {
        lua!(self, lua_replace, index);
    }

    /// Swaps the two values on top.
    pub(crate) fn swap(&mut self) {
        self.insert(-2);
    }

    /// Joins the values on top, which are strings and numbers, to one string.
    pub(crate) fn concatenate(&mut self, values: c_int) {
        lua!(self, lua_concat, values);
    }
}
