//! Tables and the registry, by way of Lua's stack.

use std::ffi::{CStr, c_int};

use mlua_sys::LUA_REGISTRYINDEX;

use super::stack::{GLOBALS, RegistryKey, State, lua};

/// Fields and items.
impl State<'_> {
    /// Replaces the key on top by its value in a table, or what the metatable says.
    pub(crate) fn get(&mut self, table: c_int) {
        lua!(self, lua_gettable_, table);
    }

    /// Pushes a field of a table, or what the metatable says.
    #[inline]
    pub(crate) fn push_field(&self, table: c_int, name: &CStr) {
        lua!(self, lua_getfield_, table, name.as_ptr());
    }

    /// Replaces the key on top by its value in a table.
    #[inline]
    pub(crate) fn raw_get(&mut self, table: c_int) {
        lua!(self, lua_rawget_, table);
    }

    /// Pushes an item of a table.
    #[inline]
    pub(crate) fn push_item(&self, table: c_int, index: c_int) {
        lua!(self, lua_rawgeti_, table, index);
    }

    /// Sets the value of a key, both of which are on top, in a table. Takes them off.
    #[inline]
    pub(crate) fn raw_set(&mut self, table: c_int) {
        lua!(self, lua_rawset, table);
    }

    /// Sets an item of a table to the value on top, and takes it off.
    #[inline]
    pub(crate) fn set_item(&mut self, table: c_int, index: c_int) {
        lua!(self, lua_rawseti_, table, index);
    }

    /// Sets a field of a table to the value on top, and takes it off.
    #[inline]
    pub(crate) fn set_field(&mut self, table: c_int, name: &CStr) {
        lua!(self, lua_setfield, table, name.as_ptr());
    }

    /// Replaces the key on top by the next key of a table and its value. At the end it is taken off.
    #[inline]
    pub(crate) fn next(&mut self, table: c_int) -> bool {
        lua!(self, lua_next, table) != 0
    }
}

/// Metatables and environments.
impl State<'_> {
    /// Pushes the metatable of a value, if it has one.
    pub(crate) fn push_metatable(&self, index: c_int) -> bool {
        lua!(self, lua_getmetatable, index) != 0
    }

    /// Pushes a field of the metatable of a value, if it has one.
    pub(crate) fn push_metafield(&self, index: c_int, name: &CStr) -> bool {
        lua!(self, luaL_getmetafield, index, name.as_ptr()) != 0
    }

    /// Calls a field of the metatable of a value with the value, if there is one. Pushes the result.
    pub(crate) fn call_metafield(&self, index: c_int, name: &CStr) -> bool {
        lua!(self, luaL_callmeta, index, name.as_ptr()) != 0
    }

    /// Makes the table on top the metatable of a value, and takes it off.
    pub(crate) fn set_metatable(&mut self, index: c_int) {
        lua!(self, lua_setmetatable, index);
    }

    /// Makes the table on top the environment of a function, and takes it off.
    pub(crate) fn set_environment(&mut self, index: c_int) {
        lua!(self, lua_setfenv, index);
    }

    /// Makes the table on top the environment of programs that are loaded, and takes it off.
    pub(crate) fn set_globals(&mut self) {
        self.replace(GLOBALS);
    }
}

/// The registry.
impl State<'_> {
    /// Keeps the value on top, and takes it off.
    pub(crate) fn keep(&mut self) -> RegistryKey {
        RegistryKey(lua!(self, luaL_ref, LUA_REGISTRYINDEX))
    }

    #[inline]
    pub(crate) fn push_kept(&self, key: RegistryKey) {
        self.push_item(LUA_REGISTRYINDEX, key.0);
    }

    /// Keeps the value on top in the place of another one, and takes it off.
    pub(crate) fn replace_kept(&mut self, key: RegistryKey) {
        self.set_item(LUA_REGISTRYINDEX, key.0);
    }

    /// Keeps a value no more.
    pub(crate) fn release(&mut self, key: RegistryKey) {
        lua!(self, luaL_unref, LUA_REGISTRYINDEX, key.0);
    }
}

/// For the test that walks everything that a script can reach.
#[cfg(test)]
impl State<'_> {
    /// Pushes an upvalue of a function, if there is one of that number.
    pub(crate) fn push_upvalue(&self, function: c_int, number: c_int) -> bool {
        !lua!(self, lua_getupvalue, function, number).is_null()
    }

    /// Pushes the environment of a function, a coroutine or the like.
    pub(crate) fn push_environment(&self, index: c_int) {
        lua!(self, lua_getfenv, index);
    }

    /// The address of the function of Rust or C at an index.
    pub(crate) fn native_address(&self, index: c_int) -> Option<usize> {
        lua!(self, lua_tocfunction, index).map(|function| function as usize)
    }
}
