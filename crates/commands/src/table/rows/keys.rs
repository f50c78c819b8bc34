//! Where commands have their keys and what they do with them, in the names that the rows of the table use.

use crate::table::flags::KeyFlag;
use crate::table::key_spec::KeySpec;

/// Returns, copies or uses the value.
pub(super) const READ: &[KeyFlag] = &[KeyFlag::ReadOnly, KeyFlag::Access];
/// Looks at the key and tells nothing of what the value holds.
pub(super) const LOOK: &[KeyFlag] = &[KeyFlag::ReadOnly];
/// Changes the value.
pub(super) const CHANGE: &[KeyFlag] = &[KeyFlag::ReadWrite, KeyFlag::Update];
/// Changes the value and tells something of it.
pub(super) const READ_AND_CHANGE: &[KeyFlag] =
    &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update];
/// Adds to the value and changes nothing that is there.
pub(super) const ADD: &[KeyFlag] = &[KeyFlag::ReadWrite, KeyFlag::Insert];
/// Removes some or all of the value.
pub(super) const DROP: &[KeyFlag] = &[KeyFlag::ReadWrite, KeyFlag::Delete];
/// Removes some or all of the value and returns it.
pub(super) const TAKE: &[KeyFlag] = &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete];
/// Stores a value in the place of any other.
pub(super) const REPLACE: &[KeyFlag] = &[KeyFlag::Overwrite, KeyFlag::Update];
/// Stores a value where there is none.
pub(super) const CREATE: &[KeyFlag] = &[KeyFlag::Overwrite, KeyFlag::Insert];

// One key, the first argument.
pub(super) const READ_KEY: &[KeySpec] = &[KeySpec::first(READ)];
pub(super) const LOOK_KEY: &[KeySpec] = &[KeySpec::first(LOOK)];
pub(super) const CHANGE_KEY: &[KeySpec] = &[KeySpec::first(CHANGE)];
pub(super) const READ_AND_CHANGE_KEY: &[KeySpec] = &[KeySpec::first(READ_AND_CHANGE)];
pub(super) const ADD_KEY: &[KeySpec] = &[KeySpec::first(ADD)];
pub(super) const DROP_KEY: &[KeySpec] = &[KeySpec::first(DROP)];
pub(super) const TAKE_KEY: &[KeySpec] = &[KeySpec::first(TAKE)];
pub(super) const REPLACE_KEY: &[KeySpec] = &[KeySpec::first(REPLACE)];

// All arguments.
pub(super) const READ_ALL: &[KeySpec] = &[KeySpec::all_from(1, READ)];
pub(super) const LOOK_ALL: &[KeySpec] = &[KeySpec::all_from(1, LOOK)];
pub(super) const REMOVE_ALL: &[KeySpec] =
    &[KeySpec::all_from(1, &[KeyFlag::Remove, KeyFlag::Delete])];
/// Before a time to wait.
pub(super) const TAKE_ALL_BUT_LAST: &[KeySpec] = &[KeySpec::range(1, -2, 1, TAKE)];

// As many as a number before them says.
pub(super) const READ_COUNTED: &[KeySpec] = &[KeySpec::counted(1, READ)];
pub(super) const TAKE_COUNTED: &[KeySpec] = &[KeySpec::counted(1, TAKE)];
/// Behind a time to wait.
pub(super) const WAIT_COUNTED: &[KeySpec] = &[KeySpec::counted(2, TAKE)];

// The second argument, as with subcommands.
pub(super) const LOOK_SECOND: &[KeySpec] = &[KeySpec::second(LOOK)];

// From one key to another.
pub(super) const MOVE_ITEM: &[KeySpec] = &[KeySpec::first(TAKE), KeySpec::second(ADD)];
pub(super) const STORE_ONE: &[KeySpec] = &[KeySpec::first(REPLACE), KeySpec::second(READ)];
pub(super) const STORE_ALL: &[KeySpec] = &[KeySpec::first(REPLACE), KeySpec::all_from(2, READ)];
pub(super) const STORE_COUNTED: &[KeySpec] = &[KeySpec::first(REPLACE), KeySpec::counted(2, READ)];
