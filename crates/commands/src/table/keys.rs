//! Defines named key specifications for the rows of the command table.

use crate::table::flags::KeyFlag;
use crate::table::key_spec::KeySpec;

/// The command returns, copies or uses the value.
pub(in crate::table) const READ: &[KeyFlag] = &[KeyFlag::ReadOnly, KeyFlag::Access];
/// The command inspects the key without revealing the value's content.
pub(in crate::table) const LOOK: &[KeyFlag] = &[KeyFlag::ReadOnly];
/// The command changes the value.
pub(in crate::table) const CHANGE: &[KeyFlag] = &[KeyFlag::ReadWrite, KeyFlag::Update];
/// The command changes the value and reveals part of it.
pub(in crate::table) const READ_AND_CHANGE: &[KeyFlag] =
    &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update];
/// The command adds to the value without changing existing content.
pub(in crate::table) const ADD: &[KeyFlag] = &[KeyFlag::ReadWrite, KeyFlag::Insert];
/// The command removes all or part of the value.
pub(in crate::table) const DROP: &[KeyFlag] = &[KeyFlag::ReadWrite, KeyFlag::Delete];
/// The command removes all or part of the value and returns it.
pub(in crate::table) const TAKE: &[KeyFlag] =
    &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete];
/// The command stores a value, replacing any existing value.
pub(in crate::table) const REPLACE: &[KeyFlag] = &[KeyFlag::Overwrite, KeyFlag::Update];
/// The command stores a value only if the key does not exist.
pub(in crate::table) const CREATE: &[KeyFlag] = &[KeyFlag::Overwrite, KeyFlag::Insert];

// Specifications for commands whose only key is the first argument.
pub(in crate::table) const READ_KEY: &[KeySpec] = &[KeySpec::first(READ)];
pub(in crate::table) const LOOK_KEY: &[KeySpec] = &[KeySpec::first(LOOK)];
pub(in crate::table) const CHANGE_KEY: &[KeySpec] = &[KeySpec::first(CHANGE)];
pub(in crate::table) const READ_AND_CHANGE_KEY: &[KeySpec] = &[KeySpec::first(READ_AND_CHANGE)];
pub(in crate::table) const ADD_KEY: &[KeySpec] = &[KeySpec::first(ADD)];
pub(in crate::table) const DROP_KEY: &[KeySpec] = &[KeySpec::first(DROP)];
pub(in crate::table) const TAKE_KEY: &[KeySpec] = &[KeySpec::first(TAKE)];
pub(in crate::table) const REPLACE_KEY: &[KeySpec] = &[KeySpec::first(REPLACE)];

// Specifications for commands whose arguments are all keys.
pub(in crate::table) const READ_ALL: &[KeySpec] = &[KeySpec::all_from(1, READ)];
pub(in crate::table) const LOOK_ALL: &[KeySpec] = &[KeySpec::all_from(1, LOOK)];
pub(in crate::table) const REMOVE_ALL: &[KeySpec] =
    &[KeySpec::all_from(1, &[KeyFlag::Remove, KeyFlag::Delete])];
/// The specification for keys that are followed by a timeout.
pub(in crate::table) const TAKE_ALL_BUT_LAST: &[KeySpec] = &[KeySpec::range(1, -2, 1, TAKE)];

// Specifications for keys that are preceded by their number.
pub(in crate::table) const READ_COUNTED: &[KeySpec] = &[KeySpec::counted(1, READ)];
pub(in crate::table) const TAKE_COUNTED: &[KeySpec] = &[KeySpec::counted(1, TAKE)];
/// The specification for keys that are preceded by a timeout and by their number.
pub(in crate::table) const WAIT_COUNTED: &[KeySpec] = &[KeySpec::counted(2, TAKE)];

// The specification for a key that is the second argument, as in subcommands.
pub(in crate::table) const LOOK_SECOND: &[KeySpec] = &[KeySpec::second(LOOK)];

// Specifications for commands that move an item between keys, or that store a result computed from
// other keys.
pub(in crate::table) const MOVE_ITEM: &[KeySpec] = &[KeySpec::first(TAKE), KeySpec::second(ADD)];
pub(in crate::table) const STORE_ONE: &[KeySpec] =
    &[KeySpec::first(REPLACE), KeySpec::second(READ)];
pub(in crate::table) const STORE_ALL: &[KeySpec] =
    &[KeySpec::first(REPLACE), KeySpec::all_from(2, READ)];
pub(in crate::table) const STORE_COUNTED: &[KeySpec] =
    &[KeySpec::first(REPLACE), KeySpec::counted(2, READ)];
