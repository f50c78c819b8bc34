//! Loads the function libraries of a file.

use undercroft_commands::reply::{Recorder, Tree};
use undercroft_embedded::OpenStore;
use undercroft_engine::rdb::dump_libraries;

use crate::failure::Failure;

/// Loads all function libraries or none. `replaces` allows them to replace libraries of the store.
pub(super) fn load_libraries(
    open: &OpenStore,
    texts: &[Vec<u8>],
    replaces: bool,
) -> Result<(), Failure> {
    if texts.is_empty() {
        return Ok(());
    }
    let payload = dump_libraries(texts.iter().map(Vec::as_slice));
    let policy: &[u8] = if replaces { b"REPLACE" } else { b"APPEND" };
    let (mut session, mut recorder) = (open.session(), Recorder::new());
    let words: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", &payload, policy];
    open.execute(&mut session, &words, &mut recorder)
        .map_err(Failure::new)?;
    let replies = recorder.finish().unwrap_or_default();
    match replies.into_iter().next_back() {
        Some(Tree::Error(error)) => Err(Failure::new(format_args!(
            "loading the function libraries of the file: {error}"
        ))),
        _ => Ok(()),
    }
}
