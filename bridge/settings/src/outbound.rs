//! `[bridge.outbound]`: which agents outside may be called, and how they are told who calls. `[bridge.outbound.HOST]`
//! is for one host, or for one `"HOST:PORT"`.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast_daemon_kit::settings::{InvalidValue, Json as Value, Raw, Setting, literal};
use serde_json::{Map, json};

/// Calls to agents outside.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboundConfig {
    /// Whether tasks may be sent by URL. Default: true.
    pub enabled: bool,
    /// Whether agents may be on private networks and this host. Default: false.
    pub allow_private: bool,
    /// How long an agent that has a task may be out of reach before the task fails. Default: 10 min.
    pub patience: Duration,
    /// How long an agent may take to begin an answer to a message. Default: 2 min.
    pub timeout: Duration,
    /// What is special about hosts, by `HOST` or `HOST:PORT`.
    pub hosts: BTreeMap<String, HostConfig>,
}

impl Default for OutboundConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            allow_private: false,
            patience: Duration::from_mins(10),
            timeout: Duration::from_mins(2),
            hosts: BTreeMap::new(),
        }
    }
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostConfig {
    /// It may be on a private network or this host, and be told secrets without TLS. Default: false.
    pub allow_private: bool,
    /// Who calls, as the host wants to be told. Default: nobody in particular.
    pub credentials: Credentials,
    /// The certificate that is shown to it (PEM), with `client_key`. Default: none.
    pub client_cert: Option<PathBuf>,
    /// The private key of `client_cert` (PEM). Default: none.
    pub client_key: Option<PathBuf>,
    /// Roots that its certificate may lead to besides the usual ones (PEM). Default: none.
    pub ca: Option<PathBuf>,
    /// Other hosts, as `HOST` or `HOST:PORT`, whose cards may send tasks here, with all that is set for this one. Default:
    /// none.
    pub cards_from: Vec<String>,
}

/// How a caller says who it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Credentials {
    /// Not at all.
    #[default]
    None,
    /// `Authorization: Bearer`.
    Bearer(Secret),
    /// A header of the host's own.
    ApiKey {
        /// Its name.
        header: String,
        /// Its value.
        key: Secret,
    },
    /// `Authorization: Basic`.
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A token of OAuth 2, got with the client's own credentials.
    OAuth2 {
        /// Where tokens are had.
        token_url: String,
        /// The client.
        client_id: String,
        /// Its secret.
        client_secret: Secret,
        /// What the token is for; may be empty.
        scopes: Vec<String>,
    },
}

/// What is never shown: a text, or the file that holds it.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The text.
    Text(String),
    /// The file; read whenever it is needed, so that it can be renewed.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("***"),
            Self::File(path) => path.fmt(f),
        }
    }
}

const OUTBOUND: &str = "a table with enabled, allow_private, patience, timeout, and a table for each host";
const HOST: &str = "a table with any of allow_private, ca, cards_from, client_cert, client_key, and one of bearer_token, api_key, \
                    username, oauth2_client_id (with what belongs to it)";

/// What is no host, and what a host has besides its credentials.
const OUTBOUND_KEYS: [&str; 4] = ["enabled", "allow_private", "patience", "timeout"];
const HOST_KEYS: [&str; 6] = [
    "allow_private",
    "client_cert",
    "client_key",
    "ca",
    "cards_from",
    "oauth2_scopes",
];

/// What the schema of a host is called in that of the settings.
const HOST_ANCHOR: &str = "outbound-host";

/// How long an agent may be out of reach, and take to answer.
const TIMES: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(7 * 24);

