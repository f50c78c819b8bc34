//! Defines the settings of `cjson` that scripts can change.

use std::cell::Cell;
use std::ffi::c_int;

/// The maximum nesting depth of a JSON text, even if a script sets a higher limit.
pub(super) const LEVELS_MAX: c_int = 1000;

/// The settings of `cjson`. Changes by a script apply until the script ends.
pub(crate) struct Settings {
    pub(super) converts_sparse: Cell<c_int>,
    pub(super) sparse_ratio: Cell<c_int>,
    pub(super) sparse_safe: Cell<c_int>,
    pub(super) encode_depth: Cell<c_int>,
    pub(super) decode_depth: Cell<c_int>,
    pub(super) precision: Cell<c_int>,
    pub(super) keeps_buffer: Cell<c_int>,
    pub(super) encodes_invalid: Cell<c_int>,
    pub(super) decodes_invalid: Cell<c_int>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            converts_sparse: Cell::new(0),
            sparse_ratio: Cell::new(2),
            sparse_safe: Cell::new(10),
            encode_depth: Cell::new(LEVELS_MAX),
            decode_depth: Cell::new(LEVELS_MAX),
            precision: Cell::new(14),
            keeps_buffer: Cell::new(1),
            encodes_invalid: Cell::new(0),
            decodes_invalid: Cell::new(1),
        }
    }
}

impl Settings {
    /// Restores the default settings when a script starts.
    pub(crate) fn reset(&self) {
        let new = Settings::default();
        self.converts_sparse.set(new.converts_sparse.get());
        self.sparse_ratio.set(new.sparse_ratio.get());
        self.sparse_safe.set(new.sparse_safe.get());
        self.encode_depth.set(new.encode_depth.get());
        self.decode_depth.set(new.decode_depth.get());
        self.precision.set(new.precision.get());
        self.keeps_buffer.set(new.keeps_buffer.get());
        self.encodes_invalid.set(new.encodes_invalid.get());
        self.decodes_invalid.set(new.decodes_invalid.get());
    }
}
