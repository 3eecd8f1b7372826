//! Push notifications: what a client asks for, and what is noted about it with the task. PURE.
//!
//! A webhook is told in the words of the version that it was asked for in: the events of a stream in 1.0, the whole
//! task in 0.3. `pending_event` knows what it has not been told yet.

mod pending_event;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{error::A2aError, object_reader::ObjectReader, part::put, version::Version};
pub use pending_event::{WebhookEvent, WebhookProgress, next};

/// What the names of our notes begin with; the id of the configuration follows.
pub const NOTE: &str = "a2a.push/";

/// Longest id, in bytes.
const LONGEST_ID: usize = 256;

/// Longest URL, token, scheme and credentials, in bytes: all fit into a note.
const LONGEST: usize = 1536;

/// Where a client wants to be told of a task, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// What the client calls it; the task has no second one of this id.
    pub id: String,
    /// Where the notifications go.
    pub url: String,
    /// `X-A2A-Notification-Token`; empty for none.
    #[serde(default)]
    pub token: String,
    /// Of `Authorization`: its first word; empty for none.
    #[serde(default)]
    pub scheme: String,
    /// What follows it.
    #[serde(default)]
    pub credentials: String,
}

/// What is kept of a webhook with its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookRecord {
    /// What the client asked for.
    pub webhook: Webhook,
    /// Whether it asked in 0.3.
    pub old: bool,
    /// Whether it may be at a public address only. Another bridge of the node may be the one that tells it, and may allow
    /// more; false: that one decides.
    #[serde(default)]
    pub public_only: bool,
    /// What has arrived.
    #[serde(default)]
    pub mark: WebhookProgress,
    /// Since when nothing arrives, Unix time in seconds.
    #[serde(default)]
    pub failing_since: Option<u64>,
    /// It was given up.
    #[serde(default)]
    pub given_up: bool,
}

impl WebhookRecord {
    /// Of a webhook that has been told nothing.
    pub fn new(webhook: Webhook, version: Version) -> Self {
        Self {
            webhook,
            old: version == Version::V03,
            public_only: false,
            mark: WebhookProgress::default(),
            failing_since: None,
            given_up: false,
        }
    }

    /// The version that it is told in.
    pub fn version(&self) -> Version {
        if self.old { Version::V03 } else { Version::V10 }
    }

    /// As a note has it; `None` when that is none of ours.
    pub fn read(content: &[u8]) -> Option<Self> {
        serde_json::from_slice(content).ok()
    }

