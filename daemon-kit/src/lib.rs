//! What our daemons have in common as programs: settings, log, start and end, descriptors, ports, traces.
//!
//! Floor 1: it knows no protocol and no crate of ours. `settings`, `address`, `duration`, `error_chain`, `json_lines`,
//! `sanitize` and `spans` are pure; `logging` and `process` touch this process and nothing else; `listening` and `resolver`
//! look at this host; `service_manager` tells who started the program, `traces` a collector.
//!
//! Feature `program`: what only a program needs. Without it the crate has no network, no runtime and no log of its own.

pub mod address;
pub mod duration;
pub mod error_chain;
pub mod file_version;
#[cfg(feature = "corpus")]
pub mod fuzz_corpus;
#[cfg(feature = "program")]
pub mod hot_reload;
pub mod json_lines;
#[cfg(feature = "program")]
pub mod listening;
#[cfg(feature = "log-capture")]
pub mod log_capture;
#[cfg(feature = "program")]
pub mod logging;
#[cfg(feature = "pages")]
pub mod manpages;
pub mod missing_feature;
#[cfg(feature = "program")]
pub mod nearest;
#[cfg(feature = "program")]
pub mod process;
#[cfg(feature = "resolver")]
pub mod resolver;
pub mod sanitize;
#[cfg(feature = "program")]
pub mod service_manager;
#[cfg(feature = "program")]
pub mod settings;
pub mod spans;
#[cfg(feature = "program")]
pub mod traces;

/// What `--version` says behind a program's name: the version, in brackets the commit where it is known, and the target.
pub const VERSION: &str = env!("AGENTANYCAST_VERSION");

/// The commit in it; empty where it is not known.
pub const REVISION: &str = env!("AGENTANYCAST_BUILT_FROM");
