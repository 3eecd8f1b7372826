//! What this node shows of itself to operators: figures and health. It looks, and changes nothing.

mod connections;
mod face;
mod figures;

pub use face::{Face, bind, serve};
