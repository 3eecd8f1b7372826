//! What our daemons have in common as programs: settings, log, descriptors.
//!
//! Floor 1: it knows no protocol and no crate of ours. `settings` is pure; `logging` and `process` touch this
//! process and nothing else.

pub mod logging;
pub mod process;
pub mod settings;
