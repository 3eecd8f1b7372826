//! What the gateway is told: `[gateways.uamp]`. PURE.

use std::{path::Path, path::PathBuf, time::Duration};

use agentanycast_daemon_kit::{
    key,
    settings::{Bounds, InvalidValue, Json as Value, Raw, Setting, SettingKey, literal},
};
use agentanycast_gateway::Target;
use agentanycast_gateways::part::SettingTables;
use agentanycast_uamp::jws::SignatureForm;
use serde_json::json;

/// Receivers of one envelope, at most: each is a task of its own.
const MOST_RECEIVERS: u64 = 256;

/// Envelopes that are remembered, at most: some 150 bytes each.
const MOST_REPLAYS: u64 = 8 << 20;

/// The settings of the gateway, besides those of its front.
#[derive(Clone, Debug, PartialEq)]
pub struct UampSettings {
    /// The key that signs what the gateway says: a node's key, or an Ed25519 or P-256 key in PEM. Default: the node's own
    /// in a daemon, else none, and the gateway does not start.
    pub key: Option<PathBuf>,
    /// A JWKS or the document of a hub with keys of senders that are not did:key. Default: none.
    pub trust_anchors: Option<PathBuf>,
    /// Whether senders may be did:web whose documents are fetched over https. Default: false.
    pub did_web: bool,
    /// How much the clock of a sender may differ. Default: 5 min.
    pub skew: Duration,
    /// Receivers of one envelope. Default: 16.
    pub max_receivers: u64,
    /// Envelopes that are remembered against replay. Default: 524 288.
    pub max_replays: u64,
    /// Whether each envelope needs a capability token. Default: false.
    pub require_cap_token: bool,
    /// How signatures are written. Default: detached.
    pub emit_sig: EmitSignature,
    /// Senders whose signatures may be over the hash of uamp-js, which does not cover the body. Default:
    /// none.
    pub compat_uamp_js_hash: Vec<String>,
    /// Answer HTTP/1.1 with 426. Default: false.
    pub refuse_http1: bool,
    /// Answer HTTP/3 on the same port of UDP. Default: true.
    pub http3: bool,
    /// What the manifest says of the agent.
    pub description: String,
    /// What senders may call agents of the mesh.
    pub aliases: Vec<UampAlias>,
    /// Whether `uamp+https` URLs may lead to this host and private networks. Default: false.
    pub outbound_private: bool,
    /// Tokens that are shown to hosts of `uamp+https` URLs. Default: none.
    pub outbound_tokens: Vec<HostToken>,
    /// Roots that their certificates may lead to besides the usual ones, PEM. Default: none.
    pub outbound_ca: Option<PathBuf>,
}

impl Default for UampSettings {
    fn default() -> Self {
        Self {
            key: None,
            trust_anchors: None,
            did_web: false,
            skew: Duration::from_mins(5),
            max_receivers: 16,
            max_replays: 512 << 10,
            require_cap_token: false,
            emit_sig: EmitSignature::default(),
            compat_uamp_js_hash: Vec::new(),
            refuse_http1: false,
            http3: true,
            description: "Agents of an AgentAnycast mesh".to_owned(),
            aliases: Vec::new(),
            outbound_private: false,
            outbound_tokens: Vec::new(),
            outbound_ca: None,
        }
    }
}

impl SettingTables for UampSettings {
    #[rustfmt::skip] // A table.
    const OWN: &'static [SettingKey<Self>] = &[
        key!(UampSettings, "key", key).variable("KEY").flag("key", "FILE", "The key that signs what the gateway says: a node's key, or an Ed25519 or P-256 key in PEM"),
        key!(UampSettings, "trust_anchors", trust_anchors).variable("TRUST_ANCHORS").flag("trust-anchors", "FILE", "A JWKS or hub document with keys of senders that are not did:key; read again when it changes"),
        key!(UampSettings, "did_web", did_web).variable("DID_WEB").flag("did-web", "", "Verify senders that are did:web by their documents, fetched over https from public hosts"),
        key!(UampSettings, "skew", skew).variable("SKEW").flag("skew", "TIME", "How much the clock of a sender may differ").bounds(Bounds::Times(Duration::from_secs(1), Duration::from_hours(1))),
        key!(UampSettings, "max_receivers", max_receivers).variable("MAX_RECEIVERS").flag("max-receivers", "N", "Receivers of one envelope").bounds(Bounds::Numbers(1, MOST_RECEIVERS)),
        key!(UampSettings, "max_replays", max_replays).variable("MAX_REPLAYS").flag("max-replays", "N", "Envelopes that are remembered against replay").bounds(Bounds::Numbers(16, MOST_REPLAYS)),
        key!(UampSettings, "require_cap_token", require_cap_token).variable("REQUIRE_CAP_TOKEN").flag("require-cap-token", "", "Take envelopes with a capability token only"),
        key!(UampSettings, "emit_sig", emit_sig).variable("EMIT_SIG").flag("emit-sig", "FORM", "How signatures are written: detached or attached"),
        key!(UampSettings, "compat_uamp_js_hash", compat_uamp_js_hash).variable("COMPAT_UAMP_JS_HASH").flag("compat-uamp-js-hash", "DIDS", "Senders whose signatures may be over the hash of uamp-js, which leaves the body out, comma list"),
        key!(UampSettings, "refuse_http1", refuse_http1).variable("REFUSE_HTTP1").flag("refuse-http1", "", "Answer HTTP/1.1 with 426, and no WebSockets"),
        key!(UampSettings, "http3", http3).variable("HTTP3").flag("http3", "", "Answer HTTP/3 on the same port of UDP"),
        key!(UampSettings, "description", description).variable("DESCRIPTION").flag("description", "TEXT", "What the manifest says of the agent"),
        key!(UampSettings, "aliases", aliases).variable("ALIASES").flag("aliases", "DID=TARGET,…", "What senders may call agents of the mesh"),
        key!(UampSettings, "outbound_private", outbound_private).variable("OUTBOUND_PRIVATE").flag("outbound-private", "", "Let uamp+https URLs lead to this host and private networks"),
        key!(UampSettings, "outbound_tokens", outbound_tokens).variable("OUTBOUND_TOKENS").flag("outbound-tokens", "HOST=FILE,…", "Files with the tokens that are shown to hosts of uamp+https URLs"),
        key!(UampSettings, "outbound_ca", outbound_ca).variable("OUTBOUND_CA").flag("outbound-ca", "FILE", "Roots that their certificates may lead to besides the usual ones, PEM"),
    ];
}