impl Setting for OutboundConfig {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let mut outbound = Self::default();
        // Nothing is said, by a word that stands for no table.
        if raw.text() == Some("") {
            return Ok(outbound);
        }
        for (name, value) in table("outbound", raw, OUTBOUND)? {
            match name.as_str() {
                "enabled" => outbound.enabled = bool::read(value, home)?,
                "allow_private" if !matches!(value, Raw::Table { .. }) => {
                    outbound.allow_private = bool::read(value, home)?;
                }
                "patience" => outbound.patience = time(value)?,
                "timeout" => outbound.timeout = time(value)?,
                _ if matches!(value, Raw::Table { .. }) => {
                    read_hosts(name, value, home, &mut outbound.hosts)?;
                }
                // Its value may be a secret that was put in the wrong place.
                _ => {
                    return Err(InvalidValue::of_key(
                        "",
                        name,
                        OUTBOUND_KEYS.into_iter(),
                        OUTBOUND,
                    ));
                }
            }
        }
        Ok(outbound)
    }

    fn show(&self) -> String {
        let mut shown = vec![
            format!("enabled = {}", self.enabled),
            format!("allow_private = {}", self.allow_private),
            format!("patience = {}", self.patience.show()),
            format!("timeout = {}", self.timeout.show()),
        ];
        let hosts = self.hosts.iter();
        shown.extend(hosts.map(|(name, host)| format!("{} = {}", literal(name), host.show())));
        format!("{{ {} }}", shown.join(", "))
    }

    fn schema() -> Value {
        // Tables of hosts whose names have dots and no quotes are tables in tables.
        let host = json!({ "$ref": format!("#{HOST_ANCHOR}") });
        let texts = TEXTS.iter().chain(&SECRETS).chain(&SECRET_FILES);
        let mut fields: Map<String, Value> =
            texts.map(|name| ((*name).to_owned(), String::schema())).collect();
        for name in HOST_KEYS {
            let schema = match name {
                "allow_private" => bool::schema(),
                "cards_from" | "oauth2_scopes" => Vec::<String>::schema(),
                _ => PathBuf::schema(),
            };
            fields.insert(name.to_owned(), schema);
        }
        json!({
            "type": "object",
            "properties": {
                "enabled": bool::schema(),
                "allow_private": bool::schema(),
                "patience": Duration::schema(),
                "timeout": Duration::schema(),
            },
            "additionalProperties": {
                "$anchor": HOST_ANCHOR,
                "type": "object",
                "properties": fields,
                "additionalProperties": host,
            },
        })
    }
}

/// Hosts below a name: `[bridge.outbound.api.example.org]` without quotes is a table in tables.
fn read_hosts(
    name: &str,
    raw: &Raw,
    home: Option<&Path>,
    hosts: &mut BTreeMap<String, HostConfig>,
) -> Result<(), InvalidValue> {
    let entries = table(name, raw, OUTBOUND)?;
    let (deeper, own): (Vec<_>, Vec<_>) = entries
        .iter()
        .partition(|(_, value)| matches!(value, Raw::Table { .. }));
    for (part, value) in &deeper {
        read_hosts(&format!("{name}.{part}"), value, home, hosts)?;
    }
    if deeper.is_empty() || !own.is_empty() {
        let host = HostConfig::read(name, &own, home)?;
        hosts.insert(name.to_ascii_lowercase(), host);
    }
    Ok(())
}

impl HostConfig {
    fn read(name: &str, entries: &[&(String, Raw)], home: Option<&Path>) -> Result<Self, InvalidValue> {
        let mut host = Self::default();
        let mut given = RawCredentials::default();
        for (key, value) in entries {
            match key.as_str() {
                "allow_private" => host.allow_private = bool::read(value, home)?,
                "client_cert" => host.client_cert = Some(PathBuf::read(value, home)?),
                "client_key" => host.client_key = Some(PathBuf::read(value, home)?),
                "ca" => host.ca = Some(PathBuf::read(value, home)?),
                "cards_from" => {
                    host.cards_from = Vec::read(value, home)?;
                    host.cards_from
                        .iter_mut()
                        .for_each(|name| name.make_ascii_lowercase());
                }
                "oauth2_scopes" => given.scopes = Vec::read(value, home)?,
                _ => given.take(name, key, value, home)?,
            }
        }
        if host.client_cert.is_some() != host.client_key.is_some() {
            return Err(refusal(name, "client_cert and client_key together, or neither"));
        }
        host.credentials = given.credentials(name)?;
        Ok(host)
    }

