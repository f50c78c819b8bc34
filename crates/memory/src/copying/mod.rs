//! An image of the store at one moment, made while others go on writing: pages are saved before they change (C1 to C5).
//! `store_file` may call it; the writers' half is `mapped/copy_table.rs`.
//!
//! - `area`: the memory that a copy takes of the heap: who makes it, its table and its stock of pages, and giving it back.
//! - `image`: the copier's half: the moment, and the pages one after the other.

mod area;
pub(crate) mod image;
