//! How an agent outside is spoken to: what its card lists, and which of it is chosen. PURE.
//!
//! The one rule: 1.0 before 0.3, and within a version what the card prefers.

use agentanycast_daemon_kit::address::bare_url;
use http::{Uri, uri::Authority};
use serde_json::{Map, Value};

use super::error::OutboundError;
use crate::protocol::{object_reader::ObjectReader, version::Version};

/// Interfaces of a card that are looked at; agents have a handful.
const MOST: usize = 64;

/// Interfaces with a bad URL that are told, and most of such a URL, in characters.
const TOLD: usize = 3;
const LONGEST_TOLD: usize = 100;

/// Longest name of a binding that is read, in bytes.
const LONGEST_BINDING: usize = 32;

/// Longest URL of an interface, in bytes.
const MAX_URL: usize = 2048;

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

    /// The binding of that name, in any case and with any signs between its letters.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        if word.len() > LONGEST_BINDING || word.contains(':') {
            return None;
        }
        let letters = word.bytes().filter(u8::is_ascii_alphanumeric);
        let letters: Vec<u8> = letters.map(|letter| letter.to_ascii_uppercase()).collect();
        match &letters[..] {
            b"JSONRPC" | b"JSONRPC20" => Some(Self::JsonRpc),
            b"HTTPJSON" | b"REST" => Some(Self::Rest),
            b"GRPC" => Some(Self::Grpc),
            _ => None,
        }
    }
}

/// A way of reaching an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RemoteInterface {
    /// Where; for gRPC its scheme, host and port count.
    pub(crate) url: String,
    pub(crate) binding: Binding,
    pub(crate) version: Version,
    /// Which agent there, if one place serves several; may be empty.
    pub(crate) tenant: String,
}

impl RemoteInterface {
    /// Whether it is REST as 0.3 has it.
    pub(crate) fn is_rest_v0_3(&self) -> bool {
        self.binding == Binding::Rest && self.version == Version::V03
    }
}

/// The way that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceChoice {
    pub(crate) interface: RemoteInterface,
    /// Whether the agent tells what happens as it happens.
    pub(crate) streaming: bool,
}

/// Chooses from the card that was found at `at`.
pub(crate) fn choose(card: Value, at: &Uri) -> Result<InterfaceChoice, OutboundError> {
    let unreadable = |error: crate::protocol::error::A2aError| {
        OutboundError::permanent(format!("its card cannot be read: {error}"))
    };
    let mut fields = ObjectReader::new(card, "card").map_err(unreadable)?;
    let streaming = fields
        .nested("capabilities")
        .and_then(|capabilities| {
            capabilities.map_or(Ok(None), |mut capabilities| capabilities.flag("streaming"))
        })
        .map_err(unreadable)?
        .unwrap_or(false);
    let mut listed = CardInterfaces::new(at);
    let version = fields.text("protocolVersion").map_err(unreadable)?;
    let version = version
        .as_deref()
        .map(str::trim)
        .filter(|version| !version.is_empty());
    for interface in fields.list("supportedInterfaces").map_err(unreadable)? {
        // Only cards of 1.0 have this list, and each of its interfaces should say its version. That of the card may be
        // said for those who know 0.3 alone.
        listed.put(
            interface.as_object(),
            "protocolBinding",
            None,
            version
                .filter(|version| !version.starts_with("0."))
                .unwrap_or("1.0"),
        );
    }
    if let Some(url) = fields.text("url").map_err(unreadable)? {
        // A card of 0.3 is one with a URL of its own, unless it says another version.
        let old = version.unwrap_or("0.3");
        let preferred = fields.text("preferredTransport").map_err(unreadable)?;
        let mut first = Map::new();
        first.insert("url".to_owned(), url.into());
        first.insert(
            "transport".to_owned(),
            preferred.unwrap_or_else(|| "JSONRPC".to_owned()).into(),
        );
        listed.put(Some(&first), "transport", Some(old), old);
        for interface in fields.list("additionalInterfaces").map_err(unreadable)? {
            listed.put(interface.as_object(), "transport", Some(old), old);
        }
    }
    let interface = listed.best()?;
    Ok(InterfaceChoice { interface, streaming })
}

