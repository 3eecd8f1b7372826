//! The directory as JSON, `/api/v1`. What it takes and gives is described in `openapi.json`; a test keeps both together.

use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    sync::{Arc, MutexGuard, PoisonError},
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
    RelayHttpState,
    directory::{AgentFilter, DirectoryAgent, DirectoryView, words_of},
    error::ApiError,
    health,
    offload::ClientExtension,
};
use crate::clock::now;

/// Agents in an answer when nobody says how many, and at most.
const DEFAULT_LIMIT: usize = 100;
pub(super) const MAX_LIMIT: usize = 1000;

/// What the agents of an answer say, in bytes, beyond the first of them: the next page has the others.
const PAGE_BYTES: usize = 8 << 20;

/// Skills in an answer when nobody says how many, and at most: 3 MB of the longest ids.
const MAX_SKILLS: usize = 10_000;

/// Longest word or tag that is searched for, in bytes.
pub(super) const MAX_WORD: usize = 256;

/// Most tags that are searched for.
pub(super) const MAX_TAGS: usize = 32;

/// What a search takes; a list of skills the last two.
const PARAMETERS: [&str; 5] = ["skill", "tag", "q", "limit", "offset"];

pub(super) const OPENAPI: &str = include_str!("openapi.json");

pub(super) fn routes() -> Router<RelayHttpState> {
    Router::new()
        .route("/api/v1/agents", get(agents))
        .route("/api/v1/agents/{peer_id}", get(node))
        .route("/api/v1/agents/{peer_id}/{agent}", get(agent))
        .route("/api/v1/skills", get(skills))
        .route("/api/v1/stats", get(stats))
        .route("/api/v1/openapi.json", get(openapi))
}

async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}

async fn agents(
    State(face): State<RelayHttpState>,
    asker: ClientExtension,
    Query(words): Query<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    let (filter, range) = read(words)?;
    let aside = face.clone();
    aside
        .0
        .offload
        .run(asker, move || page(&face, &filter, range))
        .await
}

fn page(face: &RelayHttpState, filter: &AgentFilter, range: PageRange) -> Response {
    let all = current_directory(face).agents();
    let (agents, total) = select(&all, filter, range, PAGE_BYTES);
    // Written as it is: a page may be large.
    let page = AgentsPage {
        count: agents.len(),
        total,
        agents,
    };
    Json(page).into_response()
}

/// The agents of a range of those that a filter lets through, until they say more than so many bytes; and how
/// many it lets through in all.
pub(super) fn select<'a>(
    all: &'a [Arc<DirectoryAgent>],
    filter: &AgentFilter,
    range: PageRange,
    most_bytes: usize,
) -> (Vec<&'a DirectoryAgent>, usize) {
    let found: Vec<&Arc<DirectoryAgent>> = all.iter().filter(|agent| filter.matches(agent)).collect();
    let mut bytes = 0;
    let agents = found
        .iter()
        .skip(range.offset)
        .take(range.limit)
        .map(|agent| &***agent)
        .take_while(|agent| {
            let first = bytes == 0;
            bytes += agent.bytes;
            first || bytes <= most_bytes
        });
    (agents.collect(), found.len())
}

#[derive(Serialize)]
struct AgentsPage<'a> {
    agents: Vec<&'a DirectoryAgent>,
    count: usize,
    total: usize,
}

