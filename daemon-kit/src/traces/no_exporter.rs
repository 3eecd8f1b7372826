//! In the place of the exporter where a program is built without it: it refuses to start.

use tokio_util::sync::CancellationToken;

use super::{LEFT_OUT, TraceExporter, Traces};
use crate::missing_feature::MissingFeature;

/// It is left out of this program.
pub const MISSING: Option<MissingFeature> = Some(LEFT_OUT);

impl Traces {
    /// Refuses.
    ///
    /// # Errors
    /// [`MissingFeature`], always.
    pub fn start(_: TraceExporter<'_>, _: CancellationToken) -> Result<Self, MissingFeature> {
        Err(LEFT_OUT)
    }
}
