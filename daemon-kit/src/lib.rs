//! What our daemons have in common as programs: settings, log, start and end, descriptors, ports, traces.
//!
//! Floor 1: it knows no protocol and no crate of ours. `settings`, `address`, `duration`, `error_chain`, `json_lines`,
//! `sanitize` and `spans` are pure; `logging` and `process` touch this process and nothing else; `listening` and `resolver`
//! look at this host; `service_manager` tells who started the program, `traces` a collector.

pub mod address;
pub mod duration;
pub mod error_chain;
pub mod file_version;
#[cfg(feature = "corpus")]
pub mod fuzz_corpus;
pub mod hot_reload;
pub mod json_lines;
pub mod listening;
pub mod logging;
#[cfg(feature = "pages")]
pub mod manpages;
pub mod missing_feature;
pub mod nearest;
pub mod process;
#[cfg(feature = "resolver")]
pub mod resolver;
pub mod sanitize;
pub mod service_manager;
pub mod settings;
pub mod spans;
pub mod traces;

/// What `--version` says behind a program's name: the version, in brackets the commit where it is known, and the target.
pub const VERSION: &str = env!("AGENTANYCAST_VERSION");

/// The commit in it; empty where it is not known.
pub const REVISION: &str = env!("AGENTANYCAST_BUILT_FROM");
