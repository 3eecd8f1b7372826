//! In the place of the exporter where a program is built without it: it refuses to start.

use tokio_util::sync::CancellationToken;

use super::{LEFT_OUT, Teller, Traces};
use crate::left_out::LeftOut;

/// It is left out of this program.
pub const MISSING: Option<LeftOut> = Some(LEFT_OUT);

impl Traces {
    /// Refuses.
    ///
    /// # Errors
    /// [`LeftOut`], always.
    pub fn start(_: Teller<'_>, _: CancellationToken) -> Result<Self, LeftOut> {
        Err(LEFT_OUT)
    }
}
