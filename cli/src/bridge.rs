//! The bridge as a part of this program: a program of its own by its name or as `anycast bridge`, and `anycast mcp`. Without
//! the feature `bridge` both refuse.

#[cfg(not(feature = "bridge"))]
mod disabled;
#[cfg(feature = "bridge")]
mod enabled;

#[cfg(not(feature = "bridge"))]
pub(crate) use disabled::{command_lines, main_with_args, serve_mcp};
#[cfg(feature = "bridge")]
pub(crate) use enabled::{command_lines, main_with_args, serve_mcp};
