//! The tables that are in front of the libraries and the globals.

use std::ffi::c_int;

use mlua_sys::{LUA_REGISTRYINDEX, lua_State, lua_rawgeti_, lua_topointer};

/// Tables that are in front of others.
#[derive(Default)]
pub(crate) struct Sandbox {
    /// Each with the place of what is behind it in the registry.
    pub(crate) fronts: Vec<(usize, c_int)>,
    /// The globals in front, and behind, in the registry.
    pub(crate) globals: (c_int, c_int),
}

impl Sandbox {
    /// Where the registry holds the globals in front.
    #[cfg(test)]
    pub(crate) fn place(&self) -> c_int {
        self.globals.0
    }

    /// Pushes the globals behind.
    pub(crate) unsafe fn push_real_globals(&self, state: *mut lua_State) {
        lua_rawgeti_(state, LUA_REGISTRYINDEX, self.globals.1);
    }

    /// What is behind the table at an index, in the registry, if it is one in front.
    pub(crate) unsafe fn behind(&self, state: *mut lua_State, index: c_int) -> Option<c_int> {
        let place = lua_topointer(state, index) as usize;
        let mut fronts = self.fronts.iter();
        fronts.find(|front| front.0 == place).map(|front| front.1)
    }
}
