//! Paths: which agent, which tenant, and what of it. PURE.

use agentanycast_front::path_segment::{decode, encode};
use agentanycast_gateway::Target;
use http::Method as Verb;

use super::refusal::ErrorFormat;
use crate::protocol::{request::Method, version::Version};

/// Where agents' cards are; the first is that of the specification, the others those of older clients.
const CARDS: [&str; 3] = ["agent-card.json", "agent.json", "a2a-agent-card"];

/// What the REST paths of 0.3 begin with. So no tenant is called that.
const OLD: &str = "v1";

/// What stands before the name of an agent that is called as a path below an agent is, such as `tasks`.
const MARK: char = '@';

/// What a path means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Whom it is for.
    pub(super) target: Target,
    /// The path up to the agent, such as `/agents/PEER/NAME`; empty for the agent beside the node.
    pub(super) base: String,
    pub(super) resource: Resource,
}

/// What of an agent is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// Whether the bridge can do its work.
    Health,
    Card,
    /// The agents that are known.
    Agents,
    /// Their skills.
    Skills,
    /// Both, for people.
    Page,
    JsonRpc,
    Rest {
        version: Version,
        method: Method,
        tenant: String,
        /// The task that the path names; empty if none.
        id: String,
        /// Its webhook that the path names; empty if none.
        webhook: String,
    },
}

impl Resource {
    /// What its answers are written in.
    pub(super) fn error_format(&self) -> ErrorFormat {
        match self {
            Self::JsonRpc => ErrorFormat::JsonRpc,
            Self::Rest { version, .. } => ErrorFormat::Rest(*version),
            Self::Health | Self::Card | Self::Agents | Self::Skills | Self::Page => {
                ErrorFormat::Rest(Version::V10)
            }
        }
    }
}

/// Why a path means nothing, in which version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteError {
    NoSuchPath(Version),
    /// The path is there, but not for this verb; for these.
    NotAllowed(Version, &'static str),
}

/// Finds out what a request's path means.
pub(super) fn route(verb: &Verb, path: &str) -> Result<Route, RouteError> {
    let segments: Option<Vec<String>> = path
        .trim_matches('/')
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(decode)
        .collect();
    let segments = segments.ok_or(RouteError::NoSuchPath(Version::V10))?;
    if let Some(what) = directory(verb, &segments)? {
        return Ok(Route {
            target: Target::Own,
            base: String::new(),
            resource: what,
        });
    }
    let mut rest: &[String] = &segments;
    let (target, base) = match rest {
        [kind, peer, name, behind @ ..] if kind == "agents" && is_agent(name) => {
            rest = behind;
            let name = name.strip_prefix(MARK).unwrap_or(name);
            (Target::from_peer_and_agent(peer, name), base_of(path, 3))
        }
        [kind, peer, behind @ ..] if kind == "agents" => {
            rest = behind;
            (Target::from_peer_and_agent(peer, ""), base_of(path, 2))
        }
        [kind, name, behind @ ..] if kind == "skills" => {
            rest = behind;
            (Target::Skill(name.clone()), base_of(path, 2))
        }
        _ => (Target::Own, String::new()),
    };
    let what = resource(verb, rest)?;
    Ok(Route {
        target,
        base,
        resource: what,
    })
}

/// What lists agents: `/agents`, `/skills`, and `/` for who reads it.
fn directory(verb: &Verb, segments: &[String]) -> Result<Option<Resource>, RouteError> {
    let reads = *verb == Verb::GET || *verb == Verb::HEAD;
    let what = match segments {
        [] if reads => Resource::Page,
        [kind] if kind == "agents" => Resource::Agents,
        [kind] if kind == "skills" => Resource::Skills,
        _ => return Ok(None),
    };
    if reads {
        Ok(Some(what))
    } else {
        Err(RouteError::NotAllowed(Version::V10, "GET, HEAD"))
    }
}

