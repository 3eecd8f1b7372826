//! Cards of agents outside: found by a URL, kept for a while, asked for again with what was kept.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use agentanycast_daemon_kit::address::{bare_url, join_path};
use agentanycast_egress::client::{HostClients, HttpCall, in_utf8, read, read_prefix};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use serde_json::Value;

use super::{
    encode::without_bom,
    error::{EXCERPT, Kind, OutboundError, excerpt},
    interface::{self, InterfaceChoice},
};

/// Largest card, in bytes.
const MAX_CARD: usize = 1 << 20;

/// How long a card may take to come.
const CARD_WITHIN: Duration = Duration::from_secs(20);

/// How long a card is used that says nothing of it, and at most.
const UNTOLD: Duration = Duration::from_mins(1);
const LONGEST: Duration = Duration::from_hours(1);

/// Cards that are kept, of at most so many bytes.
const KEPT: usize = 256;
const KEPT_BYTES: usize = 64 << 10;

/// Where a card is below the URL of its agent, the newest place first.
const WELL_KNOWN_PATHS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// The cards that are known.
#[derive(Default)]
pub(crate) struct CardCache {
    entries: Mutex<HashMap<String, CachedCard>>,
}

#[derive(Clone)]
struct CachedCard {
    card: Arc<Value>,
    etag: Option<HeaderValue>,
    until: Instant,
    /// Where it was found.
    at: Uri,
}

/// What asking for a card came to.
enum CardResponse {
    Card {
        card: Value,
        etag: Option<HeaderValue>,
        lasts: Duration,
    },
    Unchanged {
        lasts: Duration,
    },
    /// There is none, and what is there instead; empty: nothing.
    Missing(String),
}

/// What one place for a card has.
enum CardLookup {
    Card(CachedCard),
    /// There is no card, and what is there instead; empty: nothing.
    Missing(String),
}

impl CardCache {
    /// How the agent of this URL is spoken to, and where the card is that says so.
    pub(crate) async fn choose(
        &self,
        clients: &HostClients,
        url: &str,
    ) -> Result<(InterfaceChoice, Uri), OutboundError> {
        let known = self
            .entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(url)
            .cloned();
        if let Some(known) = &known
            && known.until > Instant::now()
        {
            let chosen = interface::choose((*known.card).clone(), &known.at)?;
            return Ok((chosen, known.at.clone()));
        }
        let found = self.find(clients, url, known).await?;
        let chosen = interface::choose((*found.card).clone(), &found.at)?;
        let at = found.at.clone();
        let mut kept = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            let now = Instant::now();
            kept.retain(|_, known| known.until > now);
        }
        if kept.len() < KEPT {
            kept.insert(url.to_owned(), found);
        }
        Ok((chosen, at))
    }

    async fn find(
        &self,
        clients: &HostClients,
        url: &str,
        known: Option<CachedCard>,
    ) -> Result<CachedCard, OutboundError> {
        if let Some(known) = known
            && let CardResponse::Unchanged { lasts } = ask(clients, &known.at, known.etag.as_ref()).await?
        {
            return Ok(CachedCard {
                until: Instant::now() + lasts,
                ..known
            });
        }
        let places = candidate_urls(url);
        let mut missing = Vec::new();
        for place in &places {
            match lookup(clients, place).await {
                Ok(CardLookup::Card(found)) => return Ok(found),
                Ok(CardLookup::Missing(instead)) => missing.push(instead),
                // The URL itself is that of an agent rather than that of a card: what it says to this question is
                // of less weight.
                Err(fault) if !missing.is_empty() && place == url && !fault.is_transient() => {
                    missing.push(String::new());
                }
                Err(fault) => return Err(fault),
            }
        }
        // The URL may be that of an interface: then its card is at the top, and lists it.
        let given: Option<Uri> = url.split(['?', '#']).next().and_then(|url| url.parse().ok());
        if places.len() > 1
            && let Some(uri) = given.filter(|uri| uri.path().len() > 1)
            && let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority())
            && let Ok(CardLookup::Card(top)) =
                lookup(clients, &format!("{scheme}://{authority}{}", WELL_KNOWN_PATHS[0])).await
            && lists(&top.card, url)
        {
            return Ok(top);
        }
        // What there is says more than that there is nothing.
        let at = missing
            .iter()
            .position(|instead| !instead.is_empty())
            .unwrap_or(0);
        let instead = match missing.get(at).map(String::as_str) {
            None | Some("") => String::new(),
            Some(instead) => format!(": {instead}"),
        };
        Err(OutboundError::permanent(format!(
            "there is no agent card at {}{instead}; give the URL of an agent, or that of its card",
            bare_url(&places[at])
        )))
    }
}

