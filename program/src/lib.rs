//! What our daemons have in common as programs: settings, log, start and end, descriptors, ports.
//!
//! Floor 1: it knows no protocol and no crate of ours. `settings` and `address` are pure; `logging` and `process`
//! touch this process and nothing else.

pub mod address;
#[cfg(feature = "corpus")]
pub mod corpus;
pub mod logging;
#[cfg(feature = "pages")]
pub mod pages;
pub mod process;
pub mod settings;

/// What `--version` says behind a program's name: the version, in brackets the commit where it is known, and the target.
pub const VERSION: &str = env!("AGENTANYCAST_VERSION");
