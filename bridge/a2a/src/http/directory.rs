//! The agents and skills that the node knows: as JSON for programs at `/agents` and `/skills`, and as a page for people
//! at `/`. Many may ask: the node, which asks registries, is asked once in 5 s at most.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_front::{
    json_response::{JSON, response},
    path_segment::encode,
};
use agentanycast_gateway::{caller::CallerIdentity, reachability, skills_of};
use agentanycast_proto::v1::{ListedAgent, SkillInfo};
use axum::{body::Body, response::Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{
    failed,
    route::{Resource, agent_path},
};
use crate::{
    handler::A2aHandler,
    protocol::{error::A2aError, version::Version},
};

/// How long an answer of the node stands.
const FRESH: Duration = Duration::from_secs(5);

/// Most agents that are listed.
const MOST: usize = 1000;

/// A browser runs nothing of the page, and shows it nowhere else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// What the node told last, and when.
type CachedAgents = Option<(Instant, Arc<Vec<ListedAgent>>)>;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct AgentDirectory {
    /// For callers who count as the own node.
    own: Mutex<CachedAgents>,
    strangers: Mutex<CachedAgents>,
}

impl AgentDirectory {
    /// What was asked for: a list, or the page.
    pub(super) async fn answer(
        &self,
        handler: &dyn A2aHandler,
        what: &Resource,
        caller: &CallerIdentity,
    ) -> Response {
        let agents = match self.agents(handler, caller).await {
            Ok(agents) => agents,
            Err(error) => return failed(Version::V10, &error),
        };
        match what {
            Resource::Agents => response(
                StatusCode::OK,
                JSON,
                &json!({ "agents": agents.iter().map(agent).collect::<Vec<_>>() }),
            ),
            Resource::Skills => response(StatusCode::OK, JSON, &json!({ "skills": skills(&agents) })),
            _ => page(&agents),
        }
    }

    /// Those who ask while the node is being asked wait for the same answer; after a failure the next one asks.
    async fn agents(
        &self,
        handler: &dyn A2aHandler,
        caller: &CallerIdentity,
    ) -> Result<Arc<Vec<ListedAgent>>, A2aError> {
        let told = if caller.is_stranger() {
            &self.strangers
        } else {
            &self.own
        };
        let mut told = told.lock().await;
        if let Some((since, agents)) = &*told
            && since.elapsed() < FRESH
        {
            return Ok(Arc::clone(agents));
        }
        let mut agents = handler.agents(caller).await?;
        agents.truncate(MOST);
        let agents = Arc::new(agents);
        *told = Some((Instant::now(), Arc::clone(&agents)));
        Ok(agents)
    }
}

fn agent(agent: &ListedAgent) -> Value {
    let skill = |skill: &SkillInfo| json!({"id": skill.skill_id, "description": skill.description, "tags": skill.tags});
    let mut json = json!({
        "peerId": agent.peer_id,
        "name": agent.name,
        "description": agent.description,
        "skills": agent.skills.iter().map(skill).collect::<Vec<_>>(),
        "reached": reachability(agent),
        "verified": agent.verified,
        "url": url(agent),
    });
    name_agent(&mut json, agent);
    json
}

fn url(agent: &ListedAgent) -> String {
    agent_path(&agent.peer_id, &agent.agent)
}

/// Says which agent of its node it is, where there are several.
fn name_agent(json: &mut Value, agent: &ListedAgent) {
    if !agent.agent.is_empty() {
        json["agent"] = agent.agent.as_str().into();
    }
}

/// What is said of skills.
fn skills(agents: &[ListedAgent]) -> Vec<Value> {
    let who = |agent: &&ListedAgent| {
        let mut json = json!({"peerId": agent.peer_id, "name": agent.name});
        name_agent(&mut json, agent);
        json
    };
    let skill = |(id, (description, agents)): (&str, (&str, Vec<&ListedAgent>))| {
        let agents: Vec<_> = agents.iter().map(who).collect();
        json!({"id": id, "description": description, "agents": agents, "url": format!("/skills/{}", encode(id))})
    };
    skills_of(agents).into_iter().map(skill).collect()
}

fn page(agents: &[ListedAgent]) -> Response {
    let mut rows = String::new();
    for agent in agents {
        let skills = agent.skills.iter().map(|skill| {
            let (id, about) = (escaped(&skill.skill_id), escaped(&skill.description));
            format!("<span title=\"{about}\">{id}</span>")
        });
        let url = escaped(&url(agent));
        // Writing to a text does not fail.
        let _ = writeln!(
            rows,
            "<tr><td>{}<td><a href=\"{url}/.well-known/agent-card.json\"><code>{url}</code></a><td>{}<td>{}<td>{}",
            escaped(&agent.name),
            reachability(agent),
            skills.collect::<Vec<_>>().join(", "),
            escaped(&agent.description),
        );
    }
    let html = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>AgentAnycast</title>\n<style>body{{font:16px system-ui;margin:2em}}\
         table{{border-collapse:collapse}}td,th{{text-align:left;padding:.3em .8em;border-bottom:1px solid #ccc;vertical-align:top}}</style>\n\
         <h1>Agents</h1>\n<p>This is the A2A bridge of a node. Programs read <a href=\"/agents\">/agents</a>, \
         <a href=\"/skills\">/skills</a> and <a href=\"/.well-known/agent-card.json\">the card of the agent here</a>.</p>\n\
         <table><tr><th>Agent<th>URL<th>Reached<th>Skills<th>About\n{rows}</table>\n</html>\n"
    );
    let mut answer = Response::new(Body::from(html));
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// A text within HTML.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter if letter.is_control() => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str, skill: &str) -> ListedAgent {
        ListedAgent {
            peer_id: "12D3KooWx".to_owned(),
            name: name.to_owned(),
            skills: vec![SkillInfo {
                skill_id: skill.to_owned(),
                ..SkillInfo::default()
            }],
            ..ListedAgent::default()
        }
    }

    #[test]
    fn a_skill_is_listed_once_with_those_that_have_it() {
        let agents = [named("one", "a/b"), named("two", "a/b"), named("three", "c")];
        let listed = skills(&agents);
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[0]["url"], "/skills/a%2Fb");
        assert_eq!(listed[0]["agents"].as_array().unwrap().len(), 2);
        assert_eq!(agent(&agents[0])["url"], "/agents/12D3KooWx");
        assert_eq!(agent(&agents[0])["reached"], "registry");
    }

    #[test]
    fn each_agent_of_a_node_has_a_url_of_its_own() {
        let of_node = |name: &str| ListedAgent {
            agent: name.to_owned(),
            ..named("Named", "s")
        };
        let agents = [of_node("one"), of_node("tasks")];
        assert_eq!(agent(&agents[0])["url"], "/agents/12D3KooWx/one");
        assert_eq!(agent(&agents[0])["agent"], "one");
        assert_eq!(agent(&agents[1])["url"], "/agents/12D3KooWx/@tasks");
        assert_eq!(skills(&agents)[0]["agents"][1]["agent"], "tasks");
        assert!(agent(&named("one", "s")).get("agent").is_none());
    }

    proptest! {
        #[test]
        fn what_agents_say_makes_no_html(text in "\\PC{0,20}|[<>&\"'a]{0,20}") {
            let safe = escaped(&text);
            let has_mark = |letter| matches!(letter, '<' | '>' | '"' | '\'');
            prop_assert!(!safe.contains(has_mark), "{}", safe);
        }
    }
}