/// Where the card of this URL may be, in the order in which it is looked for. The query is that of the URL.
fn candidate_urls(url: &str) -> Vec<String> {
    let url = url.split('#').next().unwrap_or_default();
    let path = url.split('?').next().unwrap_or_default();
    let is_card = path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase()
        .ends_with(".json");
    let mut places = Vec::new();
    if !is_card {
        places.extend(WELL_KNOWN_PATHS.map(|place| join_path(url, place)));
    }
    places.push(url.to_owned());
    places
}

/// Whether JSON is a card: it says how an agent is reached, or at least what it is.
fn is_card(json: &Value) -> bool {
    let Value::Object(fields) = json else {
        return false;
    };
    let has = |name: &str, is_so: fn(&Value) -> bool| fields.get(name).is_some_and(is_so);
    let reached = has("supportedInterfaces", Value::is_array) || has("additionalInterfaces", Value::is_array);
    let said = ["name", "skills", "capabilities", "protocolVersion"];
    let said = said.into_iter().filter(|name| fields.contains_key(*name)).count();
    let is_answer = ["jsonrpc", "error"].iter().any(|name| fields.contains_key(*name));
    !is_answer && (reached || has("url", Value::is_string) && said > 0 || said > 1)
}

async fn lookup(clients: &HostClients, at: &str) -> Result<CardLookup, OutboundError> {
    let at: Uri = at
        .parse()
        .map_err(|error| OutboundError::permanent(format!("{at:?} is no URL: {error}")))?;
    Ok(match ask(clients, &at, None).await? {
        CardResponse::Card { card, etag, lasts } => CardLookup::Card(CachedCard {
            card: Arc::new(card),
            etag,
            until: Instant::now() + lasts,
            at,
        }),
        CardResponse::Missing(instead) => CardLookup::Missing(instead),
        CardResponse::Unchanged { .. } => CardLookup::Missing(String::new()),
    })
}

async fn ask(
    clients: &HostClients,
    at: &Uri,
    etag: Option<&HeaderValue>,
) -> Result<CardResponse, OutboundError> {
    let mut headers = vec![(header::ACCEPT, HeaderValue::from_static("application/json"))];
    headers.extend(etag.map(|etag| (header::IF_NONE_MATCH, etag.clone())));
    let call = HttpCall {
        method: Method::GET,
        url: at.to_string(),
        headers,
        body: Bytes::new(),
        within: CARD_WITHIN,
    };
    let http = clients.for_uri(at);
    let of_card = |fault: OutboundError| {
        // Asking for a card again harms nobody.
        let kind = if fault.kind() == Kind::Broken {
            Kind::Unreached
        } else {
            fault.kind()
        };
        http.redactor()
            .error(OutboundError::new(kind, format!("its card: {fault}")))
    };
    let response = http.open(call).await.map_err(of_card)?;
    let status = response.status();
    let lasts = lifetime(response.headers().get(header::CACHE_CONTROL));
    if status == StatusCode::NOT_MODIFIED && etag.is_some() {
        return Ok(CardResponse::Unchanged { lasts });
    }
    if matches!(
        status,
        StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::METHOD_NOT_ALLOWED
    ) {
        return Ok(CardResponse::Missing(String::new()));
    }
    if !status.is_success() {
        let (head, body) = response.into_parts();
        let said = excerpt(&in_utf8(&head.headers, read_prefix(body, EXCERPT).await));
        let fault = of_card(OutboundError::from_status(status.as_u16(), &said));
        // One that knows neither the path nor the method may refuse the request as a whole.
        return match fault.kind() {
            Kind::Refused | Kind::Unsupported => Ok(CardResponse::Missing(fault.to_string())),
            _ => Err(fault),
        };
    }
    let etag = response.headers().get(header::ETAG).cloned();
    let bytes = read(response.into_body(), MAX_CARD).await.map_err(of_card)?;
    let instead = |what: String| {
        let fault = http.redactor().error(OutboundError::permanent(what));
        Ok(CardResponse::Missing(fault.to_string()))
    };
    let mut card: Value = match serde_json::from_slice(without_bom(&bytes)) {
        Ok(card) => card,
        Err(error) => return instead(format!("what is there is no JSON: {error}: {}", excerpt(&bytes))),
    };
    if !is_card(&card) {
        return instead(format!("what is there is no card: {}", excerpt(&bytes)));
    }
    http.redactor().card(&mut card);
    // A large card is not kept for long: there may be many.
    let lasts = if bytes.len() > KEPT_BYTES {
        Duration::ZERO
    } else {
        lasts
    };
    Ok(CardResponse::Card { card, etag, lasts })
}

