//! An image of the store at one moment, made while other processes keep writing: pages are saved
//! before they change (C1 to C5). `store_file` may use it. The writers' half is
//! `mapped/copy_table.rs`.
//!
//! - `area`: the heap memory that a copy takes: its owner, its table, its stock of pages, and
//!   giving it back.
//! - `image`: the copier's half: the moment, and copying the pages one by one.

mod area;
pub(crate) mod image;
