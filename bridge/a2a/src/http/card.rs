//! Cards at their well-known places, with what caches need.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use agentanycast_front::{auth::FrontCaller, host::RequestHost, json_response::JSON};
use agentanycast_gateway::{Target, caller::CallerIdentity};
use axum::{body::Body, response::Response};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use lru::LruCache;
use sha2::{Digest as _, Sha256};

use super::{A2aFrontState, failed};
use crate::{
    card_endpoint::card_endpoint,
    protocol::{error::A2aError, version::Version},
};

/// How long a card may be kept. Agents change their cards seldom, and clients want to see it when they do.
pub(super) const CACHE: &str = "public, max-age=60";

/// The same for what is shown to one caller.
const OWN_CACHE: &str = "private, max-age=60";

/// Cards whose last change is remembered, at most.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Where a card is shown, and to whom: it says where it is, and strangers are shown less.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CardPlace {
    target: Target,
    url: String,
    is_strangers: bool,
}

/// When each card was first seen as it is, in whole seconds.
#[derive(Debug)]
pub(super) struct CardTimes(Mutex<LruCache<CardPlace, (String, SystemTime)>>);

impl Default for CardTimes {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl CardTimes {
    fn since(&self, place: CardPlace, etag: &str, now: SystemTime) -> SystemTime {
        let mut cards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, since)) = cards.get(&place)
            && known == etag
        {
            return *since;
        }
        let now = whole_second(now);
        cards.put(place, (etag.to_owned(), now));
        now
    }
}

pub(super) async fn answer(
    shared: &A2aFrontState,
    target: &Target,
    base: &str,
    host: Result<RequestHost, A2aError>,
    (headers, caller): (&HeaderMap, &FrontCaller),
) -> Response {
    let identity = CallerIdentity::from(caller);
    let shown = async {
        let front = card_endpoint(&shared.config, target, base, host)?;
        let card = shared.handler.card(target, &front, &identity).await?;
        Ok::<_, A2aError>((front.url, card.to_string()))
    };
    let (url, card) = match shown.await {
        Ok(shown) => shown,
        Err(error) => return failed(Version::V10, &error),
    };
    let etag = etag(&card);
    let place = CardPlace {
        target: target.clone(),
        url,
        is_strangers: caller.is_stranger(),
    };
    let since = shared.card_times.since(place, &etag, SystemTime::now());
    let mut response = Response::new(Body::empty());
    if is_known(headers, &etag, since) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Body::from(card);
    }
    let ours = response.headers_mut();
    ours.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    let cache = if caller.is_anonymous() { CACHE } else { OWN_CACHE };
    ours.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    ours.insert(header::VARY, HeaderValue::from_static("host, authorization"));
    let modified = httpdate::fmt_http_date(since);
    for (name, value) in [(header::ETAG, etag), (header::LAST_MODIFIED, modified)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            ours.insert(name, value);
        }
    }
    response
}

/// Whether the client has the card as it is (RFC 9110, 13): its tag counts, and without one its date.
fn is_known(headers: &HeaderMap, etag: &str, since: SystemTime) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if headers.contains_key(header::IF_NONE_MATCH) {
        let tags = headers.get_all(header::IF_NONE_MATCH).iter();
        let mut tags = tags
            .filter_map(|tags| tags.to_str().ok())
            .flat_map(|tags| tags.split(','));
        return tags.any(|tag| matches!(tag.trim(), "*") || tag.trim().trim_start_matches("W/") == etag);
    }
    let date = text(header::IF_MODIFIED_SINCE).and_then(|date| httpdate::parse_http_date(date).ok());
    date.is_some_and(|date| since <= date)
}

fn etag(card: &str) -> String {
    let digest = Sha256::digest(card.as_bytes());
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(&digest[..16]))
}

/// Dates of HTTP have no fractions.
fn whole_second(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_card_is_as_old_as_its_content_wherever_it_is_read() {
        let shown = CardTimes::default();
        let place = |url: &str, is_strangers| CardPlace {
            target: Target::Own,
            url: url.to_owned(),
            is_strangers,
        };
        let since = |url: &str, etag: &str, now| shown.since(place(url, false), etag, now);
        assert_eq!(since("http://a", "1", at(1) + Duration::from_millis(700)), at(1));
        assert_eq!(since("http://b", "2", at(2)), at(2));
        assert_eq!(since("http://a", "1", at(3)), at(1));
        assert_eq!(shown.since(place("http://a", true), "4", at(3)), at(3));
        assert_eq!(since("http://b", "2", at(4)), at(2));
        assert_eq!(since("http://a", "3", at(5)), at(5));
    }

    #[test]
    fn who_has_the_card_is_told_so() {
        let since = at(784_111_777);
        for (name, value, expected) in [
            (header::IF_NONE_MATCH, "\"x\"", true),
            (header::IF_NONE_MATCH, "\"a\", W/\"x\"", true),
            (header::IF_NONE_MATCH, "*", true),
            (header::IF_NONE_MATCH, "\"y\"", false),
            (header::IF_MODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:37 GMT", true),
            (header::IF_MODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:36 GMT", false),
            (header::IF_MODIFIED_SINCE, "yesterday", false),
        ] {
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            assert_eq!(is_known(&headers, "\"x\"", since), expected, "{value}");
        }
        let mut both = HeaderMap::new();
        both.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"y\""));
        both.insert(
            header::IF_MODIFIED_SINCE,
            HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"),
        );
        assert!(!is_known(&both, "\"x\"", since), "the tag counts");
    }
}
