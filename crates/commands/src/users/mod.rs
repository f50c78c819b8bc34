//! Users and their rights (ACL), as in Redis 7.0.
//!
//! Users are kept in the store, so that all its servers agree. Only clients of servers have users: a
//! process that maps the store is trusted. A user has a root selector and further selectors, and may
//! do whatever any single one of them allows. `context` asks this module before every command.
//!
//! `session`, `context`, `handlers` and programs that serve a store call this module.
//!
//! - `change`: changes the users in the store.
//! - `check`: decides whether a user may run a command.
//! - `command_set`: defines a set of commands, and the commands that rules can name.
//! - `definitions`: parses the lines that define users in files.
//! - `describe`: describes the commands of a selector by as few rules as Redis does.
//! - `file`: reads and replaces the file of users (`aclfile`).
//! - `log`: records what was denied, for ACL LOG.
//! - `password`: hashes and compares passwords.
//! - `rule`: defines how rules fail, and joins the arguments that form one rule.
//! - `selector`: defines the commands, keys and channels that a selector allows.
//! - `stored`: reads the users in the store, and caches them in this process.
//! - `user`: defines a user, and applies rules to it.

mod change;
mod check;
mod command_set;
mod definitions;
mod describe;
mod file;
mod log;
mod password;
mod rule;
mod selector;
mod stored;
mod user;

pub(crate) use change::{NewUsers, UserChange, change, user_to_change};
pub use change::{load_users, set_default_password};
pub(crate) use check::{Denial, check, check_reading_any_key};
pub(crate) use definitions::users_of_file;
pub use definitions::{UserDefinition, definitions_of_file};
pub(crate) use file::write_file;
pub use file::{read_file, read_regular_file};
pub(crate) use log::{AclLog, DeniedCall, Reason};
pub(crate) use rule::{is_word, join_selectors};
pub(crate) use selector::Selector;
pub use stored::{UserCache, Users};
pub use user::User;
