//! How a host is told who calls: the header that its configuration asks for.

use std::time::{Duration, Instant};

use agentanycast_gateways::outbound::{Credentials, Secret};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, header};
use serde_json::Value;
use tokio::sync::Mutex;

use super::{HostClient, HttpCall};
use crate::{
    client::redact::{Redactor, SentSecrets, percent_encoded},
    error::{Kind, OutboundError, excerpt},
};

/// Largest secret in a file, in bytes.
const MAX_SECRET: u64 = 64 << 10;

/// How long before its end a token is not used any more.
const MARGIN: Duration = Duration::from_secs(30);

/// How long a token is used whose end is not told.
const UNTOLD: Duration = Duration::from_mins(5);

/// How long a token may take to be had.
const TOKEN_WITHIN: Duration = Duration::from_secs(30);

/// Largest answer with a token, in bytes.
const MAX_TOKEN: usize = 64 << 10;

/// The credentials for one host.
#[derive(Debug)]
pub(super) struct HostCredentials {
    credentials: Credentials,
    token: Mutex<Option<OAuthToken>>,
    sent_secrets: SentSecrets,
}

struct OAuthToken {
    header: HeaderValue,
    until: Instant,
}

impl std::fmt::Debug for OAuthToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OAuthToken")
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

impl HostCredentials {
    pub(super) fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            token: Mutex::default(),
            sent_secrets: SentSecrets::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self.credentials, Credentials::None)
    }

    /// Hides what the host was told.
    pub(super) fn redactor(&self) -> Redactor {
        self.sent_secrets.redactor()
    }

    /// Whether another try with another token may help.
    pub(super) fn can_renew(&self) -> bool {
        matches!(self.credentials, Credentials::OAuth2 { .. })
    }

    /// The header to send. `refused`: the one that was not taken.
    pub(super) async fn header(
        &self,
        http: &HostClient,
        refused: Option<&HeaderValue>,
    ) -> Result<Option<(HeaderName, HeaderValue)>, OutboundError> {
        Ok(Some(match &self.credentials {
            Credentials::None => return Ok(None),
            Credentials::Bearer(token) => (header::AUTHORIZATION, self.value("Bearer ", &read(token)?)?),
            Credentials::ApiKey { header, key } => {
                let name = HeaderName::from_bytes(header.as_bytes())
                    .map_err(|_| OutboundError::permanent("api_key_header is not the name of a header"))?;
                (name, self.value("", &read(key)?)?)
            }
            Credentials::Basic { username, password } => {
                let password = read(password)?;
                self.sent_secrets.add(&password);
                let pair = STANDARD.encode(format!("{username}:{password}"));
                (header::AUTHORIZATION, self.value("Basic ", &pair)?)
            }
            Credentials::OAuth2 { .. } => (header::AUTHORIZATION, self.token(http, refused).await?),
        }))
    }

    /// A token that is still good. Whoever comes while one is being had waits for it.
    async fn token(
        &self,
        http: &HostClient,
        refused: Option<&HeaderValue>,
    ) -> Result<HeaderValue, OutboundError> {
        let mut known = self.token.lock().await;
        if let Some(token) = &*known
            && token.until > Instant::now()
            && refused != Some(&token.header)
        {
            return Ok(token.header.clone());
        }
        *known = None;
        let token = self.ask(http).await?;
        Ok(known.insert(token).header.clone())
    }

    async fn ask(&self, http: &HostClient) -> Result<OAuthToken, OutboundError> {
        let Credentials::OAuth2 {
            token_url,
            client_id,
            client_secret,
            scopes,
        } = &self.credentials
        else {
            return Err(OutboundError::permanent("there is no token to ask for"));
        };
        let failed = |fault: OutboundError| {
            let kind = if fault.kind() == Kind::Broken {
                Kind::Unreached
            } else {
                fault.kind()
            };
            self.redactor().error(OutboundError::new(
                kind,
                format!("no token from {token_url}: {fault}"),
            ))
        };
        let mut form = "grant_type=client_credentials".to_owned();
        if !scopes.is_empty() {
            form.push_str("&scope=");
            form.push_str(&form_encoded(&scopes.join(" ")));
        }
        // RFC 6749, 2.3.1: both halves are encoded as forms are.
        let secret = read(client_secret)?;
        self.sent_secrets.add(&secret);
        let pair = format!("{}:{}", form_encoded(client_id), form_encoded(&secret));
        let call = HttpCall {
            method: Method::POST,
            url: token_url.clone(),
            headers: vec![
                (
                    header::AUTHORIZATION,
                    self.value("Basic ", &STANDARD.encode(pair))?,
                ),
                (
                    header::CONTENT_TYPE,
                    HeaderValue::from_static("application/x-www-form-urlencoded"),
                ),
                (header::ACCEPT, HeaderValue::from_static("application/json")),
            ],
            body: Bytes::from(form),
            within: TOKEN_WITHIN,
        };
        let (status, body) = Box::pin(http.without_credentials().fetch(call, MAX_TOKEN))
            .await
            .map_err(failed)?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if !status.is_success() {
            let said = answer["error_description"].as_str().or(answer["error"].as_str());
            let said = said.map_or_else(|| excerpt(&body), str::to_owned);
            return Err(failed(OutboundError::from_status(status.as_u16(), &said)));
        }
        let token = answer["access_token"].as_str().filter(|token| !token.is_empty());
        let token =
            token.ok_or_else(|| failed(OutboundError::permanent("its answer has no access_token")))?;
        let lasts = answer["expires_in"].as_u64().map_or(UNTOLD, Duration::from_secs);
        // A token that is good for less than the margin is good for one call.
        let until = Instant::now() + lasts.min(Duration::from_hours(24)).saturating_sub(MARGIN);
        Ok(OAuthToken {
            header: self.value("Bearer ", token)?,
            until,
        })
    }

    /// The header that tells this, which is hidden from now on in what the host says.
    fn value(&self, scheme: &str, secret: &str) -> Result<HeaderValue, OutboundError> {
        self.sent_secrets.add(secret);
        value(scheme, secret)
    }
}

fn read(secret: &Secret) -> Result<String, OutboundError> {
    let path = match secret {
        Secret::Text(text) => return Ok(text.clone()),
        Secret::File(path) => path,
    };
    let unreadable = |what: String| {
        OutboundError::permanent(format!("the secret in {} cannot be read: {what}", path.display()))
    };
    let length = std::fs::metadata(path)
        .map_err(|error| unreadable(error.to_string()))?
        .len();
    if length > MAX_SECRET {
        return Err(unreadable(format!("it has more than {MAX_SECRET} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    Ok(text.trim().to_owned())
}

/// A header that no log shows.
fn value(scheme: &str, secret: &str) -> Result<HeaderValue, OutboundError> {
    let value = HeaderValue::from_str(&format!("{scheme}{secret}"));
    let mut value =
        value.map_err(|_| OutboundError::permanent("its secret has letters that no header can have"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// As forms are encoded.
fn form_encoded(text: &str) -> String {
    percent_encoded(text, "-._*", "+", false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_come_from_files_and_are_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hush\n").unwrap();
        assert_eq!(read(&Secret::File(file.path().to_owned())).unwrap(), "hush");
        let shown = format!("{:?}", value("Bearer ", "hush").unwrap());
        assert!(!shown.contains("hush"), "{shown}");
        assert!(value("Bearer ", "a\nb").is_err());
        assert_eq!(form_encoded("a b/ä"), "a+b%2F%C3%A4");
    }
}