/// So many segments, as they came.
fn base_of(path: &str, most: usize) -> String {
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    segments
        .take(most)
        .fold(String::new(), |base, segment| base + "/" + segment)
}

/// Whether the segment behind a peer names one of its agents. Names of agents have no colon.
fn is_agent(segment: &str) -> bool {
    !is_reserved(segment) && !is_rest(segment) && !segment.contains(':')
}

/// Whether a segment means something else than an agent's name, though an agent may be called so.
fn is_reserved(segment: &str) -> bool {
    matches!(segment, OLD | "a2a" | "health" | "tasks")
}

/// The path of an agent of a peer; `agent` is empty if the peer has one agent only.
pub(super) fn agent_path(peer: &str, agent: &str) -> String {
    let peer = encode(peer);
    match agent {
        "" => format!("/agents/{peer}"),
        agent if is_reserved(agent) => format!("/agents/{peer}/{MARK}{}", encode(agent)),
        agent => format!("/agents/{peer}/{}", encode(agent)),
    }
}

fn resource(verb: &Verb, rest: &[String]) -> Result<Resource, RouteError> {
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["a2a"] if *verb == Verb::POST => Ok(Resource::JsonRpc),
        [] | ["a2a"] => Err(RouteError::NotAllowed(Version::V10, "POST")),
        ["health"] if *verb == Verb::GET || *verb == Verb::HEAD => Ok(Resource::Health),
        ["health"] => Err(RouteError::NotAllowed(Version::V10, "GET, HEAD")),
        [".well-known", card] if CARDS.contains(card) => {
            if *verb == Verb::GET || *verb == Verb::HEAD {
                Ok(Resource::Card)
            } else {
                Err(RouteError::NotAllowed(Version::V10, "GET, HEAD"))
            }
        }
        [OLD, behind @ ..] => rest_of(Version::V03, verb, "", behind),
        [tenant, OLD, behind @ ..] if !is_rest(tenant) => rest_of(Version::V03, verb, tenant, behind),
        [tenant, behind @ ..] if !is_rest(tenant) => rest_of(Version::V10, verb, tenant, behind),
        behind => rest_of(Version::V10, verb, "", behind),
    }
}

/// Whether a segment begins the REST paths of 1.0, and so is no tenant.
fn is_rest(segment: &str) -> bool {
    matches!(
        segment,
        "message:send" | "message:stream" | "tasks" | "extendedAgentCard" | ".well-known"
    )
}

