//! How an agent outside is spoken to: what its card lists, and which of it is chosen. PURE.
//!
//! The one rule: 1.0 before 0.3, and within a version what the card prefers.

use http::Uri;
use serde_json::{Map, Value};

use super::fault::Fault;
use crate::a2a::{fields::Fields, version::Version};

/// Interfaces of a card that are looked at; agents have a handful.
const MOST: usize = 64;

/// How requests are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Binding {
    JsonRpc,
    Rest,
    Grpc,
}

impl Binding {
    /// As cards and notes write it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::Rest => "HTTP+JSON",
            Self::Grpc => "GRPC",
        }
    }

    pub(crate) fn read(word: &str) -> Option<Self> {
        [Self::JsonRpc, Self::Rest, Self::Grpc]
            .into_iter()
            .find(|binding| binding.word() == word)
    }
}

/// A way of reaching an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Interface {
    /// Where; for gRPC its scheme, host and port count.
    pub(crate) url: String,
    pub(crate) binding: Binding,
    pub(crate) version: Version,
    /// Which agent there, if one place serves several; may be empty.
    pub(crate) tenant: String,
}

impl Interface {
    /// Whether it is REST as 0.3 has it.
    pub(crate) fn is_old_rest(&self) -> bool {
        self.binding == Binding::Rest && self.version == Version::V03
    }
}

/// The way that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) interface: Interface,
    /// Whether the agent tells what happens as it happens.
    pub(crate) streaming: bool,
}

/// Chooses from the card that was found at `at`.
pub(crate) fn choose(card: Value, at: &Uri) -> Result<Choice, Fault> {
    let unreadable =
        |error: crate::a2a::error::A2aError| Fault::last(format!("its card cannot be read: {error}"));
    let mut fields = Fields::of(card, "card").map_err(unreadable)?;
    let streaming = fields
        .fields("capabilities")
        .and_then(|capabilities| {
            capabilities.map_or(Ok(None), |mut capabilities| capabilities.flag("streaming"))
        })
        .map_err(unreadable)?
        .unwrap_or(false);
    let mut listed = Vec::new();
    for interface in fields
        .list("supportedInterfaces")
        .map_err(unreadable)?
        .into_iter()
        .take(MOST)
    {
        listed.extend(
            interface
                .as_object()
                .and_then(|interface| listed_in(interface, "protocolBinding", None, at)),
        );
    }
    let version = fields.text("protocolVersion").map_err(unreadable)?;
    let old = version.as_deref().filter(|version| version.starts_with("0.3"));
    if let (Some(old), Some(url)) = (old, fields.text("url").map_err(unreadable)?) {
        let preferred = fields.text("preferredTransport").map_err(unreadable)?;
        let mut first = Map::new();
        first.insert("url".to_owned(), url.into());
        first.insert(
            "transport".to_owned(),
            preferred.unwrap_or_else(|| "JSONRPC".to_owned()).into(),
        );
        listed.extend(listed_in(&first, "transport", Some(old), at));
        for interface in fields
            .list("additionalInterfaces")
            .map_err(unreadable)?
            .into_iter()
            .take(MOST)
        {
            listed.extend(
                interface
                    .as_object()
                    .and_then(|interface| listed_in(interface, "transport", Some(old), at)),
            );
        }
    }
    let newest = listed.iter().find(|interface| interface.version == Version::V10);
    let Some(interface) = newest.or(listed.first()).cloned() else {
        return Err(Fault::last(
            "its card lists no interface that this node speaks: JSONRPC, HTTP+JSON or GRPC, of 1.0 or 0.3",
        ));
    };
    Ok(Choice { interface, streaming })
}

