//! Readers for text that programs and servers of others write. Used by every adapter that reads such text.
//!
//! Each reader takes text that has one meaning only and returns an error for all other text. Callers bound
//! the bytes before they call [`json`]; [`sse`] and [`lines`] bound an event and a line themselves. PURE.

pub mod body;
pub mod excerpt;
pub mod gzip;
pub mod halves;
pub mod json;
pub mod lines;
pub mod sse;
