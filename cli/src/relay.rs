//! The relay as a part of this program, by its name or as `anycast relay`. Without the feature `relay` it refuses.

#[cfg(not(feature = "relay"))]
#[path = "relay/no_program.rs"]
mod program;
#[cfg(feature = "relay")]
mod program;

pub(crate) use program::main_with_args;