    /// The content of a note.
    pub fn write(&self) -> Vec<u8> {
        // Texts and numbers can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Reads what a client asks for; in 0.3 what is inside `pushNotificationConfig`.
pub(crate) fn read(version: Version, fields: Map<String, Value>, path: &str) -> Result<Webhook, A2aError> {
    let mut fields = ObjectReader::new(Value::Object(fields), path)?;
    let mut webhook = Webhook {
        id: fields.text_or_empty("id")?,
        url: fields.text_or_empty("url")?,
        token: fields.text_or_empty("token")?,
        ..Webhook::default()
    };
    if let Some(mut authentication) = fields.nested("authentication")? {
        webhook.credentials = authentication.text_or_empty("credentials")?;
        webhook.scheme = match version {
            Version::V10 => authentication.text_or_empty("scheme")?,
            Version::V03 => {
                let schemes = authentication.list("schemes")?;
                let first = schemes.iter().find_map(Value::as_str);
                first.unwrap_or_default().to_owned()
            }
        };
    }
    check(&webhook, path)?;
    Ok(webhook)
}

fn check(webhook: &Webhook, path: &str) -> Result<(), A2aError> {
    let wrong = |field: &str, what: &str| Err(A2aError::params(format!("{path}.{field} must be {what}")));
    if webhook.id.len() > LONGEST_ID {
        return wrong("id", "of 256 bytes at most");
    }
    let url: Option<http::Uri> = webhook.url.parse().ok();
    let is_web = url.is_some_and(|url| {
        let has_user = url
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'));
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some() && !has_user
    });
    // What browsers do not take for a URL is screened by nobody before it is connected to.
    let is_web = is_web && url::Url::parse(&webhook.url).is_ok();
    if !is_web || webhook.url.len() > LONGEST {
        return wrong(
            "url",
            "a URL such as https://hooks.example.org/a2a, without a user",
        );
    }
    let in_header = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    for (field, text) in [
        ("token", &webhook.token),
        ("authentication.credentials", &webhook.credentials),
    ] {
        if text.len() > LONGEST || !in_header(text) {
            return wrong(field, "of visible ASCII characters, 1536 at most");
        }
    }
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if webhook.scheme.len() > LONGEST_ID || !webhook.scheme.bytes().all(is_word) {
        return wrong("authentication.scheme", "one word, such as Bearer");
    }
    if webhook.scheme.is_empty() && !webhook.credentials.is_empty() {
        return wrong("authentication.scheme", "given, since there are credentials");
    }
    Ok(())
}

/// What a client is shown of a webhook.
pub(crate) fn write(version: Version, task_id: &str, webhook: &Webhook) -> Value {
    let mut json = Map::new();
    put(&mut json, "id", webhook.id.clone());
    put(&mut json, "url", webhook.url.clone());
    put(&mut json, "token", webhook.token.clone());
    if !webhook.scheme.is_empty() {
        let mut authentication = match version {
            Version::V10 => json!({ "scheme": webhook.scheme }),
            Version::V03 => json!({ "schemes": [webhook.scheme] }),
        };
        if !webhook.credentials.is_empty() {
            authentication["credentials"] = webhook.credentials.clone().into();
        }
        json.insert("authentication".to_owned(), authentication);
    }
    match version {
        Version::V10 => {
            json.insert("taskId".to_owned(), task_id.into());
            Value::Object(json)
        }
        Version::V03 => json!({ "taskId": task_id, "pushNotificationConfig": json }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: Version, json: &Value) -> Result<Webhook, A2aError> {
        read(version, json.as_object().unwrap().clone(), "config")
    }

    #[test]
    fn each_version_has_its_form() {
        let new = json!({"id": "c", "url": "https://h.example/x?y", "token": "t",
            "authentication": {"scheme": "Bearer", "credentials": "secret"}});
        let old = json!({"id": "c", "url": "https://h.example/x?y", "token": "t",
            "authentication": {"schemes": ["Bearer"], "credentials": "secret"}});
        let webhook = of(Version::V10, &new).unwrap();
        assert_eq!(of(Version::V03, &old).unwrap(), webhook);
        let mut written = write(Version::V10, "task", &webhook);
        assert_eq!(
            written.as_object_mut().unwrap().remove("taskId"),
            Some(json!("task"))
        );
        assert_eq!(written, new);
        let written = write(Version::V03, "task", &webhook);
        assert_eq!(written, json!({"taskId": "task", "pushNotificationConfig": old}));
        let kept = WebhookRecord::new(webhook, Version::V03);
        assert_eq!(WebhookRecord::read(&kept.write()), Some(kept));
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for bad in [
            json!({}),
            json!({"url": "ftp://h/x"}),
            json!({"url": "/x"}),
            json!({"url": "https://[fe80::1%25eth0]/"}),
            json!({"url": "http://256.0.0.1/"}),
            json!({"url": "https://user:password@h/x"}),
            json!({"url": format!("https://h/{}", "x".repeat(2000))}),
            json!({"url": "https://h", "token": "a\r\nb: c"}),
            json!({"url": "https://h", "token": 7}),
            json!({"url": "https://h", "id": "x".repeat(300)}),
            json!({"url": "https://h", "authentication": {"scheme": "Bearer x"}}),
            json!({"url": "https://h", "authentication": {"credentials": "x"}}),
            json!({"url": "https://h", "authentication": {"scheme": "Basic", "credentials": "ü"}}),
        ] {
            assert!(of(Version::V10, &bad).is_err(), "{bad}");
        }
        assert!(of(Version::V10, &json!({"url": "http://[::1]:8080/"})).is_ok());
    }
}
