//! What the daemon runs of the bridge: fronts for clients outside, tasks that are sent by URL, documents of the web.

mod fronts;
mod local;
mod outbound;

use agentanycast_program::missing_feature::MissingFeature;

pub use agentanycast_bridge::fetch::{FetchError, Fetcher};
pub(crate) use fronts::{Counted, Fronts};
pub(crate) use outbound::start as start_outbound;

/// It is in this program.
pub const MISSING: Option<MissingFeature> = None;