    fn show(&self) -> String {
        let mut shown = vec![format!("allow_private = {}", self.allow_private)];
        for (name, file) in [
            ("client_cert", &self.client_cert),
            ("client_key", &self.client_key),
            ("ca", &self.ca),
        ] {
            if let Some(file) = file {
                shown.push(format!("{name} = {}", file.show()));
            }
        }
        if !self.cards_from.is_empty() {
            shown.push(format!("cards_from = {}", self.cards_from.show()));
        }
        let secret = |name: &str, secret: &Secret| match secret {
            Secret::Text(_) => format!("{name} = \"***\""),
            Secret::File(path) => format!("{name}_file = {}", path.show()),
        };
        match &self.credentials {
            Credentials::None => {}
            Credentials::Bearer(token) => shown.push(secret("bearer_token", token)),
            Credentials::ApiKey { header, key } => {
                shown.extend([
                    secret("api_key", key),
                    format!("api_key_header = {}", literal(header)),
                ]);
            }
            Credentials::Basic { username, password } => {
                shown.extend([
                    format!("username = {}", literal(username)),
                    secret("password", password),
                ]);
            }
            Credentials::OAuth2 {
                token_url,
                client_id,
                client_secret,
                scopes,
            } => shown.extend([
                format!("oauth2_token_url = {}", literal(token_url)),
                format!("oauth2_client_id = {}", literal(client_id)),
                secret("oauth2_client_secret", client_secret),
                format!("oauth2_scopes = {}", scopes.show()),
            ]),
        }
        format!("{{ {} }}", shown.join(", "))
    }
}

/// The credentials of a host as they are written, before it is known of which kind they are.
#[derive(Default)]
struct RawCredentials {
    texts: BTreeMap<&'static str, String>,
    secrets: BTreeMap<&'static str, Secret>,
    scopes: Vec<String>,
}

const TEXTS: [&str; 4] = [
    "api_key_header",
    "username",
    "oauth2_token_url",
    "oauth2_client_id",
];
const SECRETS: [&str; 4] = ["bearer_token", "api_key", "password", "oauth2_client_secret"];
const SECRET_FILES: [&str; 4] = [
    "bearer_token_file",
    "api_key_file",
    "password_file",
    "oauth2_client_secret_file",
];

impl RawCredentials {
    fn take(&mut self, host: &str, key: &str, value: &Raw, home: Option<&Path>) -> Result<(), InvalidValue> {
        // Errors name the key: the value may be a secret.
        let text = || {
            value
                .text()
                .filter(|text| !text.is_empty())
                .ok_or_else(|| refusal(&format!("{host}.{key}"), "a text"))
        };
        if let Some(name) = TEXTS.iter().find(|name| **name == key) {
            self.texts.insert(name, text()?.to_owned());
            return Ok(());
        }
        let (stem, is_file) = key
            .strip_suffix("_file")
            .map_or((key, false), |stem| (stem, true));
        let Some(name) = SECRETS.iter().find(|name| **name == stem) else {
            let known = HOST_KEYS
                .iter()
                .chain(&TEXTS)
                .chain(&SECRETS)
                .chain(&SECRET_FILES);
            return Err(InvalidValue::of_key(host, key, known.copied(), HOST));
        };
        let secret = if is_file {
            Secret::File(PathBuf::read(value, home)?)
        } else {
            Secret::Text(text()?.to_owned())
        };
        match self.secrets.insert(name, secret) {
            None => Ok(()),
            Some(_) => Err(refusal(
                &format!("{host}.{name}"),
                "given once, as text or as file",
            )),
        }
    }

    fn credentials(mut self, host: &str) -> Result<Credentials, InvalidValue> {
        let mut secret = |name: &str| self.secrets.remove(name);
        let mut kinds = Vec::new();
        if let Some(token) = secret("bearer_token") {
            kinds.push(Credentials::Bearer(token));
        }
        if let Some(key) = secret("api_key") {
            let header = self
                .texts
                .remove("api_key_header")
                .unwrap_or_else(|| "X-API-Key".to_owned());
            if http::HeaderName::from_bytes(header.as_bytes()).is_err() {
                return Err(refusal(
                    &format!("{host}.api_key_header"),
                    "the name of a header, such as X-API-Key",
                ));
            }
            kinds.push(Credentials::ApiKey { header, key });
        }
        if let Some(username) = self.texts.remove("username") {
            let password = secret("password").unwrap_or(Secret::Text(String::new()));
            kinds.push(Credentials::Basic { username, password });
        }
        let urls = (
            self.texts.remove("oauth2_token_url"),
            self.texts.remove("oauth2_client_id"),
        );
        match (urls, secret("oauth2_client_secret")) {
            ((Some(token_url), Some(client_id)), Some(client_secret)) => {
                if !token_url.starts_with("https://") && !token_url.starts_with("http://") {
                    return Err(refusal(
                        &format!("{host}.oauth2_token_url"),
                        "a URL such as https://id.example.org/token",
                    ));
                }
                let scopes = std::mem::take(&mut self.scopes);
                kinds.push(Credentials::OAuth2 {
                    token_url,
                    client_id,
                    client_secret,
                    scopes,
                });
            }
            ((None, None), None) => {}
            _ => {
                let all = "oauth2_token_url, oauth2_client_id and oauth2_client_secret together, or none";
                return Err(refusal(host, all));
            }
        }
        let is_used = self.secrets.is_empty() && self.texts.is_empty() && self.scopes.is_empty();
        if kinds.len() > 1 || !is_used {
            return Err(refusal(host, HOST));
        }
        Ok(kinds.pop().unwrap_or_default())
    }
}