impl UampSettings {
    /// The skew in milliseconds.
    pub(crate) fn skew_ms(&self) -> i64 {
        i64::try_from(self.skew.as_millis()).unwrap_or(i64::MAX)
    }
}

/// How signatures are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmitSignature(pub SignatureForm);

impl Setting for EmitSignature {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        match raw.text() {
            Some("detached") => Ok(Self(SignatureForm::Detached)),
            Some("attached") => Ok(Self(SignatureForm::Attached)),
            _ => Err(raw.refuse("detached or attached")),
        }
    }

    fn show(&self) -> String {
        let form = match self.0 {
            SignatureForm::Detached => "detached",
            SignatureForm::Attached => "attached",
        };
        literal(&form)
    }

    fn schema() -> Value {
        json!({ "enum": ["detached", "attached"] })
    }
}

/// The token that is shown to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostToken {
    /// The host, as `HOST` or `HOST:PORT`.
    pub host: String,
    /// The file with the token; read whenever it is needed.
    pub file: PathBuf,
}

impl Setting for HostToken {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let pair = raw.text().and_then(|text| text.split_once('='));
        let (host, file) = pair
            .map(|(host, file)| (host.trim(), file.trim()))
            .filter(|(host, file)| !host.is_empty() && !file.is_empty())
            .ok_or_else(|| raw.refuse("HOST=FILE or HOST:PORT=FILE"))?;
        Ok(Self {
            host: host.to_ascii_lowercase(),
            file: PathBuf::read(&Raw::Word(file.to_owned()), home)?,
        })
    }

    fn show(&self) -> String {
        literal(&format!("{}={}", self.host, self.file.display()))
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^[^=]+=.+$" })
    }
}

/// A DID or URI that stands for an agent of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UampAlias {
    /// What senders write in `to`.
    pub name: String,
    /// The agent: `PEER`, `PEER/NAME`, `self/NAME` or `skill:ID`.
    pub target: String,
}

impl UampAlias {
    /// The agent.
    pub fn mesh_target(&self) -> Target {
        Target::parse(&self.target)
    }
}

impl Setting for UampAlias {
    fn read(raw: &Raw, _: Option<&Path>) -> Result<Self, InvalidValue> {
        let read = |text: &str| {
            let (name, target) = text.split_once('=')?;
            let (name, target) = (name.trim(), target.trim());
            (name.contains(':') && !target.is_empty()).then(|| Self {
                name: name.to_owned(),
                target: target.to_owned(),
            })
        };
        raw.text()
            .and_then(read)
            .ok_or_else(|| raw.refuse("DID=TARGET with a target such as PEER/NAME or skill:ID"))
    }

    fn show(&self) -> String {
        literal(&format!("{}={}", self.name, self.target))
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^[^=]+:[^=]+=.+$" })
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_gateways::part::{Host, PartValues, table};

    use super::*;

    #[test]
    fn numbers_out_of_their_bounds_are_refused() {
        let keys = table::<UampSettings>("uamp", Host::Daemon);
        let set = |name: &str, raw: Raw| {
            let key = keys
                .iter()
                .find(|key| key.name == format!("gateways.uamp.{name}"));
            key.unwrap().set_value(&mut PartValues::default(), &raw, None)
        };
        for (name, least, most) in [
            ("max_receivers", 1, MOST_RECEIVERS),
            ("max_replays", 16, MOST_REPLAYS),
        ] {
            for (number, is_taken) in [(least - 1, false), (least, true), (most, true), (most + 1, false)] {
                let taken = set(name, Raw::Word(number.to_string()));
                assert_eq!(taken.is_ok(), is_taken, "{name} {number}");
            }
        }
        for (time, is_taken) in [("0", false), ("1s", true), ("1h", true), ("61m", false)] {
            assert_eq!(
                set("skew", Raw::Word(time.to_owned())).is_ok(),
                is_taken,
                "{time}"
            );
        }
    }

    #[test]
    fn aliases_and_forms_are_read() {
        let word = |text: &str| Raw::Word(text.to_owned());
        let alias = UampAlias::read(&word("did:web:calc.example=skill:add"), None).unwrap();
        assert_eq!(alias.mesh_target(), Target::Skill("add".to_owned()));
        for bad in ["calc=skill:add", "did:web:x=", "did:web:x"] {
            assert!(UampAlias::read(&word(bad), None).is_err(), "{bad}");
        }
        let attached = EmitSignature::read(&word("attached"), None).unwrap();
        assert_eq!(attached.0, SignatureForm::Attached);
        assert!(EmitSignature::read(&word("both"), None).is_err());
        let token = HostToken::read(&word("Calc.example:8443=~/token"), Some(Path::new("/home/u"))).unwrap();
        assert_eq!(
            (token.host.as_str(), token.file.to_str().unwrap()),
            ("calc.example:8443", "/home/u/token")
        );
        assert!(HostToken::read(&word("calc.example"), None).is_err());
    }
}