/// How long an answer may be used.
fn lifetime(control: Option<&HeaderValue>) -> Duration {
    let control = control.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut lasts = UNTOLD;
    for word in control.split(',').map(str::trim) {
        if matches!(word, "no-store" | "no-cache") {
            return Duration::ZERO;
        }
        if let Some(seconds) = word.strip_prefix("max-age=").and_then(|text| text.parse().ok()) {
            lasts = Duration::from_secs(seconds).min(LONGEST);
        }
    }
    lasts
}

/// Whether a card lists this URL.
fn lists(card: &Value, url: &str) -> bool {
    let bare = |url: &str| {
        let url = url.split(['?', '#']).next().unwrap_or_default();
        url.trim_end_matches('/').to_owned()
    };
    let is_it = |listed: &Value| {
        listed["url"]
            .as_str()
            .is_some_and(|listed| bare(listed) == bare(url))
    };
    let lists = ["supportedInterfaces", "additionalInterfaces"];
    is_it(card)
        || lists
            .iter()
            .filter_map(|name| card[*name].as_array())
            .flatten()
            .any(is_it)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cards_are_used_as_long_as_they_may_be() {
        let lasts = |text: &'static str| lifetime(Some(&HeaderValue::from_static(text)));
        assert_eq!(super::lifetime(None), UNTOLD);
        assert_eq!(lasts("public, max-age=300"), Duration::from_mins(5));
        assert_eq!(lasts("max-age=99999999"), LONGEST);
        assert_eq!(lasts("no-store, max-age=300"), Duration::ZERO);
    }

    #[test]
    fn a_card_at_the_top_is_taken_only_for_what_it_lists() {
        let card = json!({"url": "https://h/a/", "supportedInterfaces": [{"url": "https://h/b"}]});
        assert!(lists(&card, "https://h/a") && lists(&card, "https://h/b"));
        assert!(!lists(&card, "https://h/c") && !lists(&json!([]), "https://h/c"));
        assert!(lists(&card, "https://h/a/") && lists(&card, "https://h/b/?k=v"));
    }

    #[test]
    fn a_card_is_looked_for_below_a_url_and_where_it_says() {
        assert_eq!(
            candidate_urls("https://h/a/?k=v#f"),
            [
                "https://h/a/.well-known/agent-card.json?k=v",
                "https://h/a/.well-known/agent.json?k=v",
                "https://h/a/?k=v",
            ]
        );
        assert_eq!(
            candidate_urls("https://h/Card.JSON?k=v"),
            ["https://h/Card.JSON?k=v"]
        );
        assert_eq!(candidate_urls("https://h/?x=a.json").len(), 3);
    }

    #[test]
    fn other_json_is_no_card() {
        for card in [
            json!({"supportedInterfaces": []}),
            json!({"url": "https://h/", "name": "a"}),
            json!({"name": "a", "skills": []}),
        ] {
            assert!(is_card(&card), "{card}");
        }
        for other in [
            json!({}),
            json!([]),
            json!("x"),
            json!({"url": "https://h/"}),
            json!({"name": "a"}),
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600}}),
            json!({"error": "no", "name": "a", "url": "https://h/"}),
        ] {
            assert!(!is_card(&other), "{other}");
        }
    }
}
