//! What each client of 0.3 puts in the bytes of files, and reads: told by its `User-Agent` where that names a library
//! that is known, else by the files that it sends. REST and gRPC share it, so that a client that sends by one request
//! and reads by the next is answered in its own way.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
};

use agentanycast_front::client_connection::ClientConnection;
use agentanycast_limits::Network;
use lru::LruCache;
use serde_json::Value;

use crate::protocol::v0_3_protojson::{FileEncoding, evidence};

/// Clients that are remembered, at most.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// Most of a `User-Agent` that tells clients apart, in characters.
const MAX_AGENT: usize = 200;

/// Who sends files: the programs of one caller on one network that name themselves alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileClient {
    caller: String,
    network: Option<Network>,
    user_agent: Option<String>,
}

impl FileClient {
    pub(crate) fn new(caller: &str, peer: Option<&ClientConnection>, user_agent: Option<&str>) -> Self {
        Self {
            caller: caller.to_owned(),
            network: peer.map(|peer| peer.network),
            user_agent: user_agent.map(|agent| agent.chars().take(MAX_AGENT).collect()),
        }
    }
}

/// What clients were seen to do.
#[derive(Debug)]
pub(crate) struct ClientFiles(Mutex<LruCache<FileClient, FileEncoding>>);

impl Default for ClientFiles {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl ClientFiles {
    /// What the client reads, and puts in the message that it sends, if it sends this one.
    pub(crate) fn encoding(&self, client: FileClient, sent: Option<&Value>) -> FileEncoding {
        if let Some(known) = FileEncoding::from_user_agent(client.user_agent.as_deref()) {
            return known;
        }
        let told = sent.and_then(evidence);
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Some(told) => {
                clients.put(client, told);
                told
            }
            None => clients.get(&client).copied().unwrap_or(FileEncoding::Bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_client_is_known_by_what_it_has_sent() {
        let clients = ClientFiles::default();
        let client = |caller: &str, agent| FileClient::new(caller, None, Some(agent));
        let go = || client("a", "grpc-go/1.79.0");
        let message = |base64: &str, media_type: &str| json!({"message": {"content": [{"file": {"fileWithBytes": base64, "mimeType": media_type}}]}});
        let text = message("ZEdWemRBPT0=", "text/plain");
        let image = message("aVZCT1J3MEtHZ289", "image/png");
        let bytes = message("iVBORw0KGgo=", "image/png");
        assert_eq!(clients.encoding(go(), Some(&text)), FileEncoding::Bytes);
        assert_eq!(clients.encoding(go(), Some(&image)), FileEncoding::Base64);
        for sent in [None, Some(&text)] {
            assert_eq!(clients.encoding(go(), sent), FileEncoding::Base64);
            for other in [client("b", "grpc-go/1.79.0"), client("a", "grpc-go/1.80.0")] {
                assert_eq!(clients.encoding(other, sent), FileEncoding::Bytes);
            }
        }
        assert_eq!(clients.encoding(go(), Some(&bytes)), FileEncoding::Bytes);
        assert_eq!(clients.encoding(go(), None), FileEncoding::Bytes);
        // A library that is known is believed, whatever its files look like.
        let python = || client("a", "python-httpx/0.28.1");
        assert_eq!(clients.encoding(python(), None), FileEncoding::Base64);
        assert_eq!(clients.encoding(python(), Some(&bytes)), FileEncoding::Base64);
    }
}
