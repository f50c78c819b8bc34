//! Accesses tables and the registry through the stack.

use std::ffi::{CStr, c_int};

use mlua_sys::LUA_REGISTRYINDEX;

use super::stack::{GLOBALS, RegistryKey, State, lua};

/// Methods that access fields and items of tables.
impl State<'_> {
    /// Replaces the key on top of the stack with its value in a table. Honors the metatable.
    pub(crate) fn get(&mut self, table: c_int) {
        lua!(self, lua_gettable_, table);
    }

    /// Pushes a field of a table. Honors the metatable.
    #[inline]
    pub(crate) fn push_field(&self, table: c_int, name: &CStr) {
        lua!(self, lua_getfield_, table, name.as_ptr());
    }

    /// Replaces the key on top of the stack with its value in a table. Ignores the metatable.
    #[inline]
    pub(crate) fn raw_get(&mut self, table: c_int) {
        lua!(self, lua_rawget_, table);
    }

    /// Pushes an item of a table. Ignores the metatable.
    #[inline]
    pub(crate) fn push_item(&self, table: c_int, index: c_int) {
        lua!(self, lua_rawgeti_, table, index);
    }

    /// Pops a value and a key, and stores them in a table. Ignores the metatable.
    #[inline]
    pub(crate) fn raw_set(&mut self, table: c_int) {
        lua!(self, lua_rawset, table);
    }

    /// Pops a value, and stores it as an item of a table. Ignores the metatable.
    #[inline]
    pub(crate) fn set_item(&mut self, table: c_int, index: c_int) {
        lua!(self, lua_rawseti_, table, index);
    }

    /// Pops a value, and stores it as a field of a table.
    #[inline]
    pub(crate) fn set_field(&mut self, table: c_int, name: &CStr) {
        lua!(self, lua_setfield, table, name.as_ptr());
    }

    /// Replaces the key on top of the stack with the table's next key and its value. At the end of
    /// the table, pops the key and returns false.
    #[inline]
    pub(crate) fn next(&mut self, table: c_int) -> bool {
        lua!(self, lua_next, table) != 0
    }
}

/// Methods that access metatables and environments.
impl State<'_> {
    /// Pushes the metatable of a value. Returns false and pushes nothing if the value has no
    /// metatable.
    pub(crate) fn push_metatable(&self, index: c_int) -> bool {
        lua!(self, lua_getmetatable, index) != 0
    }

    /// Pushes a field of a value's metatable. Returns false and pushes nothing if the field does
    /// not exist.
    pub(crate) fn push_metafield(&self, index: c_int, name: &CStr) -> bool {
        lua!(self, luaL_getmetafield, index, name.as_ptr()) != 0
    }

    /// Calls a function in a value's metatable with the value as its argument, and pushes the
    /// result. Returns false if the function does not exist.
    pub(crate) fn call_metafield(&self, index: c_int, name: &CStr) -> bool {
        lua!(self, luaL_callmeta, index, name.as_ptr()) != 0
    }

    /// Pops a table, and makes it the metatable of a value.
    pub(crate) fn set_metatable(&mut self, index: c_int) {
        lua!(self, lua_setmetatable, index);
    }

    /// Pops a table, and makes it the environment of a function.
    pub(crate) fn set_environment(&mut self, index: c_int) {
        lua!(self, lua_setfenv, index);
    }

    /// Pops a table, and makes it the environment of programs that are compiled later.
    pub(crate) fn set_globals(&mut self) {
        self.replace(GLOBALS);
    }
}

/// Methods that access the registry.
impl State<'_> {
    /// Pops a value, stores it in the registry, and returns its key.
    pub(crate) fn keep(&mut self) -> RegistryKey {
        RegistryKey(lua!(self, luaL_ref, LUA_REGISTRYINDEX))
    }

    #[inline]
    pub(crate) fn push_kept(&self, key: RegistryKey) {
        self.push_item(LUA_REGISTRYINDEX, key.0);
    }

    /// Pops a value, and stores it in the registry in place of the value at `key`.
    pub(crate) fn replace_kept(&mut self, key: RegistryKey) {
        self.set_item(LUA_REGISTRYINDEX, key.0);
    }

    /// Removes a value from the registry.
    pub(crate) fn release(&mut self, key: RegistryKey) {
        lua!(self, luaL_unref, LUA_REGISTRYINDEX, key.0);
    }
}

/// Methods for the test that visits everything that a script can reach.
#[cfg(test)]
impl State<'_> {
    /// Pushes an upvalue of a function. Returns false and pushes nothing if the upvalue does not
    /// exist.
    pub(crate) fn push_upvalue(&self, function: c_int, number: c_int) -> bool {
        !lua!(self, lua_getupvalue, function, number).is_null()
    }

    /// Pushes the environment of a function or a coroutine.
    pub(crate) fn push_environment(&self, index: c_int) {
        lua!(self, lua_getfenv, index);
    }

    /// Returns the address of the native function at an index, or `None` if the value is not a
    /// native function.
    pub(crate) fn native_address(&self, index: c_int) -> Option<usize> {
        lua!(self, lua_tocfunction, index).map(|function| function as usize)
    }
}