fn table<'a>(name: &str, raw: &'a Raw, allowed: &str) -> Result<&'a [(String, Raw)], InvalidValue> {
    match raw {
        Raw::Table { entries, .. } => Ok(entries),
        // Its value may be a secret that was put in the wrong place.
        _ => Err(refusal(name, allowed)),
    }
}

fn time(raw: &Raw) -> Result<Duration, InvalidValue> {
    Duration::read(raw, None).and_then(|time| {
        let allowed = TIMES.contains(&time);
        allowed
            .then_some(time)
            .ok_or_else(|| raw.refuse("a time from 1s to 7d"))
    })
}

fn refusal(name: &str, allowed: &str) -> InvalidValue {
    InvalidValue {
        value: name.to_owned(),
        allowed: allowed.to_owned(),
        line: None,
        unknown: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Raw {
        Raw::Text(text.to_owned())
    }

    fn entries(entries: &[(&str, Raw)]) -> Raw {
        Raw::Table {
            line: 1,
            entries: entries
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        }
    }

    fn host(given: &[(&str, Raw)]) -> Result<HostConfig, InvalidValue> {
        let raw = entries(&[("h", entries(given))]);
        Ok(OutboundConfig::read(&raw, None)?.hosts["h"].clone())
    }

    #[test]
    fn each_kind_is_read_and_secrets_are_not_shown() {
        let oauth = [
            ("oauth2_token_url", text("https://id/token")),
            ("oauth2_client_id", text("me")),
            ("oauth2_client_secret", text("hush")),
            ("oauth2_scopes", Raw::List(vec![text("a"), text("b")])),
        ];
        for given in [
            &[("bearer_token", text("hush"))][..],
            &[("api_key", text("hush")), ("api_key_header", text("X-Key"))],
            &[("username", text("me")), ("password", text("hush"))],
            &oauth,
        ] {
            let host = host(given).unwrap();
            assert_ne!(host.credentials, Credentials::None);
            let shown = format!("{} {host:?}", host.show());
            assert!(!shown.contains("hush") && shown.contains("***"), "{shown}");
        }
        let from_file = host(&[("bearer_token_file", text("/t"))]).unwrap();
        assert_eq!(
            from_file.credentials,
            Credentials::Bearer(Secret::File("/t".into()))
        );
    }

    #[test]
    fn what_does_not_go_together_is_refused_without_showing_secrets() {
        for given in [
            &[("bearer_token", text("hush")), ("api_key", text("hush"))][..],
            &[("bearer_token", text("hush")), ("bearer_token_file", text("/t"))],
            &[("password", text("hush"))],
            &[("api_key_header", text("X-Key"))],
            &[("api_key", text("hush")), ("api_key_header", text("no header"))],
            &[("oauth2_client_id", text("me"))],
            &[("client_cert", text("/c"))],
            &[("barer_token", text("hush"))],
            &[("bearer_token", Raw::Integer(7))],
        ] {
            let refused = host(given).unwrap_err();
            assert!(!format!("{refused:?}").contains("hush"), "{refused:?}");
        }
    }

    #[test]
    fn hosts_need_no_quotes() {
        let raw = entries(&[
            ("allow_private", Raw::Truth(true)),
            ("patience", text("1m")),
            (
                "API",
                entries(&[(
                    "example",
                    entries(&[("org", entries(&[("bearer_token", text("x"))]))]),
                )]),
            ),
            ("127.0.0.1:80", entries(&[])),
        ]);
        let outbound = OutboundConfig::read(&raw, None).unwrap();
        assert!(outbound.allow_private && outbound.patience == Duration::from_mins(1));
        assert_eq!(
            outbound.hosts.keys().collect::<Vec<_>>(),
            ["127.0.0.1:80", "api.example.org"]
        );
        assert!(OutboundConfig::read(&entries(&[("patience", text("0"))]), None).is_err());
        assert!(OutboundConfig::read(&entries(&[("h", text("x"))]), None).is_err());
    }
}
