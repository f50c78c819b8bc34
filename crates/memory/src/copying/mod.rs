//! An image of the store at one moment. Other processes keep writing while it is copied, because
//! each page is saved before it changes (C1 to C5). `store_file` may use this module. The writers'
//! part is in `mapped/copy_table.rs`.
//!
//! - `area`: allocates and returns the heap memory that a copy uses.
//! - `image`: the copier's part, which copies the pages one by one after the copy's moment.

mod area;
pub(crate) mod image;
