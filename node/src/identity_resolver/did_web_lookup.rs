//! Which peers a did:web names, for a person who gives that name for a peer: its document is fetched now. Nothing is kept,
//! and policy does not hear of it.

use std::sync::Arc;

use agentanycast_identity::{DidWeb, Document, DocumentError, InvalidDid, MAX_DOCUMENT, PeerId, Use};

use super::resolvers::WEB_TIMEOUT;
use agentanycast_gateway::composition::{DocumentFetcher, FetchError};

/// Looks up did:web names; cheap to clone.
#[derive(Clone)]
pub struct DidWebLookup {
    fetcher: Arc<dyn DocumentFetcher>,
}

/// Why it is not known whom a name means.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DidWebLookupError {
    /// It is no did:web.
    #[error(transparent)]
    Invalid(#[from] InvalidDid),
    /// Its document cannot be had.
    #[error("the document of {did} cannot be fetched: {error}")]
    Unavailable {
        /// The name.
        did: String,
        /// Why not.
        error: FetchError,
    },
    /// Its document says nothing that counts.
    #[error("the document of {did} cannot be used: {error}")]
    Unusable {
        /// The name.
        did: String,
        /// Why not.
        error: DocumentError,
    },
}

impl DidWebLookup {
    /// They are fetched by this.
    pub fn new(fetcher: Arc<dyn DocumentFetcher>) -> Self {
        Self { fetcher }
    }

    /// The peers whose keys may show themselves by this name, in the order of its document.
    ///
    /// # Errors
    /// See [`DidWebLookupError`].
    pub async fn peers(&self, name: &str) -> Result<Vec<PeerId>, DidWebLookupError> {
        let did: DidWeb = name.parse()?;
        let text = did.to_string();
        let fetched = self.fetcher.get(&did.url(), MAX_DOCUMENT, WEB_TIMEOUT).await;
        let bytes = fetched.map_err(|error| DidWebLookupError::Unavailable {
            did: text.clone(),
            error,
        })?;
        let read = Document::read(&text, &bytes);
        let document = read.map_err(|error| DidWebLookupError::Unusable { did: text, error })?;
        let mut peers = Vec::new();
        for (_, peer) in document.keys(Use::Authentication) {
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        Ok(peers)
    }
}
