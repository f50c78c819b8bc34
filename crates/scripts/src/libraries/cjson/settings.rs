//! The settings of `cjson`.

use std::ffi::c_int;

/// Levels that a text may have whatever a script asks for.
pub(super) const LEVELS_MAX: c_int = 1000;

/// Its settings, which hold for one run of a script.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(super) converts_sparse: c_int,
    pub(super) sparse_ratio: c_int,
    pub(super) sparse_safe: c_int,
    pub(super) encode_depth: c_int,
    pub(super) decode_depth: c_int,
    pub(super) precision: c_int,
    pub(super) keeps_buffer: c_int,
    pub(super) encodes_invalid: c_int,
    pub(super) decodes_invalid: c_int,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            converts_sparse: 0,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: LEVELS_MAX,
            decode_depth: LEVELS_MAX,
            precision: 14,
            keeps_buffer: 1,
            encodes_invalid: 0,
            decodes_invalid: 1,
        }
    }
}
