//! Calls to hosts outside: documents by the client of the egress filter, tasks by URL by the A2A gateway.

use agentanycast_gateway::composition::OutsideCalls;

#[cfg(not(feature = "bridge"))]
pub(crate) const PART: OutsideCalls = OutsideCalls::LeftOut(crate::left_out("bridge", "bridge"));
#[cfg(feature = "bridge")]
pub(crate) const PART: OutsideCalls = OutsideCalls::BuiltIn {
    fetcher: |config| Ok(std::sync::Arc::new(built_in::WebDocuments::new(config)?)),
    carry: agentanycast_a2a::outbound::carry,
};

#[cfg(feature = "bridge")]
mod built_in {
    use std::time::Duration;

    use agentanycast_egress::fetch::Fetcher;
    use agentanycast_gateway::{
        composition::{DocumentFetcher, FetchError},
        settings::outbound::OutboundConfig,
    };
    use bytes::Bytes;

    /// Documents of the web, through the egress filter.
    pub(super) struct WebDocuments(Fetcher);

    impl WebDocuments {
        pub(super) fn new(config: &OutboundConfig) -> anyhow::Result<Self> {
            Ok(Self(Fetcher::new(config)?))
        }
    }

    #[async_trait::async_trait]
    impl DocumentFetcher for WebDocuments {
        async fn get(&self, url: &str, most: usize, within: Duration) -> Result<Bytes, FetchError> {
            let got = self.0.get(url, most, within).await;
            got.map_err(|error| FetchError {
                reason: error.to_string(),
                is_transient: error.is_transient,
            })
        }
    }
}
