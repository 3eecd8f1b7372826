//! The records of registered agents in the store; their cards are records of their own.

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_proto::v1::AgentCard;

use super::{RegisteredAgent, access::RecordedAccess};
use crate::types::{AgentAccess, AgentOrigin};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AgentRecord {
    #[prost(uint32, tag = "1")]
    origin: u32,
    /// The how manieth agent of this node it is.
    #[prost(uint64, tag = "2")]
    number: u64,
    #[prost(bool, tag = "3")]
    pub is_primary: bool,
    /// Unix milliseconds.
    #[prost(uint64, tag = "4")]
    last_attached: u64,
    /// The processes that listened for it and set its card.
    #[prost(string, repeated, tag = "5")]
    callers: Vec<String>,
    /// Skills of earlier cards, with when they were lost, Unix milliseconds.
    #[prost(btree_map = "string, uint64", tag = "6")]
    former: BTreeMap<String, u64>,
    /// 0: registered before there was access, 1: open, 2: private.
    #[prost(uint32, tag = "7")]
    access: u32,
    #[prost(bool, tag = "8")]
    access_is_set: bool,
}

impl AgentRecord {
    pub(super) fn from_agent(agent: &RegisteredAgent, is_primary: bool) -> Self {
        Self {
            origin: match agent.origin {
                AgentOrigin::Card => 0,
                AgentOrigin::Service => 1,
            },
            number: agent.number,
            is_primary,
            last_attached: agent.last_attached,
            callers: agent.callers.iter().cloned().collect(),
            former: agent.former.clone(),
            access: match agent.access.access {
                None => 0,
                Some(AgentAccess::Open) => 1,
                Some(AgentAccess::Private) => 2,
            },
            access_is_set: agent.access.is_set,
        }
    }

    pub(super) fn agent(self, card: AgentCard) -> RegisteredAgent {
        RegisteredAgent {
            card: Arc::new(card),
            origin: match self.origin {
                0 => AgentOrigin::Card,
                _ => AgentOrigin::Service,
            },
            number: self.number,
            last_attached: self.last_attached,
            callers: self.callers.into_iter().collect(),
            open_tasks: 0,
            failures: 0,
            former: self.former,
            access: RecordedAccess {
                // Of a number that a later version wrote nothing is known: nobody is let in by it.
                access: match self.access {
                    0 => None,
                    1 => Some(AgentAccess::Open),
                    _ => Some(AgentAccess::Private),
                },
                is_set: self.access_is_set,
            },
        }
    }
}
