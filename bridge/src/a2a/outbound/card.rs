//! Cards of agents outside: found by a URL, kept for a while, asked for again with what was kept.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use serde_json::Value;

use super::{
    choice::{self, Choice},
    fault::{EXCERPT, Fault, Kind, excerpt},
    http::{Call, Clients, beginning, read},
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
const PLACES: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// The cards that are known.
#[derive(Default)]
pub(crate) struct Cards {
    kept: Mutex<HashMap<String, Kept>>,
}

#[derive(Clone)]
struct Kept {
    card: Arc<Value>,
    etag: Option<HeaderValue>,
    until: Instant,
    /// Where it was found.
    at: Uri,
}

/// What asking for a card came to.
enum Answer {
    Card {
        card: Value,
        etag: Option<HeaderValue>,
        lasts: Duration,
    },
    Unchanged {
        lasts: Duration,
    },
    Missing,
}

impl Cards {
    /// How the agent of this URL is spoken to, and where the card is that says so.
    pub(crate) async fn choose(&self, clients: &Clients, url: &str) -> Result<(Choice, Uri), Fault> {
        let known = self
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(url)
            .cloned();
        if let Some(known) = &known
            && known.until > Instant::now()
        {
            let chosen = choice::choose((*known.card).clone(), &known.at)?;
            return Ok((chosen, known.at.clone()));
        }
        let found = self.find(clients, url, known).await?;
        let chosen = choice::choose((*found.card).clone(), &found.at)?;
        let at = found.at.clone();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            let now = Instant::now();
            kept.retain(|_, known| known.until > now);
        }
        if kept.len() < KEPT {
            kept.insert(url.to_owned(), found);
        }
        Ok((chosen, at))
    }

    async fn find(&self, clients: &Clients, url: &str, known: Option<Kept>) -> Result<Kept, Fault> {
        let no_card = |at: &str| {
            Fault::last(format!(
                "there is no agent card at {at}; give the URL of an agent, or that of its card (….json)"
            ))
        };
        if let Some(known) = known
            && let Answer::Unchanged { lasts } = ask(clients, &known.at, known.etag.as_ref()).await?
        {
            return Ok(Kept {
                until: Instant::now() + lasts,
                ..known
            });
        }
        let base = url
            .split(['?', '#'])
            .next()
            .unwrap_or_default()
            .trim_end_matches('/');
        if Path::new(base)
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            return found(clients, base).await?.ok_or_else(|| no_card(base));
        }
        for place in PLACES {
            if let Some(found) = found(clients, &format!("{base}{place}")).await? {
                return Ok(found);
            }
        }
        // The URL may be that of an interface: then its card is at the top, and lists it.
        let uri: Uri = base.parse().map_err(|_| no_card(base))?;
        if uri.path().len() > 1
            && let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority())
            && let Some(top) = found(clients, &format!("{scheme}://{authority}{}", PLACES[0])).await?
            && lists(&top.card, base)
        {
            return Ok(top);
        }
        Err(no_card(&format!("{base}{}", PLACES[0])))
    }
}

async fn found(clients: &Clients, at: &str) -> Result<Option<Kept>, Fault> {
    let at: Uri = at
        .parse()
        .map_err(|error| Fault::last(format!("{at:?} is no URL: {error}")))?;
    Ok(match ask(clients, &at, None).await? {
        Answer::Card { card, etag, lasts } => Some(Kept {
            card: Arc::new(card),
            etag,
            until: Instant::now() + lasts,
            at,
        }),
        Answer::Unchanged { .. } | Answer::Missing => None,
    })
}

async fn ask(clients: &Clients, at: &Uri, etag: Option<&HeaderValue>) -> Result<Answer, Fault> {
    let mut headers = vec![(header::ACCEPT, HeaderValue::from_static("application/json"))];
    headers.extend(etag.map(|etag| (header::IF_NONE_MATCH, etag.clone())));
    let call = Call {
        method: Method::GET,
        url: at.to_string(),
        headers,
        body: Bytes::new(),
        within: CARD_WITHIN,
    };
    let http = clients.of(at);
    let of_card = |fault: Fault| {
        // Asking for a card again harms nobody.
        let kind = if fault.kind() == Kind::Broken {
            Kind::Unreached
        } else {
            fault.kind()
        };
        http.mask().fault(Fault::new(kind, format!("its card: {fault}")))
    };
    let response = http.open(call).await.map_err(of_card)?;
    let status = response.status();
    let lasts = lasts(response.headers().get(header::CACHE_CONTROL));
    if status == StatusCode::NOT_MODIFIED && etag.is_some() {
        return Ok(Answer::Unchanged { lasts });
    }
    if matches!(
        status,
        StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::METHOD_NOT_ALLOWED
    ) {
        return Ok(Answer::Missing);
    }
    if !status.is_success() {
        let said = excerpt(&beginning(response.into_body(), EXCERPT).await);
        return Err(of_card(Fault::of_status(status.as_u16(), &said)));
    }
    let etag = response.headers().get(header::ETAG).cloned();
    let bytes = read(response.into_body(), MAX_CARD).await.map_err(of_card)?;
    let mut card: Value = serde_json::from_slice(&bytes).map_err(|error| {
        let said = excerpt(&bytes);
        http.mask().fault(Fault::last(format!(
            "its card at {at} is no JSON: {error}: {said}"
        )))
    })?;
    http.mask().card(&mut card);
    // A large card is not kept for long: there may be many.
    let lasts = if bytes.len() > KEPT_BYTES {
        Duration::ZERO
    } else {
        lasts
    };
    Ok(Answer::Card { card, etag, lasts })
}

/// How long an answer may be used.
fn lasts(control: Option<&HeaderValue>) -> Duration {
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
    let is_it = |listed: &Value| {
        listed["url"]
            .as_str()
            .is_some_and(|listed| listed.trim_end_matches('/') == url)
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
        let lasts = |text: &'static str| lasts(Some(&HeaderValue::from_static(text)));
        assert_eq!(super::lasts(None), UNTOLD);
        assert_eq!(lasts("public, max-age=300"), Duration::from_mins(5));
        assert_eq!(lasts("max-age=99999999"), LONGEST);
        assert_eq!(lasts("no-store, max-age=300"), Duration::ZERO);
    }

    #[test]
    fn a_card_at_the_top_is_taken_only_for_what_it_lists() {
        let card = json!({"url": "https://h/a/", "supportedInterfaces": [{"url": "https://h/b"}]});
        assert!(lists(&card, "https://h/a") && lists(&card, "https://h/b"));
        assert!(!lists(&card, "https://h/c") && !lists(&json!([]), "https://h/c"));
    }
}
