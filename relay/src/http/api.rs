//! The directory as JSON, `/api/v1`. What it takes and gives is described in `openapi.json`; a test keeps both together.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::{Arc, PoisonError},
};

use axum::{
    Json, Router,
    extract::{Path, Query, State, rejection::PathRejection},
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Face,
    directory::{Agent, Filter},
    error::ApiError,
    health,
};
use crate::clock::now;

/// Agents in an answer when nobody says how many, and at most.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// What the agents of an answer say, in bytes, beyond the first of them: the next page has the others.
const PAGE_BYTES: usize = 8 << 20;

/// Longest word or tag that is searched for, in bytes.
const MAX_WORD: usize = 256;

/// Most tags that are searched for.
const MAX_TAGS: usize = 32;

/// What a search takes.
const PARAMETERS: [&str; 5] = ["skill", "tag", "q", "limit", "offset"];

pub(super) const OPENAPI: &str = include_str!("openapi.json");

pub(super) fn routes() -> Router<Face> {
    Router::new()
        .route("/api/v1/agents", get(agents))
        .route("/api/v1/agents/{peer_id}", get(agent))
        .route("/api/v1/skills", get(skills))
        .route("/api/v1/stats", get(stats))
        .route("/api/v1/openapi.json", get(openapi))
}

async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}

async fn agents(
    State(face): State<Face>,
    Query(words): Query<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    let (filter, limit, offset) = read(words)?;
    let all = everybody(&face);
    let found: Vec<&Arc<Agent>> = all.iter().filter(|agent| filter.lets(agent)).collect();
    let mut bytes = 0;
    let agents: Vec<&Agent> = found
        .iter()
        .skip(offset)
        .take(limit)
        .map(|agent| &***agent)
        .take_while(|agent| {
            let first = bytes == 0;
            bytes += agent.bytes;
            first || bytes <= PAGE_BYTES
        })
        .collect();
    // Written as it is: a page may be large.
    let page = Page {
        count: agents.len(),
        total: found.len(),
        agents,
    };
    Ok(Json(page).into_response())
}

#[derive(Serialize)]
struct Page<'a> {
    agents: Vec<&'a Agent>,
    count: usize,
    total: usize,
}

async fn agent(
    State(face): State<Face>,
    peer: Result<Path<String>, PathRejection>,
    Query(words): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, ApiError> {
    none(&words)?;
    let Path(peer) = peer.map_err(|_| {
        ApiError::invalid("the peer id in the path is no UTF-8; percent-encode its bytes".into())
    })?;
    let all = everybody(&face);
    let found = all.iter().find(|agent| agent.peer_id == peer);
    let shown: String = peer.chars().take(100).collect();
    let found = found.ok_or_else(|| ApiError::not_found(format!("no agent {shown:?} is registered")))?;
    Ok(Json(json!(&**found)))
}

async fn skills(
    State(face): State<Face>,
    Query(words): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, ApiError> {
    none(&words)?;
    // Counted by agents and not by entries: an agent may be registered at several relays.
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let all = everybody(&face);
    for skill in all.iter().flat_map(|agent| &agent.skills) {
        *counts.entry(&skill.id).or_default() += 1;
    }
    let skills: Vec<Value> = counts
        .iter()
        .map(|(id, count)| json!({ "id": id, "agent_count": count }))
        .collect();
    Ok(Json(json!({ "count": skills.len(), "skills": skills })))
}

async fn stats(
    State(face): State<Face>,
    Query(words): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, ApiError> {
    none(&words)?;
    Ok(Json(figures(&face)))
}

/// What `/api/v1/stats` and the live events say.
pub(super) fn figures(face: &Face) -> Value {
    let peers = face.0.peers.all();
    let mut figures = json!({
        "registry": health::registry(face),
        "relay": health::relay(face),
        "libp2p": { "connected_peers": face.0.handle.metrics().peers.get() },
        "peer_id": face.0.handle.me(),
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": face.0.started.elapsed().as_secs(),
        "now": health::time(now()),
    });
    if !peers.is_empty() {
        figures["federation"] = health::federation(&peers);
    }
    figures
}

fn everybody(face: &Face) -> Arc<Vec<Arc<Agent>>> {
    let mut directory = face.0.directory.lock().unwrap_or_else(PoisonError::into_inner);
    directory.read(&face.0.handle)
}

fn read(words: Vec<(String, String)>) -> Result<(Filter, usize, usize), ApiError> {
    let mut filter = Filter::default();
    let (mut limit, mut offset) = (DEFAULT_LIMIT, 0);
    let mut given = BTreeSet::new();
    for (name, value) in words {
        let Some(known) = PARAMETERS.into_iter().find(|known| *known == name) else {
            return Err(unknown(&name, "it takes skill, tag, q, limit and offset"));
        };
        if value.len() > MAX_WORD {
            return Err(ApiError::invalid(format!("{known}: at most {MAX_WORD} bytes")));
        }
        // Which of two was meant cannot be told.
        if !given.insert(known) && known != "tag" {
            return Err(ApiError::invalid(format!(
                "{known}: given twice; only tag may be repeated"
            )));
        }
        match known {
            "skill" if !value.is_empty() => filter.skill = Some(value),
            "tag" if filter.tags.len() >= MAX_TAGS => {
                return Err(ApiError::invalid(format!("tag: at most {MAX_TAGS}")));
            }
            "tag" if !value.contains(':') => {
                return Err(ApiError::invalid(format!("tag: {value:?} is not NAME:VALUE")));
            }
            "tag" => filter.tags.push(value),
            "q" => filter.text = value.to_lowercase(),
            "limit" => limit = number(known, &value, 1..=MAX_LIMIT)?,
            "offset" => offset = number(known, &value, 0..=usize::MAX)?,
            _ => {} // An empty skill: any.
        }
    }
    Ok((filter, limit, offset))
}

/// What takes no parameters says so.
pub(super) fn none(words: &[(String, String)]) -> Result<(), ApiError> {
    words
        .first()
        .map_or(Ok(()), |(name, _)| Err(unknown(name, "it takes none")))
}

fn unknown(name: &str, allowed: &str) -> ApiError {
    let shown: String = name.chars().take(100).collect();
    ApiError::invalid(format!("{shown:?} is no parameter of this path; {allowed}"))
}

fn number(name: &str, text: &str, allowed: RangeInclusive<usize>) -> Result<usize, ApiError> {
    let number = text
        .parse::<usize>()
        .ok()
        .filter(|number| allowed.contains(number));
    number.ok_or_else(|| {
        let (least, most) = (allowed.start(), allowed.end());
        ApiError::invalid(format!("{name}: {text:?} is not a number from {least} to {most}"))
    })
}
