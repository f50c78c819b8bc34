//! Proxies: empty tables that scripts are given in the place of the libraries and the globals.

use std::ffi::c_int;

use mlua_sys::{LUA_REGISTRYINDEX, lua_State, lua_rawgeti_, lua_topointer};

/// The proxies of an interpreter.
#[derive(Default)]
pub(crate) struct Proxies {
    /// The address of each proxy, and where the registry holds the original table.
    pub(crate) known: Vec<(usize, c_int)>,
    /// Where the registry holds the proxy of the globals, and the original.
    pub(crate) globals: (c_int, c_int),
}

impl Proxies {
    /// Where the registry holds the proxy of the globals.
    #[cfg(test)]
    pub(crate) fn place(&self) -> c_int {
        self.globals.0
    }

    /// Pushes the original globals.
    pub(crate) unsafe fn push_globals(&self, state: *mut lua_State) {
        lua_rawgeti_(state, LUA_REGISTRYINDEX, self.globals.1);
    }

    /// Where the registry holds the original of the table at an index; none if that is no proxy.
    pub(crate) unsafe fn original(&self, state: *mut lua_State, index: c_int) -> Option<c_int> {
        let place = lua_topointer(state, index) as usize;
        let mut known = self.known.iter();
        known.find(|proxy| proxy.0 == place).map(|proxy| proxy.1)
    }
}