/// What a card lists.
struct CardInterfaces<'a> {
    /// Where the card is.
    at: &'a Uri,
    seen: usize,
    spoken: Vec<RemoteInterface>,
    /// Those that would be spoken if their URLs were good, for people.
    bad: Vec<String>,
    /// Those of other bindings and versions, for people.
    foreign: Vec<String>,
}

impl<'a> CardInterfaces<'a> {
    fn new(at: &'a Uri) -> Self {
        Self {
            at,
            seen: 0,
            spoken: Vec::new(),
            bad: Vec::new(),
            foreign: Vec::new(),
        }
    }

    /// Takes an interface, if it is spoken here. `version`: of all that are listed so; `usual`: of one that says none.
    fn put(
        &mut self,
        interface: Option<&Map<String, Value>>,
        binding: &str,
        version: Option<&str>,
        usual: &str,
    ) {
        self.seen += 1;
        let Some(interface) = interface.filter(|_| self.seen <= MOST) else {
            return;
        };
        let text = |name: &str| interface.get(name).and_then(Value::as_str).unwrap_or_default();
        // Some cards of 1.0 call it as 0.3 does.
        let named = [text(binding), text("transport")]
            .into_iter()
            .find(|name| !name.is_empty());
        let named = named.unwrap_or_default();
        let said = [version.unwrap_or(text("protocolVersion")).trim(), usual];
        let said = said
            .into_iter()
            .find(|version| !version.is_empty())
            .unwrap_or_default();
        let (Some(binding), Some(version)) = (Binding::parse(named), Version::parse(said)) else {
            self.foreign
                .push(format!("{:?} of version {:?}", short(named), short(said)));
            return;
        };
        match absolute(text("url"), binding, self.at) {
            Ok(url) => self.spoken.push(RemoteInterface {
                url,
                binding,
                version,
                tenant: text("tenant").to_owned(),
            }),
            Err(why) => self.bad.push(format!(
                "{} {} at {:?}: {why}",
                binding.word(),
                version.as_str(),
                shown(text("url"))
            )),
        }
    }

    /// The one that is taken.
    fn best(self) -> Result<RemoteInterface, OutboundError> {
        let newest = self
            .spoken
            .iter()
            .find(|interface| interface.version == Version::V10);
        if let Some(interface) = newest.or(self.spoken.first()) {
            return Ok(interface.clone());
        }
        if self.bad.is_empty() {
            let listed: Vec<&str> = self.foreign.iter().take(TOLD).map(String::as_str).collect();
            let listed = match listed[..] {
                [] => "it lists none".to_owned(),
                _ => format!("it lists {}", listed.join(", ")),
            };
            return Err(OutboundError::permanent(format!(
                "its card lists no interface that this node speaks, which are JSONRPC, HTTP+JSON and GRPC, of 1.0 \
                 or 0.3: {listed}"
            )));
        }
        let told: Vec<&str> = self.bad.iter().take(TOLD).map(String::as_str).collect();
        Err(OutboundError::permanent(format!(
            "no interface that its card lists has a URL that can be called: {}",
            told.join("; ")
        )))
    }
}

/// A name out of a card, cut short.
fn short(name: &str) -> String {
    name.chars().take(LONGEST_BINDING).collect()
}

/// What a card has for a URL, as people may see it.
fn shown(url: &str) -> String {
    bare_url(url).chars().take(LONGEST_TOLD).collect()
}

