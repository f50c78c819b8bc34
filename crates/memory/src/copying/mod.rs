//! An image of the store at one moment, copied while other processes keep writing: pages are saved
//! before they change (C1 to C5). `store_file` may use this module. The writers' part is in
//! `mapped/copy_table.rs`.
//!
//! - `area`: the heap memory that a copy uses: its owner, its table, its stock of pages, and
//!   returning it.
//! - `image`: the copier's part: the moment of the copy, and copying the pages one by one.

mod area;
pub(crate) mod image;
