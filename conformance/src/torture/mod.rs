//! Bad protocol input.