/// A card's URL whole: some are paths on the card's host, and those of gRPC are often `HOST:PORT`.
fn absolute(url: &str, binding: Binding, at: &Uri) -> Result<String, String> {
    let scheme = at.scheme_str().unwrap_or("https");
    let whole = if url.starts_with("http://") || url.starts_with("https://") {
        url.to_owned()
    } else if url.starts_with('/') {
        let authority = at.authority().map_or("", Authority::as_str);
        format!("{scheme}://{authority}{url}")
    } else if url.is_empty() {
        return Err("it is missing".to_owned());
    } else if binding == Binding::Grpc && !url.contains("://") {
        format!("{scheme}://{url}")
    } else {
        return Err("it is neither http nor https".to_owned());
    };
    if whole.ends_with("://") {
        return Err("it names no host".to_owned());
    }
    if whole.len() > MAX_URL {
        return Err(format!("it has more than {MAX_URL} bytes"));
    }
    let uri: Uri = whole.parse().map_err(|error| format!("it is no URL: {error}"))?;
    // Without a scheme the whole text counts as a host.
    match uri.authority().filter(|_| uri.scheme().is_some()) {
        None => Err("it names no host".to_owned()),
        Some(authority) if authority.as_str().contains('@') => Err("it has a user in it".to_owned()),
        Some(authority) if !has_good_port(authority) => Err("its port is no number up to 65535".to_owned()),
        Some(_) => Ok(whole),
    }
}