fn rest_of(version: Version, verb: &Verb, tenant: &str, rest: &[&str]) -> Result<Resource, RouteError> {
    let card = match version {
        Version::V03 => "card",
        Version::V10 => "extendedAgentCard",
    };
    let (method, id, verbs) = match rest {
        ["message:send"] => (Method::Send, "", "POST"),
        ["message:stream"] => (Method::Stream, "", "POST"),
        ["tasks"] => (Method::List, "", "GET"),
        [name] if *name == card => (Method::ExtendedCard, "", "GET"),
        ["tasks", task] => match task.rsplit_once(':') {
            Some((id, "cancel")) => (Method::Cancel, id, "POST"),
            Some((id, "subscribe")) => (Method::Subscribe, id, "GET, POST"),
            _ => (Method::Get, *task, "GET"),
        },
        ["tasks", id, "pushNotificationConfigs"] if *verb == Verb::POST => {
            (Method::SetPush, *id, "GET, POST")
        }
        ["tasks", id, "pushNotificationConfigs"] => (Method::ListPush, *id, "GET, POST"),
        ["tasks", id, "pushNotificationConfigs", _] if *verb == Verb::DELETE => {
            (Method::DeletePush, *id, "GET, DELETE")
        }
        ["tasks", id, "pushNotificationConfigs", _] => (Method::GetPush, *id, "GET, DELETE"),
        _ => return Err(RouteError::NoSuchPath(version)),
    };
    let webhook = match rest {
        ["tasks", _, _, webhook] => *webhook,
        _ => "",
    };
    if !verbs.split(", ").any(|allowed| verb.as_str() == allowed) {
        return Err(RouteError::NotAllowed(version, verbs));
    }
    Ok(Resource::Rest {
        version,
        method,
        tenant: tenant.to_owned(),
        id: id.to_owned(),
        webhook: webhook.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use agentanycast_gateway::OWN_NODE;
    use proptest::prelude::*;

    use super::*;

    fn found(verb: &Verb, path: &str) -> (Target, Resource) {
        let route = route(verb, path).unwrap_or_else(|lost| panic!("{path}: {lost:?}"));
        (route.target, route.resource)
    }

    fn rest(method: Method, tenant: &str, id: &str) -> Resource {
        Resource::Rest {
            version: Version::V10,
            method,
            tenant: tenant.to_owned(),
            id: id.to_owned(),
            webhook: String::new(),
        }
    }

    fn hook(method: Method, id: &str, webhook: &str) -> Resource {
        Resource::Rest {
            version: Version::V10,
            method,
            tenant: String::new(),
            id: id.to_owned(),
            webhook: webhook.to_owned(),
        }
    }

    /// The same in 0.3.
    fn old(what: Resource) -> Resource {
        let Resource::Rest {
            method,
            tenant,
            id,
            webhook,
            ..
        } = what
        else {
            panic!("{what:?} is of no version");
        };
        Resource::Rest {
            version: Version::V03,
            method,
            tenant,
            id,
            webhook,
        }
    }

    #[test]
    fn every_path_of_the_contract() {
        let (get, post) = (Verb::GET, Verb::POST);
        for card in CARDS {
            assert_eq!(
                found(&get, &format!("/.well-known/{card}")),
                (Target::Own, Resource::Card)
            );
        }
        for (verb, path, what) in [
            (&get, "/health", Resource::Health),
            (&post, "/", Resource::JsonRpc),
            (&post, "/a2a", Resource::JsonRpc),
            (&post, "/a2a/", Resource::JsonRpc),
            (&post, "/message:send", rest(Method::Send, "", "")),
            (&post, "/message:stream", rest(Method::Stream, "", "")),
            (&get, "/tasks", rest(Method::List, "", "")),
            (&get, "/tasks/t", rest(Method::Get, "", "t")),
            (&get, "/tasks/a:b", rest(Method::Get, "", "a:b")),
            (&post, "/tasks/t:cancel", rest(Method::Cancel, "", "t")),
            (&get, "/tasks/t:subscribe", rest(Method::Subscribe, "", "t")),
            (&post, "/tasks/t:subscribe", rest(Method::Subscribe, "", "t")),
            (
                &post,
                "/tasks/t/pushNotificationConfigs",
                hook(Method::SetPush, "t", ""),
            ),
            (
                &get,
                "/tasks/t/pushNotificationConfigs",
                hook(Method::ListPush, "t", ""),
            ),
            (
                &get,
                "/tasks/t/pushNotificationConfigs/c",
                hook(Method::GetPush, "t", "c"),
            ),
            (
                &Verb::DELETE,
                "/tasks/t/pushNotificationConfigs/c",
                hook(Method::DeletePush, "t", "c"),
            ),
            (&get, "/extendedAgentCard", rest(Method::ExtendedCard, "", "")),
            (&post, "/acme/message:send", rest(Method::Send, "acme", "")),
            (&get, "/acme/tasks/t", rest(Method::Get, "acme", "t")),
            (&post, "/v1/message:send", old(rest(Method::Send, "", ""))),
            (&post, "/v1/message:stream", old(rest(Method::Stream, "", ""))),
            (&get, "/v1/tasks", old(rest(Method::List, "", ""))),
            (&get, "/v1/tasks/t", old(rest(Method::Get, "", "t"))),
            (&post, "/v1/tasks/t:cancel", old(rest(Method::Cancel, "", "t"))),
            (
                &get,
                "/v1/tasks/t:subscribe",
                old(rest(Method::Subscribe, "", "t")),
            ),
            (
                &post,
                "/v1/tasks/t:subscribe",
                old(rest(Method::Subscribe, "", "t")),
            ),
            (
                &post,
                "/v1/tasks/t/pushNotificationConfigs",
                old(hook(Method::SetPush, "t", "")),
            ),
            (
                &get,
                "/v1/tasks/t/pushNotificationConfigs",
                old(hook(Method::ListPush, "t", "")),
            ),
            (
                &get,
                "/v1/tasks/t/pushNotificationConfigs/c",
                old(hook(Method::GetPush, "t", "c")),
            ),
            (
                &Verb::DELETE,
                "/v1/tasks/t/pushNotificationConfigs/c",
                old(hook(Method::DeletePush, "t", "c")),
            ),
            (&get, "/v1/card", old(rest(Method::ExtendedCard, "", ""))),
            (
                &post,
                "/acme/v1/message:send",
                old(rest(Method::Send, "acme", "")),
            ),
        ] {
            assert_found_everywhere(verb, path, &what);
        }
    }

    /// At the node itself, behind peers, behind one agent of theirs, and behind a skill.
    fn assert_found_everywhere(verb: &Verb, path: &str, what: &Resource) {
        assert_eq!(found(verb, path), (Target::Own, what.clone()), "{path}");
        let peer = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
        // Behind a peer the first segment of these is the name of its agent.
        if !path.starts_with("/acme") {
            for (node, target) in [(peer, Target::Peer(peer.to_owned())), (OWN_NODE, Target::Own)] {
                let path = format!("/agents/{node}{path}");
                assert_eq!(found(verb, &path), (target, what.clone()), "{path}");
            }
        }
        for (node, peer) in [(peer, Some(peer.to_owned())), (OWN_NODE, None)] {
            let target = Target::Agent {
                peer,
                agent: "a.b-1".to_owned(),
            };
            let path = format!("/agents/{node}/a.b-1{path}");
            assert_eq!(found(verb, &path), (target, what.clone()), "{path}");
        }
        let target = Target::Skill("über setzen".to_owned());
        let path = format!("/skills/%C3%BCber%20setzen{path}");
        assert_eq!(found(verb, &path), (target, what.clone()), "{path}");
    }

    #[test]
    fn agents_and_skills_are_listed() {
        for (path, what) in [
            ("/agents", Resource::Agents),
            ("/agents/", Resource::Agents),
            ("/skills", Resource::Skills),
            ("/", Resource::Page),
            ("", Resource::Page),
        ] {
            for verb in [Verb::GET, Verb::HEAD] {
                assert_eq!(found(&verb, path), (Target::Own, what.clone()), "{path}");
            }
        }
        let lost = Err(RouteError::NotAllowed(Version::V10, "GET, HEAD"));
        assert_eq!(route(&Verb::POST, "/agents"), lost);
        assert_eq!(
            route(&Verb::GET, "/a2a"),
            Err(RouteError::NotAllowed(Version::V10, "POST"))
        );
        assert!(route(&Verb::GET, "/agents/x").is_err(), "one agent has no page");
    }

    #[test]
    fn a_did_is_its_peer() {
        let peer = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
        let id = agentanycast_identity::PeerId::from_bytes(&bs58_bytes(peer)).unwrap();
        let did = agentanycast_identity::did_key_of(id).unwrap();
        let route = route(&Verb::POST, &format!("/agents/{did}/a2a")).unwrap();
        assert_eq!(route.target, Target::Peer(peer.to_owned()));
        assert_eq!(route.base, format!("/agents/{did}"));
        let odd = super::route(&Verb::POST, &format!("//agents//{did}/")).unwrap();
        assert_eq!((odd.base, odd.target), (route.base, route.target));
    }

    #[test]
    fn an_agent_of_a_peer_is_the_segment_behind_it() {
        let agent = |name: &str| Target::from_peer_and_agent("p", name);
        let routed = |path: &str| route(&Verb::POST, path).unwrap();
        for (path, name, base) in [
            ("/agents/p/one", "one", "/agents/p/one"),
            ("//agents/p//one/a2a/", "one", "/agents/p/one"),
            ("/agents/p/o%6Ee/message:send", "one", "/agents/p/o%6Ee"),
            ("/agents/p/One/a2a", "One", "/agents/p/One"),
            ("/agents/p/acme/message:send", "acme", "/agents/p/acme"),
            ("/agents/p/@tasks/message:send", "tasks", "/agents/p/@tasks"),
            ("/agents/p/%40a2a", "a2a", "/agents/p/%40a2a"),
            ("/agents/p/a2a", "", "/agents/p"),
            ("/agents/p/v1/message:send", "", "/agents/p"),
        ] {
            let route = routed(path);
            assert_eq!((route.target, route.base.as_str()), (agent(name), base), "{path}");
        }
        let with_tenant = routed("/agents/p/one/acme/message:send");
        assert_eq!(with_tenant.target, agent("one"));
        assert_eq!(with_tenant.resource, rest(Method::Send, "acme", ""));
        let lost = route(&Verb::POST, "/agents/p/messages:send");
        assert_eq!(
            lost,
            Err(RouteError::NoSuchPath(Version::V10)),
            "no agent is called so"
        );
    }

    #[test]
    fn the_path_of_an_agent_leads_to_it() {
        for name in ["", "one", "a.b_c-d", "a2a", "health", "tasks", "v1", "agents"] {
            let path = agent_path("p", name);
            let route = route(&Verb::POST, &format!("{path}/message:send")).unwrap();
            assert_eq!(route.target, Target::from_peer_and_agent("p", name), "{path}");
            assert_eq!(route.base, path);
            assert_eq!(route.resource, rest(Method::Send, "", ""));
        }
    }

    fn bs58_bytes(text: &str) -> Vec<u8> {
        let id: agentanycast_identity::PeerId = text.parse().unwrap();
        id.to_bytes()
    }

    #[test]
    fn the_wrong_verb_is_told_the_right_ones() {
        assert_eq!(
            route(&Verb::GET, "/a2a"),
            Err(RouteError::NotAllowed(Version::V10, "POST"))
        );
        assert_eq!(
            route(&Verb::PUT, "/tasks/t:subscribe"),
            Err(RouteError::NotAllowed(Version::V10, "GET, POST"))
        );
        for nowhere in [
            "/x",
            "/tasks/a/b",
            "/acme/x",
            "/.well-known/x",
            "/a/b/message:send",
            "/%zz",
            "/%",
        ] {
            let lost = RouteError::NoSuchPath(Version::V10);
            assert_eq!(route(&Verb::POST, nowhere), Err(lost), "{nowhere}");
        }
        for nowhere in [
            "/v1",
            "/v1/x",
            "/v1/extendedAgentCard",
            "/v1/v1/tasks",
            "/acme/v1/x",
            "/agents/a/v1/x",
            "/agents/a/b/v1/x",
        ] {
            let lost = RouteError::NoSuchPath(Version::V03);
            assert_eq!(route(&Verb::POST, nowhere), Err(lost), "{nowhere}");
        }
        let lost = RouteError::NotAllowed(Version::V03, "POST");
        assert_eq!(route(&Verb::GET, "/v1/message:send"), Err(lost));
    }

    #[test]
    fn an_escape_is_two_digits() {
        assert_eq!(decode("%41%c3%BC").as_deref(), Some("Aü"));
        for broken in ["%+1", "%-1", "% 1", "%1", "%", "%ü1", "%1ü"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }

    proptest! {
        #[test]
        fn no_path_is_too_odd(path in "/(\\PC|[/%:.]){0,40}") {
            let _ = route(&Verb::POST, &path);
        }
    }
}
