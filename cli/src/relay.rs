//! The relay as a part of this program, by its name or as `anycast relay`. Without the feature `relay` it refuses.

#[cfg(not(feature = "relay"))]
mod disabled;
#[cfg(feature = "relay")]
mod enabled;

#[cfg(not(feature = "relay"))]
pub(crate) use disabled::{command_lines, main_with_args};
#[cfg(feature = "relay")]
pub(crate) use enabled::{command_lines, main_with_args};
