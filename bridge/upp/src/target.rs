//! The agent that a path names. PURE.
//!
//! A target is `PEER`, `PEER/NAME`, `self`, `self/NAME`, `skill:ID` or a `did:key` with or without `/NAME`. It
//! stands behind `/upp/`, its slash as it is or as `%2F`.

use agentanycast_front::path_segment;
use agentanycast_gateway::{Target, shorten};
use agentanycast_upp::{ErrorCode, UppError};

/// What each path begins with.
const PREFIX: &str = "/upp/";

/// The agent of a path. Fails with `MODEL_NOT_FOUND` if the path names none.
pub(super) fn target_of_path(path: &str) -> Result<Target, UppError> {
    let not_found = |what: String| UppError::new(ErrorCode::ModelNotFound, what);
    let Some(rest) = path.strip_prefix(PREFIX) else {
        let shown = shorten(path);
        return Err(not_found(format!(
            "`{shown}` is not served; use POST {PREFIX}TARGET"
        )));
    };
    let segments: Option<Vec<String>> = rest.split('/').map(path_segment::decode).collect();
    let name = segments.map(|segments| segments.join("/")).unwrap_or_default();
    if !is_target(&name) {
        let shown = shorten(rest);
        return Err(not_found(format!(
            "`{shown}` names no agent; use PEER, PEER/NAME, self/NAME, skill:ID or did:key:..."
        )));
    }
    Ok(Target::parse(&name))
}

fn is_target(name: &str) -> bool {
    if let Some(skill) = name.strip_prefix("skill:") {
        return !skill.is_empty();
    }
    let (peer, agent) = name.split_once('/').unwrap_or((name, ""));
    // DIDs of other methods have to be looked up, which the port does not offer.
    let is_peer = !peer.is_empty() && (peer.starts_with("did:key:") || !peer.contains(':'));
    is_peer && !agent.contains('/')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn agent(peer: Option<&str>, agent: &str) -> Target {
        Target::Agent {
            peer: peer.map(str::to_owned),
            agent: agent.to_owned(),
        }
    }

    #[test]
    fn paths_of_every_form() {
        for (path, target) in [
            ("/upp/self", Target::Own),
            ("/upp/self/cook", agent(None, "cook")),
            ("/upp/12D3", Target::Peer("12D3".to_owned())),
            ("/upp/12D3/cook", agent(Some("12D3"), "cook")),
            ("/upp/12D3%2Fcook", agent(Some("12D3"), "cook")),
            ("/upp/skill:a%2Fb", Target::Skill("a/b".to_owned())),
            ("/upp/skill%3Aa/b", Target::Skill("a/b".to_owned())),
        ] {
            assert_eq!(target_of_path(path).unwrap(), target, "{path}");
        }
        let did = "/upp/did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH/one";
        let named = target_of_path(did).unwrap();
        assert!(matches!(named, Target::Agent { peer: Some(peer), .. } if peer.starts_with("12D3KooW")));
    }

    #[test]
    fn other_paths_name_no_agent() {
        let long = format!("/upp/{}", "x".repeat(600));
        for path in [
            "/",
            "/upp",
            "/upp/",
            "/upp//cook",
            "/upp/skill:",
            "/upp/a/b/c",
            "/upp/did:web:example.com",
            "/upp/https%3A%2F%2Fexample.com",
            "/upp/%zz",
            "/upp/%ff",
            &long,
        ] {
            let error = target_of_path(path).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ModelNotFound, "{path}");
            assert!(error.message().len() < 400);
        }
    }

    proptest! {
        #[test]
        fn a_named_agent_is_found_again(peer in "[A-Za-z0-9]{1,20}", name in "[^/:]{1,20}") {
            prop_assume!(peer != "self");
            let whole = format!("{peer}/{name}");
            let path = format!("/upp/{}", path_segment::encode(&whole));
            prop_assert_eq!(target_of_path(&path).unwrap(), agent(Some(&peer), &name));
        }
    }
}
