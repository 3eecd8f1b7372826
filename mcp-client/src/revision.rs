//! The revisions of the protocol, and what a request has in each. PURE.

use serde_json::{Map, Value, json};

use crate::identity::ClientIdentity;

/// The revision without a handshake: each request says what the client is.
pub(crate) const STATELESS: &str = "2026-07-28";

/// The revisions with a handshake, newest first.
const WITH_HANDSHAKE: [&str; 5] = [
    "2025-11-25",
    "2025-06-18",
    "2025-03-26",
    "2024-11-05",
    "2024-10-07",
];

/// The revision that a handshake asks for.
pub(crate) const ASKED: &str = WITH_HANDSHAKE[0];

/// How both sides speak with each other, once it is agreed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Revision {
    /// Its date; empty before it is agreed.
    pub(crate) version: String,
    /// The session over HTTP.
    pub(crate) session: Option<String>,
}

impl Revision {
    /// Before a handshake.
    pub(crate) const fn unknown() -> Self {
        Self {
            version: String::new(),
            session: None,
        }
    }

    /// The revision without a handshake.
    pub(crate) fn stateless() -> Self {
        Self {
            version: STATELESS.to_owned(),
            session: None,
        }
    }

    /// The revision that a handshake has agreed on. A server that names none means the one that was asked
    /// for.
    ///
    /// # Errors
    /// The revision of the server, which this client does not speak.
    pub(crate) fn agreed(initialized: &Value) -> Result<Self, String> {
        let version = match initialized.get("protocolVersion") {
            None | Some(Value::Null) => ASKED,
            Some(Value::String(version)) => version,
            Some(other) => return Err(other.to_string()),
        };
        if version != STATELESS && !WITH_HANDSHAKE.contains(&version) {
            return Err(version.chars().take(100).collect());
        }
        Ok(Self {
            version: version.to_owned(),
            session: None,
        })
    }

    pub(crate) fn is_stateless(&self) -> bool {
        self.version == STATELESS
    }

    /// Whether the server may have said by this status that it does not know the session. It is 404; some say
    /// 400 or 401.
    pub(crate) const fn may_be_lost(&self, status: u16) -> bool {
        self.session.is_some() && matches!(status, 400 | 401 | 404)
    }

    /// The parameters with all that a request has in this revision. `progress`: the token of its progress.
    pub(crate) fn params(
        &self,
        mut params: Map<String, Value>,
        client: ClientIdentity,
        progress: Option<u64>,
    ) -> Map<String, Value> {
        let mut meta = Map::new();
        if self.is_stateless() {
            let words = client_words(client);
            meta.insert(
                "io.modelcontextprotocol/protocolVersion".to_owned(),
                STATELESS.into(),
            );
            meta.insert("io.modelcontextprotocol/clientInfo".to_owned(), words);
            meta.insert(
                "io.modelcontextprotocol/clientCapabilities".to_owned(),
                capabilities(client),
            );
        }
        if let Some(token) = progress {
            meta.insert("progressToken".to_owned(), token.into());
        }
        if !meta.is_empty() {
            params.insert("_meta".to_owned(), meta.into());
        }
        params
    }
}

/// The parameters of the handshake.
pub(crate) fn handshake(client: ClientIdentity) -> Map<String, Value> {
    Map::from_iter([
        ("protocolVersion".to_owned(), ASKED.into()),
        ("capabilities".to_owned(), capabilities(client)),
        ("clientInfo".to_owned(), client_words(client)),
    ])
}

fn client_words(client: ClientIdentity) -> Value {
    json!({"name": client.name, "version": client.version})
}

fn capabilities(client: ClientIdentity) -> Value {
    if client.asks {
        json!({"elicitation": {"form": {}, "url": {}}})
    } else {
        json!({})
    }
}

/// The name that a server gives itself, in the answer to a handshake or to `server/discover`.
pub(crate) fn server_name(result: &Value) -> Option<String> {
    let info = result
        .get("serverInfo")
        .or_else(|| result.get("_meta")?.get("io.modelcontextprotocol/serverInfo"))?;
    let name = info.get("name")?.as_str()?.trim();
    (!name.is_empty()).then(|| name.chars().take(200).collect())
}

/// Whether a server that was discovered speaks the revision without a handshake.
///
/// # Errors
/// The revisions that it speaks.
pub(crate) fn discovered(result: &Value) -> Result<(), String> {
    let supported = result.get("supportedVersions").and_then(Value::as_array);
    let mut names = supported.into_iter().flatten().filter_map(Value::as_str);
    if names.any(|name| name == STATELESS) {
        return Ok(());
    }
    let shown = result.get("supportedVersions").unwrap_or(result).to_string();
    Err(shown.chars().take(300).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientIdentity = ClientIdentity {
        name: "c",
        version: "1",
        asks: true,
    };

    #[test]
    fn only_known_revisions_are_spoken() {
        let agreed = |version: Value| Revision::agreed(&json!({"protocolVersion": version}));
        assert_eq!(agreed(json!("2024-11-05")).unwrap().version, "2024-11-05");
        assert!(agreed(json!("2026-07-28")).unwrap().is_stateless());
        assert_eq!(Revision::agreed(&json!({})).unwrap().version, ASKED);
        assert_eq!(agreed(json!("2031-01-01")).unwrap_err(), "2031-01-01");
        assert_eq!(agreed(json!(7)).unwrap_err(), "7");
        assert!(discovered(&json!({"supportedVersions": [1, "2026-07-28"]})).is_ok());
        assert_eq!(
            discovered(&json!({"supportedVersions": ["2031-01-01"]})).unwrap_err(),
            r#"["2031-01-01"]"#
        );
    }

    #[test]
    fn each_stateless_request_says_what_the_client_is() {
        let params = Revision::stateless().params(Map::new(), CLIENT, Some(3));
        assert_eq!(
            Value::Object(params),
            json!({"_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
                "progressToken": 3,
            }})
        );
        let revision = Revision::agreed(&json!({})).unwrap();
        assert_eq!(
            Value::Object(revision.params(Map::new(), CLIENT, None)),
            json!({})
        );
    }

    #[test]
    fn a_server_is_named_where_it_says_so() {
        assert_eq!(
            server_name(&json!({"serverInfo": {"name": "clock"}})).unwrap(),
            "clock"
        );
        let meta = json!({"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "clock"}}});
        assert_eq!(server_name(&meta).unwrap(), "clock");
        assert_eq!(server_name(&json!({"serverInfo": {"name": " "}})), None);
        assert_eq!(server_name(&json!({})), None);
    }
}
