//! Invites: who may send tasks to the daemon without being named in its settings, and what it shows to nodes that
//! invited it.

use std::time::{Duration, SystemTime};

use agentanycast_proto::v1;

use super::{Node, missing};
use crate::{error::Error, message::to_system_time, peer_id::PeerId};

/// An invite that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvite {
    /// What rules call those that it lets in, `invited:LABEL`; empty: the id of the invite.
    pub label: String,
    /// The agent that it is for; empty: every open agent, and those that the node has when the invite is made.
    pub agent: String,
    /// The skill that it is for; empty: all.
    pub skill: String,
    /// How many peers it lets in, 1 to 1000.
    pub uses: u32,
    /// How long peers can take a use; `None`: always.
    pub valid_for: Option<Duration>,
}

impl Default for NewInvite {
    fn default() -> Self {
        Self {
            label: String::new(),
            agent: String::new(),
            skill: String::new(),
            uses: 1,
            valid_for: None,
        }
    }
}

/// An invite that the daemon has given out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invite {
    /// Names it among all.
    pub id: String,
    /// What rules call those that it lets in.
    pub label: String,
    /// The agent that it is for; empty: every open agent, and those of `agents`.
    pub agent: String,
    /// The skill that it is for; empty: all.
    pub skill: String,
    /// How many peers it lets in.
    pub uses: u32,
    /// When it was made.
    pub created_at: Option<SystemTime>,
    /// Until when peers can take a use; `None`: always. Those that have taken one keep it.
    pub expires_at: Option<SystemTime>,
    /// The peers that have taken one.
    pub peers: Vec<PeerId>,
    /// The agents that the node had when the invite was made without one.
    pub agents: Vec<String>,
}

/// What [`Node::revoke_invite`] has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RevokedInvites {
    /// The invites as they were.
    pub invites: Vec<Invite>,
    /// How many tasks of their peers were ended: those that no agent had begun and that their peers may not send any more.
    pub ended_tasks: u32,
}

impl Node {
    /// Makes an invite, and tells the secret by which peers take a use of it: 16 bytes, told this once.
    pub async fn create_invite(&self, invite: NewInvite) -> Result<(Invite, Vec<u8>), Error> {
        let valid_for = invite.valid_for.map(|time| prost_types::Duration {
            seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            nanos: time.subsec_nanos() as i32,
        });
        let request = v1::CreateInviteRequest {
            label: invite.label,
            agent: invite.agent,
            skill: invite.skill,
            uses: invite.uses,
            valid_for,
        };
        let answer = self.session().create_invite(request).await?;
        let invite = answer.invite.ok_or_else(|| missing("invite"))?;
        Ok((invite.into(), answer.secret))
    }

    /// The invites that the daemon has given out, those first that were made first.
    pub async fn invites(&self) -> Result<Vec<Invite>, Error> {
        let answer = self.session().list_invites().await?;
        Ok(answer.invites.into_iter().map(Into::into).collect())
    }

    /// Takes back the invites with this id or label, and with them what they let in. Tasks that an agent has begun go on; those
    /// that no agent has begun and that their peers may not send any more end as rejected.
    pub async fn revoke_invite(&self, name: &str) -> Result<RevokedInvites, Error> {
        let answer = self.session().revoke_invite(name).await?;
        Ok(RevokedInvites {
            invites: answer.invites.into_iter().map(Into::into).collect(),
            ended_tasks: answer.ended_tasks,
        })
    }

    /// Keeps the secret of another node's invite, and shows it to that node alone; empty: forgets it. Why that node does not
    /// take it, where it is connected and says so.
    pub async fn accept_invite(&self, peer: &PeerId, secret: Vec<u8>) -> Result<Option<String>, Error> {
        let request = v1::AcceptInviteRequest {
            peer_id: peer.to_string(),
            secret,
        };
        let answer = self.session().accept_invite(request).await?;
        Ok(Some(answer.refused).filter(|refused| !refused.is_empty()))
    }
}

impl From<v1::Invite> for Invite {
    fn from(invite: v1::Invite) -> Self {
        Self {
            id: invite.id,
            label: invite.label,
            agent: invite.agent,
            skill: invite.skill,
            uses: invite.uses,
            created_at: to_system_time(invite.created_at),
            expires_at: to_system_time(invite.expires_at),
            peers: invite
                .peer_ids
                .into_iter()
                .filter_map(PeerId::from_daemon)
                .collect(),
            agents: invite.agents,
        }
    }
}