async fn node(
    State(face): State<RelayHttpState>,
    asker: ClientExtension,
    peer: Result<Path<String>, PathRejection>,
    Query(words): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, ApiError> {
    no_parameters(&words)?;
    let Path(peer) = peer.map_err(|_| bad_path())?;
    one(face, asker, peer, None).await
}

async fn agent(
    State(face): State<RelayHttpState>,
    asker: ClientExtension,
    path: Result<Path<(String, String)>, PathRejection>,
    Query(words): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, ApiError> {
    no_parameters(&words)?;
    let Path((peer, agent)) = path.map_err(|_| bad_path())?;
    one(face, asker, peer, Some(agent)).await
}

fn bad_path() -> ApiError {
    ApiError::invalid("the peer id in the path is no UTF-8; percent-encode its bytes".into())
}

async fn one(
    face: RelayHttpState,
    asker: ClientExtension,
    peer: String,
    agent: Option<String>,
) -> Result<Json<Value>, ApiError> {
    let asked = agent
        .iter()
        .fold(peer.clone(), |peer, agent| format!("{peer}/{agent}"));
    let shown: String = asked.chars().take(100).collect();
    let aside = face.clone();
    let look = move || find(&face, &peer, agent.as_deref());
    let found = aside.0.offload.run(asker, look).await?;
    found
        .map(Json)
        .ok_or_else(|| ApiError::not_found(format!("no agent {shown:?} is registered")))
}

/// One agent of a node, or the node with all of its agents.
pub(super) fn find(face: &RelayHttpState, peer: &str, agent: Option<&str>) -> Option<Value> {
    let node = current_directory(face).node(peer)?;
    match agent {
        Some(agent) => node.agent(agent).map(|agent| json!(agent)),
        None => Some(node.whole()),
    }
}

async fn skills(
    State(face): State<RelayHttpState>,
    asker: ClientExtension,
    Query(words): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, ApiError> {
    let mut range = PageRange {
        limit: MAX_SKILLS,
        offset: 0,
    };
    let mut given = BTreeSet::new();
    for (name, value) in words {
        let Some(known) = known(&name, &["limit", "offset"]) else {
            return Err(unknown(&name, "it takes limit and offset"));
        };
        once(&mut given, known)?;
        range.read(known, &value, MAX_SKILLS)?;
    }
    let aside = face.clone();
    let look = move || {
        let all = current_directory(&face).skills();
        let page = all.iter().skip(range.offset).take(range.limit);
        let skills: Vec<Value> = page
            .map(|skill| json!({ "id": skill.id, "agent_count": skill.agents }))
            .collect();
        json!({ "count": skills.len(), "total": all.len(), "skills": skills })
    };
    aside.0.offload.run(asker, look).await.map(Json)
}

async fn stats(
    State(face): State<RelayHttpState>,
    Query(words): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, ApiError> {
    no_parameters(&words)?;
    Ok(Json(stats_json(&face)))
}

/// What `/api/v1/stats` and the live events say.
pub(super) fn stats_json(face: &RelayHttpState) -> Value {
    let (peers, registry) = (face.0.peers.all(), &face.0.registry);
    let mut figures = json!({
        "registry": health::registry(face),
        "registry_endpoint": {
            "address": registry.address,
            "port": registry.port,
            "loopback_only": registry.loopback_only,
        },
        "relay": health::relay(face),
        "libp2p": { "connected_peers": face.0.handle.metrics().peers.get() },
        "peer_id": face.0.handle.me(),
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": face.0.started.elapsed().as_secs(),
        "now": health::time(now().wall),
    });
    if !peers.is_empty() {
        figures["federation"] = health::federation(&peers);
    }
    figures
}

/// The directory, up to date.
pub(super) fn current_directory(face: &RelayHttpState) -> MutexGuard<'_, DirectoryView> {
    let mut directory = face.0.directory.lock().unwrap_or_else(PoisonError::into_inner);
    directory.refresh(&face.0.handle);
    directory
}

/// Which of what is found is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRange {
    pub(super) limit: usize,
    pub(super) offset: usize,
}

impl PageRange {
    /// Takes one of its two parameters.
    fn read(&mut self, name: &str, value: &str, most: usize) -> Result<(), ApiError> {
        match name {
            "limit" => self.limit = number(name, value, 1..=most)?,
            _ => self.offset = number(name, value, 0..=usize::MAX)?,
        }
        Ok(())
    }
}

fn known(name: &str, parameters: &[&'static str]) -> Option<&'static str> {
    parameters.iter().copied().find(|known| *known == name)
}

/// Which of two was meant cannot be told.
fn once(given: &mut BTreeSet<&'static str>, name: &'static str) -> Result<(), ApiError> {
    if given.insert(name) {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "{name}: given twice; only tag may be repeated"
    )))
}

fn read(words: Vec<(String, String)>) -> Result<(AgentFilter, PageRange), ApiError> {
    let mut filter = AgentFilter::default();
    let mut range = PageRange {
        limit: DEFAULT_LIMIT,
        offset: 0,
    };
    let mut given = BTreeSet::new();
    for (name, value) in words {
        let Some(known) = known(&name, &PARAMETERS) else {
            return Err(unknown(&name, "it takes skill, tag, q, limit and offset"));
        };
        if value.len() > MAX_WORD {
            return Err(ApiError::invalid(format!("{known}: at most {MAX_WORD} bytes")));
        }
        if known != "tag" {
            once(&mut given, known)?;
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
            "q" => filter.words = words_of(&value),
            "limit" | "offset" => range.read(known, &value, MAX_LIMIT)?,
            _ => {} // An empty skill: any.
        }
    }
    Ok((filter, range))
}

/// What takes no parameters says so.
pub(super) fn no_parameters(words: &[(String, String)]) -> Result<(), ApiError> {
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
