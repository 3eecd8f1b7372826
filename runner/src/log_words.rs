//! What of the words of programs, services and tasks the log shows: nothing, but on the terminal of `anycast run`, whose user is
//! the program's own. They may be secrets, and a log is read by others: by `anycast bugreport`, for one.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Set once, before the first program is started.
static ARE_SHOWN: AtomicBool = AtomicBool::new(false);

/// In the place of words that are not shown.
const HIDDEN: &str = "not shown in a log";

/// From now on the log shows what programs say: it is a terminal, and that of their user.
pub fn show_words_of_programs() {
    ARE_SHOWN.store(true, Relaxed);
}

/// Whether the log shows what programs say.
pub(crate) fn are_shown() -> bool {
    ARE_SHOWN.load(Relaxed)
}

/// These words of a program, a service or a task, as the log shows them.
pub(crate) fn said(words: &str) -> &str {
    if are_shown() { words } else { HIDDEN }
}
