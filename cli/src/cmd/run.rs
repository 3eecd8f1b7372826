//! `anycast run`: a program, or whatever else a backend of the runner knows, as an agent of the daemon, until Ctrl-C.
//! Without the feature `run` it refuses.

#[cfg(not(feature = "run"))]
mod disabled;
#[cfg(feature = "run")]
mod enabled;
#[cfg(feature = "run")]
mod who_may_use;

#[cfg(not(feature = "run"))]
pub(crate) use disabled::{run, run_helper};
#[cfg(feature = "run")]
pub(crate) use enabled::{run, run_helper};
