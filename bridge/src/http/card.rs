//! Cards at their well-known places, with what caches need.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use axum::{body::Body, response::Response};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::{FrontConfig, JSON, Shared, response};
use crate::{a2a::card::Front, gateway::Target};

/// How long a card may be kept. Agents change their cards seldom, and clients want to see it when they do.
const CACHE: &str = "public, max-age=60";

/// Cards whose last change is remembered, at most.
const REMEMBERED: usize = 1024;

/// When each card was first seen as it is.
#[derive(Debug, Default)]
pub(super) struct Shown(Mutex<HashMap<Target, (String, SystemTime)>>);

impl Shown {
    fn since(&self, target: &Target, etag: &str, now: SystemTime) -> SystemTime {
        let mut cards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, since)) = cards.get(target)
            && known == etag
        {
            return *since;
        }
        if cards.len() >= REMEMBERED {
            cards.clear();
        }
        cards.insert(target.clone(), (etag.to_owned(), now));
        now
    }
}

pub(super) async fn answer(
    shared: &Shared,
    target: &Target,
    base: &str,
    host: &str,
    headers: &HeaderMap,
) -> Response {
    let front = front(&shared.config, target, base, host);
    let card = match shared.handler.card(target, &front).await {
        Ok(card) => card.to_string(),
        Err(error) => {
            let status = StatusCode::from_u16(error.reason().http());
            return response(
                status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                JSON,
                &error.rest(),
            );
        }
    };
    let etag = etag(&card);
    let since = shared.shown.since(target, &etag, SystemTime::now());
    let known = headers.get(header::IF_NONE_MATCH);
    let unchanged = known.and_then(|known| known.to_str().ok()).is_some_and(|known| {
        known
            .split(',')
            .any(|known| known.trim().trim_start_matches("W/") == etag)
    });
    let mut response = Response::new(Body::empty());
    if unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Body::from(card);
    }
    let ours = response.headers_mut();
    ours.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    ours.insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHE));
    ours.insert(header::VARY, HeaderValue::from_static("host"));
    for (name, value) in [
        (header::ETAG, Some(etag)),
        (header::LAST_MODIFIED, http_date(since)),
    ] {
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            ours.insert(name, value);
        }
    }
    response
}

/// What the card of an agent says of the bridge to a client that calls it by this host.
pub(crate) fn front(config: &FrontConfig, target: &Target, base: &str, host: &str) -> Front {
    let scheme = if config.tls { "https" } else { "http" };
    let origin = origin(config.public_url.as_deref(), scheme, host);
    Front {
        url: format!("{origin}{base}"),
        grpc: authority(&origin),
        tenant: tenant(target),
        dual: config.dual_cards,
        schemes: config.callers.schemes(),
        key: config.card_key.clone(),
        extended: config.extended_card && *target == Target::Own,
        extensions: config.extensions.clone(),
    }
}

/// Where the bridge is reached: as configured, or as the request says.
fn origin(public: Option<&str>, scheme: &str, host: &str) -> String {
    if let Some(public) = public {
        return public.trim_end_matches('/').to_owned();
    }
    format!("{scheme}://{host}")
}

/// `HOST:PORT` of a URL.
fn authority(origin: &str) -> String {
    let (scheme, rest) = origin.split_once("://").unwrap_or(("http", origin));
    let host = rest.split('/').next().unwrap_or_default();
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match (has_port, scheme) {
        (true, _) => host.to_owned(),
        (false, "https") => format!("{host}:443"),
        (false, _) => format!("{host}:80"),
    }
}

/// What gRPC, which has no paths, names an agent by.
fn tenant(target: &Target) -> String {
    match target {
        Target::Peer(peer) => format!("agents/{peer}"),
        Target::Skill(skill) => format!("skills/{skill}"),
        Target::Own | Target::Url(_) => String::new(),
    }
}

fn etag(card: &str) -> String {
    let digest = Sha256::digest(card.as_bytes());
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(&digest[..16]))
}

fn http_date(time: SystemTime) -> Option<String> {
    let time = Timestamp::try_from(time).ok()?;
    Some(time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(http_date(time).unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn grpc_is_where_http_is() {
        for (origin, expected) in [
            ("http://localhost:8090", "localhost:8090"),
            ("https://example.org", "example.org:443"),
            ("http://[::1]:80/x", "[::1]:80"),
            ("https://[::1]", "[::1]:443"),
        ] {
            assert_eq!(authority(origin), expected);
        }
    }

    #[test]
    fn a_card_is_as_old_as_its_content() {
        let shown = Shown::default();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(shown.since(&Target::Own, "a", at(1)), at(1));
        assert_eq!(shown.since(&Target::Own, "a", at(2)), at(1));
        assert_eq!(shown.since(&Target::Own, "b", at(3)), at(3));
    }
}