/// An interface that a card lists, if it is spoken here. `version`: of all that are listed so.
fn listed_in(
    listed: &Map<String, Value>,
    binding: &str,
    version: Option<&str>,
    at: &Uri,
) -> Option<Interface> {
    let text = |name: &str| listed.get(name).and_then(Value::as_str).unwrap_or_default();
    let binding = Binding::read(text(binding))?;
    let version = match version.unwrap_or(text("protocolVersion")) {
        version if version == "1.0" || version.starts_with("1.0.") => Version::V10,
        version if version == "0.3" || version.starts_with("0.3.") => Version::V03,
        _ => return None,
    };
    Some(Interface {
        url: absolute(text("url"), binding, at)?,
        binding,
        version,
        tenant: text("tenant").to_owned(),
    })
}

/// A card's URL whole: some are paths on the card's host, and those of gRPC are often `HOST:PORT`.
fn absolute(url: &str, binding: Binding, at: &Uri) -> Option<String> {
    let scheme = at.scheme_str()?;
    let whole = if url.starts_with("http://") || url.starts_with("https://") {
        url.to_owned()
    } else if url.starts_with('/') {
        format!("{scheme}://{}{url}", at.authority()?)
    } else if binding == Binding::Grpc && !url.is_empty() {
        format!("{scheme}://{url}")
    } else {
        return None;
    };
    let whole = whole.trim_end_matches('/').to_owned();
    let uri: Uri = whole.parse().ok()?;
    let authority = uri.authority()?;
    (!authority.as_str().contains('@') && whole.len() <= 2048).then_some(whole)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chosen(card: Value) -> Result<Choice, Fault> {
        choose(card, &"https://host/.well-known/agent-card.json".parse().unwrap())
    }

    fn interface(url: &str, binding: &str, version: &str) -> Value {
        json!({"url": url, "protocolBinding": binding, "protocolVersion": version})
    }

    #[test]
    fn the_newer_version_and_then_the_cards_order_count() {
        let card = json!({
            "capabilities": {"streaming": true},
            "supportedInterfaces": [
                interface("https://host/old", "JSONRPC", "0.3"),
                interface("p2p://x", "urn:x", "1.0"),
                interface("host:50051", "GRPC", "1.0"),
                interface("/rpc/", "JSONRPC", "1.0"),
            ],
        });
        let choice = chosen(card).unwrap();
        assert!(choice.streaming);
        assert_eq!(
            (choice.interface.url.as_str(), choice.interface.binding),
            ("https://host:50051", Binding::Grpc)
        );
    }

    #[test]
    fn a_card_of_0_3_is_read() {
        let card = json!({"protocolVersion": "0.3.0", "url": "https://host/a2a/", "preferredTransport": "GRPC",
            "additionalInterfaces": [{"url": "/rpc", "transport": "JSONRPC"}]});
        let choice = chosen(card).unwrap();
        assert_eq!(
            (choice.interface.url.as_str(), choice.interface.binding),
            ("https://host/a2a", Binding::Grpc)
        );
        assert_eq!(
            (choice.interface.version, choice.streaming),
            (Version::V03, false)
        );
    }

    #[test]
    fn rest_of_0_3_is_spoken_and_a_card_may_prefer_it() {
        let card = json!({"protocolVersion": "0.3.0", "url": "https://host/rest", "preferredTransport": "HTTP+JSON",
            "additionalInterfaces": [{"url": "https://host/rpc", "transport": "JSONRPC"}]});
        let choice = chosen(card).unwrap();
        assert!(choice.interface.is_old_rest() && choice.interface.url == "https://host/rest");
    }

    #[test]
    fn what_is_not_spoken_is_refused() {
        for card in [
            json!({}),
            json!([]),
            json!({"protocolVersion": "0.2.6", "url": "https://host/"}),
            json!({"supportedInterfaces": [interface("https://user:pass@host/", "JSONRPC", "1.0")]}),
            json!({"supportedInterfaces": [interface("ftp://host/", "JSONRPC", "1.0"), 7, null]}),
            json!({"supportedInterfaces": [interface("https://host/", "JSONRPC", "2.0")]}),
            json!({"supportedInterfaces": "https://host/"}),
        ] {
            assert!(chosen(card.clone()).is_err(), "{card}");
        }
    }
}
