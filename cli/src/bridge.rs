//! The bridge as a part of this program: a program of its own by its name or as `anycast bridge`, and `anycast mcp`. Without
//! the feature `bridge` both refuse.

#[cfg(not(feature = "bridge"))]
#[path = "bridge/no_parts.rs"]
mod parts;
#[cfg(feature = "bridge")]
mod parts;

pub(crate) use parts::{main_with_args, serve_mcp};
