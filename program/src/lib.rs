//! What our daemons have in common as programs: settings, log, start and end, descriptors, ports.
//!
//! Floor 1: it knows no protocol and no crate of ours. `settings` and `address` are pure; `logging` and `process`
//! touch this process and nothing else.

pub mod address;
pub mod logging;
pub mod process;
pub mod settings;
