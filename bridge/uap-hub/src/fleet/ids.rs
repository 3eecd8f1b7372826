//! What the fleet is spoken of with: ids, and what is to be done. PURE.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

use uuid::Uuid;

use crate::capability::{Domain, Kind};

/// Names a client from its registration to the end of its Listen: a UUID, which only the client is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(Arc<str>);

impl ClientId {
    /// A new one.
    pub(crate) fn random() -> Self {
        Self(Uuid::new_v4().to_string().into())
    }
}

/// Names a session: `JOB-` or `TRN-` and a UUID, which only the client is told to which it is proposed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(Arc<str>);

impl SessionId {
    /// A new one.
    pub(crate) fn new(domain: Domain) -> Self {
        let prefix = match domain {
            Domain::Test => "JOB",
            Domain::Translation => "TRN",
        };
        Self(format!("{prefix}-{}", Uuid::new_v4()).into())
    }
}

macro_rules! as_text {
    ($id:ty) => {
        impl Deref for $id {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }
        impl Borrow<str> for $id {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $id {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

as_text!(ClientId);
as_text!(SessionId);

/// Names a task within the hub.
pub(crate) type TaskNumber = u64;

/// One Listen of a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Listener {
    /// Whose.
    pub(crate) client: ClientId,
    /// Later ones have larger numbers.
    pub(crate) number: u64,
}

/// Something to be done, or to be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Tell the client of a proposal.
    Propose(Listener, SessionId, Kind),
    /// Tell the client that its session is ready.
    Ready(Listener, SessionId),
    /// End this Listen: the client has a newer one.
    EndListen(Listener),
    /// Tell a task what became of it.
    Tell(TaskNumber, Told),
    /// The skills are other ones.
    SkillsChanged,
    /// A client has answered a proposal.
    Answered(ProposalAnswer),
}

/// What becomes of a task beside its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// No client does it, for this reason.
    Rejected(String),
    /// Its session was lost, for this reason.
    Failed(String),
    /// Its session was lost, for this reason, and it waits for another one.
    WaitsAgain(String),
}

/// How a client answers a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ProposalAnswer {
    /// It does it.
    Accepted,
    /// It does not.
    Refused,
    /// It has no room while its other sessions go on.
    Busy,
    /// It does not answer.
    Silent,
}

impl ProposalAnswer {
    /// All, in the order of their values.
    pub(crate) const ALL: [Self; 4] = [Self::Accepted, Self::Refused, Self::Busy, Self::Silent];

    /// In the label of a metric.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Busy => "busy",
            Self::Silent => "silent",
        }
    }
}

/// Why a stream is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenRefusal {
    /// There is no such session, or it has ended.
    Unknown,
    /// It was proposed to another client.
    OfAnotherClient,
    /// The client has not accepted it.
    NotReady,
    /// It has a stream.
    HasStream,
    /// A translation is opened by Translate, a test by Execute.
    OtherCall,
}