/// Whether its port, if it has one, is a port.
fn has_good_port(authority: &Authority) -> bool {
    let behind = authority
        .as_str()
        .strip_prefix(authority.host())
        .unwrap_or_default();
    let port = behind.strip_prefix(':').unwrap_or_default();
    port.is_empty() || port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chosen(card: Value) -> Result<InterfaceChoice, OutboundError> {
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
    fn an_interface_of_1_0_may_leave_its_version_out() {
        // As the official SDK of 1.0 serves the card of an agent that speaks 1.0 alone.
        let card = json!({"protocolVersion": "0.3", "url": "https://host/", "preferredTransport": "JSONRPC",
            "supportedInterfaces": [{"url": "https://host/", "protocolBinding": "JSONRPC"}]});
        assert_eq!(chosen(card).unwrap().interface.version, Version::V10);
    }

    #[test]
    fn a_card_of_0_3_is_read() {
        let card = json!({"protocolVersion": "0.3.0", "url": "https://host/a2a/", "preferredTransport": "GRPC",
            "additionalInterfaces": [{"url": "/rpc", "transport": "JSONRPC"}]});
        let choice = chosen(card).unwrap();
        assert_eq!(
            (choice.interface.url.as_str(), choice.interface.binding),
            ("https://host/a2a/", Binding::Grpc)
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
        assert!(choice.interface.is_rest_v0_3() && choice.interface.url == "https://host/rest");
    }

    #[test]
    fn a_url_that_cannot_be_called_is_told() {
        let why = |card: Value| chosen(card).unwrap_err().to_string();
        for (url, binding, told) in [
            (
                "ftp://host/",
                "JSONRPC",
                "JSONRPC 1.0 at \"ftp://host/\": it is neither http nor https",
            ),
            ("ftp://host/", "GRPC", "it is neither http nor https"),
            (
                "https://host:port/",
                "JSONRPC",
                "at \"https://host:port/\": its port is no number up to 65535",
            ),
            ("https://", "HTTP+JSON", "at \"https://\": it names no host"),
            ("https://a b/", "HTTP+JSON", "it is no URL: "),
            ("", "JSONRPC", "at \"\": it is missing"),
            (
                "https://user:pass@host/?key=pass",
                "JSONRPC",
                "at \"https://host/\": it has a user in it",
            ),
        ] {
            let why = why(
                json!({"supportedInterfaces": [interface("p2p://x", "urn:x", "1.0"), interface(url, binding, "1.0")]}),
            );
            assert!(why.contains(told) && !why.contains("pass"), "{url}: {why}");
        }
        let old = why(json!({"protocolVersion": "0.3.0", "url": "a b"}));
        assert!(old.contains("JSONRPC 0.3 at \"a b\""), "{old}");
        let long = format!("https://{}", "x".repeat(MAX_URL));
        let many: Vec<Value> = (0..50).map(|_| interface(&long, "JSONRPC", "1.0")).collect();
        let many = why(json!({ "supportedInterfaces": many }));
        assert!(
            many.len() < 500 && many.contains("more than 2048 bytes"),
            "{many}"
        );
        // One that is good is enough.
        let card = json!({"supportedInterfaces": [interface("ftp://host/", "JSONRPC", "1.0"), interface("/rpc", "JSONRPC", "0.3")]});
        assert_eq!(chosen(card).unwrap().interface.url, "https://host/rpc");
    }

    #[test]
    fn urls_are_used_as_they_are_given() {
        for url in [
            "https://host/a/",
            "https://host/a",
            "https://host/a/?key=x&y=%2F",
            "https://host",
        ] {
            let card = json!({"supportedInterfaces": [interface(url, "JSONRPC", "1.0")]});
            assert_eq!(chosen(card).unwrap().interface.url, url);
        }
    }

    #[test]
    fn bindings_and_versions_are_known_in_their_usual_spellings() {
        for (word, binding) in [
            ("jsonrpc", Binding::JsonRpc),
            ("JSON-RPC", Binding::JsonRpc),
            ("json_rpc_2.0", Binding::JsonRpc),
            ("http+json", Binding::Rest),
            ("HTTP_JSON", Binding::Rest),
            ("rest", Binding::Rest),
            ("gRPC", Binding::Grpc),
        ] {
            assert_eq!(Binding::parse(word), Some(binding), "{word}");
        }
        for word in [
            "",
            "http",
            "grpc-web",
            "urn:x:GRPC",
            "G:R:P:C",
            "-".repeat(99).as_str(),
        ] {
            assert_eq!(Binding::parse(word), None, "{word}");
        }
        for (said, version) in [
            ("1.0", Some(Version::V10)),
            ("1", Some(Version::V10)),
            ("v1.0.3", Some(Version::V10)),
            ("0.3.0", Some(Version::V03)),
            ("0.2.6", Some(Version::V03)),
            ("0.1", None),
            ("1.1", None),
            ("2.0", None),
            ("", None),
            ("latest", None),
        ] {
            assert_eq!(Version::parse(said), version, "{said}");
        }
    }

    #[test]
    fn a_card_with_a_url_and_no_version_is_one_of_0_3() {
        for card in [
            json!({"url": "https://host/a"}),
            json!({"url": "https://host/a", "protocolVersion": "", "preferredTransport": "jsonrpc"}),
            json!({"url": "https://host/a", "protocolVersion": "0.2.5"}),
        ] {
            let interface = chosen(card).unwrap().interface;
            assert_eq!(
                (interface.version, interface.binding, interface.url.as_str()),
                (Version::V03, Binding::JsonRpc, "https://host/a")
            );
        }
        let newer = chosen(json!({"url": "https://host/a", "protocolVersion": "1.0"})).unwrap();
        assert_eq!(newer.interface.version, Version::V10);
        let silent =
            json!({"supportedInterfaces": [{"url": "https://host/a", "protocolBinding": "JSONRPC"}]});
        assert_eq!(chosen(silent).unwrap().interface.version, Version::V10);
    }

    #[test]
    fn what_is_refused_is_named() {
        let why = |card: Value| chosen(card).unwrap_err().to_string();
        let new = why(json!({"supportedInterfaces": [interface("https://host/", "JSONRPC", "9.0")]}));
        assert!(new.contains("\"JSONRPC\" of version \"9.0\""), "{new}");
        let old = why(json!({"protocolVersion": "0.1.9", "url": "https://host/"}));
        assert!(old.contains("\"JSONRPC\" of version \"0.1.9\""), "{old}");
        let binding = why(json!({"supportedInterfaces": [interface("https://host/", "SLIM", "1.0")]}));
        assert!(binding.contains("\"SLIM\" of version \"1.0\""), "{binding}");
        assert!(why(json!({})).ends_with("it lists none"));
    }

    #[test]
    fn what_is_not_spoken_is_refused() {
        for card in [
            json!({}),
            json!([]),
            json!({"protocolVersion": "0.1.0", "url": "https://host/"}),
            json!({"protocolVersion": "2.0", "url": "https://host/"}),
            json!({"supportedInterfaces": [interface("https://user:pass@host/", "JSONRPC", "1.0")]}),
            json!({"supportedInterfaces": [interface("ftp://host/", "JSONRPC", "1.0"), 7, null]}),
            json!({"supportedInterfaces": [interface("https://host/", "JSONRPC", "2.0")]}),
            json!({"supportedInterfaces": "https://host/"}),
        ] {
            assert!(chosen(card.clone()).is_err(), "{card}");
        }
    }
}
