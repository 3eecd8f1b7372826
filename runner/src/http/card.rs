//! The card of an A2A agent: whether there is one, and the skills on it.

use std::time::Duration;

use agentanycast_daemon_kit::address::join_path;
use agentanycast_proto::v1;
use agentanycast_readers::{body::words, gzip::Unpacker, json};
use reqwest::{Client, header::ACCEPT};
use serde_json::Value;

use super::broken;
use crate::parts::JSON;

/// Where a card is below the URL of its agent, the newer place first.
const WELL_KNOWN: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// Largest card, in bytes.
const CARD_LIMIT: usize = 1 << 20;

/// How long a card may take.
const CARD_WITHIN: Duration = Duration::from_secs(10);

/// Why a card was not found, for people.
#[derive(Debug)]
pub(super) enum NoCard {
    /// The service answered, and has none.
    None(String),
    /// It is not known whether it has one: the service did not answer, or is out of order.
    Unknown(String),
}

impl NoCard {
    pub(super) fn reason(self) -> String {
        match self {
            Self::None(reason) | Self::Unknown(reason) => reason,
        }
    }
}

/// The card of the agent at this URL.
pub(super) async fn find(http: &Client, url: &str, token: Option<&str>) -> Result<Value, NoCard> {
    let (mut reasons, mut is_known) = (Vec::new(), true);
    for place in WELL_KNOWN {
        let place = join_path(url, place);
        match tokio::time::timeout(CARD_WITHIN, read(http, &place, token)).await {
            Ok(Ok(card)) => return Ok(card),
            Ok(Err(no_card)) => {
                is_known &= matches!(no_card, NoCard::None(_));
                reasons.push(format!("{place}: {}", no_card.reason()));
            }
            Err(_) => {
                is_known = false;
                reasons.push(format!("{place}: it took more than {CARD_WITHIN:?}"));
            }
        }
    }
    let reasons = reasons.join("; ");
    Err(if is_known {
        NoCard::None(reasons)
    } else {
        NoCard::Unknown(reasons)
    })
}

async fn read(http: &Client, url: &str, token: Option<&str>) -> Result<Value, NoCard> {
    let unknown = |error: reqwest::Error| NoCard::Unknown(broken(&error).to_string());
    let mut request = http.get(url).header(ACCEPT, JSON);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let mut answer = request.send().await.map_err(unknown)?;
    let status = answer.status();
    if status.is_server_error() {
        return Err(NoCard::Unknown(status.to_string()));
    }
    if !status.is_success() {
        return Err(NoCard::None(status.to_string()));
    }
    let mut bytes = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(unknown)? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > CARD_LIMIT {
            return Err(NoCard::None(format!("it has more than {CARD_LIMIT} bytes")));
        }
    }
    let card = read_card(&bytes).map_err(NoCard::None)?;
    if !is_card(&card) {
        return Err(NoCard::None("it is no card of an A2A agent".to_owned()));
    }
    Ok(card)
}

/// The JSON of a card, which may be packed.
fn read_card(bytes: &[u8]) -> Result<Value, String> {
    let mut unpacker = Unpacker::new(CARD_LIMIT);
    let mut card = unpacker
        .take(bytes)
        .map_err(|error| error.to_string())?
        .into_owned();
    card.extend(unpacker.finish().map_err(|error| error.to_string())?);
    json::value(&card).map_err(|error| format!("{error}: {}", words(&card)))
}

/// Whether it says where an agent is.
fn is_card(card: &Value) -> bool {
    card.get("supportedInterfaces").is_some_and(Value::is_array)
        || card.get("url").is_some_and(Value::is_string)
}

/// The skills on a card.
pub(super) fn skills(card: &Value) -> Vec<v1::Skill> {
    let text = |value: &Value, name: &str| {
        value
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let skills = card.get("skills").and_then(Value::as_array);
    let skills = skills.into_iter().flatten().map(|skill| v1::Skill {
        id: text(skill, "id"),
        description: match text(skill, "description") {
            description if description.is_empty() => text(skill, "name"),
            description => description,
        },
        ..v1::Skill::default()
    });
    skills.filter(|skill| !skill.id.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn skills_are_read_from_a_card() {
        let card = json!({"url": "http://h/", "skills": [
            {"id": "a", "name": "A", "description": "does a"}, {"id": "b", "name": "B"}, {"name": "no id"}, 7]});
        let read: Vec<_> = skills(&card)
            .into_iter()
            .map(|skill| (skill.id, skill.description))
            .collect();
        let expected = [("a", "does a"), ("b", "B")].map(|(id, text)| (id.to_owned(), text.to_owned()));
        assert_eq!(read, expected);
        assert!(is_card(&card) && is_card(&json!({"supportedInterfaces": []})));
        assert!(!is_card(&json!({"name": "x"})) && !is_card(&json!([])));
    }
}
