//! What this node shows of itself to operators: figures and health. It looks, and changes nothing.

mod face;
mod figures;

pub(crate) use face::Counted;
pub use face::{Face, bind, serve};
