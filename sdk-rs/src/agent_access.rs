//! Who may use an agent, as it is asked for and told.

use agentanycast_proto::v1;

use crate::error::{Error, ErrorKind};

/// Who may use an agent of the daemon's node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AgentAccess {
    /// Asked for: a name that is registered keeps its access, and a new one is open. Told: the agent is open, since it was
    /// registered before agents had an access, or by a daemon that knows none.
    #[default]
    Unspecified,
    /// Every peer that the daemon's policy lets in.
    Open,
    /// The own node, and peers that a rule, an invite or trust lets in.
    Private,
    /// As the daemon's setting `agents.default_access` says: private, unless it is set. An agent that was registered before
    /// agents had an access stays as it is. It is only asked for.
    Default,
}

impl From<v1::AgentAccess> for AgentAccess {
    fn from(access: v1::AgentAccess) -> Self {
        match access {
            v1::AgentAccess::Open => Self::Open,
            v1::AgentAccess::Private => Self::Private,
            v1::AgentAccess::Default => Self::Default,
            v1::AgentAccess::Unspecified => Self::Unspecified,
        }
    }
}

impl AgentAccess {
    /// A later daemon's further word is none here.
    pub(crate) fn from_daemon(access: i32) -> Self {
        v1::AgentAccess::try_from(access).unwrap_or_default().into()
    }

    pub(crate) fn to_daemon(self) -> v1::AgentAccess {
        match self {
            Self::Unspecified => v1::AgentAccess::Unspecified,
            Self::Open => v1::AgentAccess::Open,
            Self::Private => v1::AgentAccess::Private,
            Self::Default => v1::AgentAccess::Default,
        }
    }

    /// What a daemon that was asked for [`AgentAccess::Private`] and answered this has done: an error if it knows no access and
    /// has registered an open agent.
    pub(crate) fn check_asked(asked: i32, answer: &v1::RegisterAgentResponse) -> Result<(), Error> {
        let (asked, is) = (Self::from_daemon(asked), Self::from_daemon(answer.access));
        if asked == Self::Private && is == Self::Unspecified {
            let name = &answer.name;
            return Err(too_old(&format!(
                "the daemon lets every peer use the agent {name}, which is to be private"
            )));
        }
        Ok(())
    }
}

/// What a daemon without private agents is told to be.
pub(crate) fn too_old(what: &str) -> Error {
    let text = format!("{what}: it is older than this program; restart it with this version");
    Error::new(ErrorKind::Unsupported, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_to_be_private_is_not_registered_as_an_open_one() {
        let answer = |access: v1::AgentAccess| v1::RegisterAgentResponse {
            name: "echo".to_owned(),
            access: access.into(),
            ..v1::RegisterAgentResponse::default()
        };
        let check = |asked: AgentAccess, is| AgentAccess::check_asked(asked.to_daemon().into(), &answer(is));
        let of_before = check(AgentAccess::Private, v1::AgentAccess::Unspecified);
        assert_eq!(of_before.unwrap_err().kind(), ErrorKind::Unsupported);
        check(AgentAccess::Private, v1::AgentAccess::Private).unwrap();
        // The owner has said so.
        check(AgentAccess::Private, v1::AgentAccess::Open).unwrap();
        check(AgentAccess::Default, v1::AgentAccess::Unspecified).unwrap();
    }
}
