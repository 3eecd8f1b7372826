//! `anycast send`: sends a task, and follows it.

mod skill_option;

use std::time::SystemTime;

use agentanycast::{Message, Node, Target, TaskHandle};
use agentanycast_proto::agent_name::is_agent_name;
use clap::{Args, builder::NonEmptyStringValueParser};

use self::skill_option::{SkillOption, SkillPlace, WITHOUT_VALUE};
use super::{follow::FollowArgs, follow::Follower, join, task};
use crate::{
    arg_values::{parse_deadline, parse_label},
    context::Context,
    failure::CommandFailure,
    interrupt::Interrupt,
    invite_code::{self, Invitation},
    message_content::MessageArgs,
    output,
    peer_target::{PeerQuery, PeerTarget},
};

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    // Before the words that it looks at are taken.
    #[command(flatten)]
    place: SkillPlace,
    /// The peer: an alias, its card's name, its id or a unique piece of it, did:key, did:web, an invite, or a multiaddr
    /// that ends in /p2p/PEER_ID; PEER/AGENT is one of several agents there, self/AGENT one of this node; a skill or URL with
    /// --skill or --url
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) content: MessageArgs,
    /// TARGET is a skill: any agent that has it. Behind TARGET and with SKILL, as in TARGET --skill SKILL PART, TARGET is a peer
    /// and SKILL what it is asked for; --skill=SKILL is always that
    #[arg(long, conflicts_with = "url", value_name = "SKILL", num_args = 0..=1, require_equals = true,
        default_missing_value = WITHOUT_VALUE, value_parser = NonEmptyStringValueParser::new())]
    skill: Option<String>,
    /// TARGET is the URL of an A2A agent outside the network, which the daemon calls
    #[arg(long)]
    pub(crate) url: bool,
    /// With --url: the agent may be on the daemon's host or on a private network; allow_private = true in [bridge.outbound] of
    /// the settings says so for all tasks
    #[arg(long, requires = "url")]
    pub(crate) allow_private: bool,
    /// With --url: seal the task for this peer (named as TARGET is), so that whoever carries it can neither read nor change
    /// it, and take only answers that it has sealed
    #[arg(long, value_name = "PEER", requires = "url")]
    pub(crate) seal_for: Option<String>,
    #[command(flatten)]
    pub(crate) follow: FollowArgs,
    /// The task fails if it has not ended by then: a time from now, such as 10m or 2d, or a date such as
    /// 2030-01-31T12:00:00Z
    #[arg(long, value_parser = parse_deadline, value_name = "TIME")]
    pub(crate) deadline: Option<SystemTime>,
    /// The conversation that the task belongs to, as `anycast task` shows it [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) context: Option<String>,
    /// A new task in the conversation of this earlier one
    #[arg(long, value_name = "TASK_ID", conflicts_with = "context")]
    pub(crate) reply_to: Option<String>,
    /// Attach a label, such as priority=low; can be repeated
    #[arg(long = "meta", value_parser = parse_label, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<(String, String)>,
}

impl SendArgs {
    /// What `--skill` says; a part that is the skill is one no more.
    fn take_skill(&mut self) -> SkillOption {
        let has_data = !self.content.data.is_empty();
        SkillOption::new(
            self.skill.as_deref(),
            self.place,
            &mut self.content.parts,
            has_data,
        )
    }
}

pub(crate) async fn run(context: &Context, mut args: SendArgs) -> Result<(), CommandFailure> {
    let skill = args.take_skill();
    let is_skill = matches!(skill, SkillOption::OfAnyAgent { .. });
    let aim = SendTarget::parse(context, &args.target, is_skill, args.url)?;
    let aim = match &skill {
        SkillOption::OfPeer(skill) => aim.for_skill(skill)?,
        _ => aim,
    };
    let reader = args.seal_for.as_deref();
    let reader = reader.map(|peer| PeerQuery::parse(context, peer)).transpose();
    let reader = reader.map_err(|failure| failure.with_option("--seal-for"))?;
    let message = args.content.message()?;
    let mut interrupt = Interrupt::new()?;
    let node = interrupt.or(context.connect_or_start()).await?;
    let mut follower = Follower::new(context, &node, &args.follow, args.content.reads_input());
    if aim.is_peer() {
        follower = follower.named(short(&args.target));
    }
    let sending = deliver(context, &node, &args, aim, reader, message);
    let outcome = follower.send(&mut interrupt, sending).await;
    node.shutdown().await;
    outcome.map_err(|failure| match &skill {
        // Perhaps the message was forgotten.
        SkillOption::OfAnyAgent { other: Some(other) } if failure.is_skill_unknown() => {
            failure.with_more(&format!(
                "; to ask the peer {} for the skill {}, give the message behind them",
                output::brief(&args.target),
                output::brief(other)
            ))
        }
        _ => failure,
    })
}

/// What a user has typed for a peer, or its end where that is long.
pub(super) fn short(target: &str) -> String {
    const LONG: usize = 24;
    const END: usize = 8;
    match target.chars().count() {
        0..=LONG => target.to_owned(),
        count => format!("…{}", target.chars().skip(count - END).collect::<String>()),
    }
}

/// Whom the task is for.
pub(super) enum SendTarget {
    /// A peer, the agent of its node and the skill that it is asked for; empty: which is that node's to say.
    Peer(PeerQuery, String, String),
    Invited(Box<Invitation>),
    Other(Target),
}

/// A target that tasks can be sent to.
pub(super) struct ResolvedTarget {
    pub(super) target: Target,
    /// The skill that the peer is asked for; empty: which is its node's to say.
    pub(super) skill: String,
    /// The agent of the peer's node; empty: which is that node's to say.
    pub(super) agent: String,
}

impl SendTarget {
    /// As it is typed, and whether that is a skill or an URL.
    pub(super) fn parse(
        context: &Context,
        target: &str,
        is_skill: bool,
        is_url: bool,
    ) -> Result<Self, CommandFailure> {
        Ok(match (is_skill, is_url) {
            (true, _) => Self::Other(Target::skill(target)),
            (_, true) => Self::Other(Target::url(target)),
            _ if invite_code::is_invite_code(target) => Self::Invited(Box::new(Invitation::decode(target)?)),
            _ => {
                let (peer, agent) = PeerQuery::parse_with_agent(context, target).map_err(no_peer)?;
                Self::Peer(peer, agent, String::new())
            }
        })
    }

    /// The same for one skill of the peer.
    fn for_skill(self, skill: &str) -> Result<Self, CommandFailure> {
        match self {
            Self::Peer(peer, agent, _) => Ok(Self::Peer(peer, agent, skill.to_owned())),
            Self::Invited(mut invitation) if invitation.skill.is_empty() || invitation.skill == skill => {
                skill.clone_into(&mut invitation.skill);
                Ok(Self::Invited(invitation))
            }
            Self::Invited(invitation) => {
                let only = output::brief(&invitation.skill);
                Err(CommandFailure::usage(format!(
                    "the invite is for the skill {only} only"
                )))
            }
            Self::Other(target) => Ok(Self::Other(target)),
        }
    }

    /// Whether it is one peer.
    fn is_peer(&self) -> bool {
        matches!(self, Self::Peer(..) | Self::Invited(_))
    }

    /// The target; an address that was given for a peer is connected to.
    pub(super) async fn reach(
        self,
        context: &Context,
        node: &Node,
    ) -> Result<ResolvedTarget, CommandFailure> {
        match self {
            Self::Peer(wanted, agent, skill) => {
                let peer = wanted.find(context, node).await.map_err(no_peer)?;
                peer.reach(node).await?;
                // What is typed behind the name goes before what the name means.
                let agent = if agent.is_empty() { peer.agent } else { agent };
                Ok(ResolvedTarget {
                    target: Target::Peer(peer.peer),
                    skill,
                    agent,
                })
            }
            Self::Invited(invitation) => {
                let peer = PeerTarget::from_invitation(&invitation)?;
                join::accept(node, &peer, &invitation).await?;
                peer.reach(node).await?;
                Ok(ResolvedTarget {
                    target: Target::Peer(peer.peer),
                    skill: invitation.skill,
                    // Nodes of before have put the name on the agent's card there.
                    agent: Some(invitation.agent)
                        .filter(|agent| is_agent_name(agent))
                        .unwrap_or_default(),
                })
            }
            Self::Other(target) => Ok(target.into()),
        }
    }
}

impl From<Target> for ResolvedTarget {
    fn from(target: Target) -> Self {
        Self {
            target,
            skill: String::new(),
            agent: String::new(),
        }
    }
}

/// A skill, or an agent's URL, was perhaps meant.
fn no_peer(failure: CommandFailure) -> CommandFailure {
    failure.with_hint("; --skill sends to a skill, --url to a URL")
}

async fn deliver(
    context: &Context,
    node: &Node,
    args: &SendArgs,
    aim: SendTarget,
    reader: Option<PeerQuery>,
    message: Message,
) -> Result<TaskHandle, CommandFailure> {
    let conversation = match (&args.context, &args.reply_to) {
        (Some(context), _) => context.clone(),
        (None, Some(earlier)) => task::find(node, earlier).await?.1.context_id,
        (None, None) => String::new(),
    };
    let ResolvedTarget { target, skill, agent } = aim.reach(context, node).await?;
    let labels = args.metadata.iter().cloned().collect();
    let mut task = node
        .task(target, message)
        .metadata_from(labels)
        .context_id(conversation)
        .skill_of_peer(skill)
        .agent(agent);
    if args.allow_private {
        task = task.allow_private();
    }
    if let Some(deadline) = args.deadline {
        task = task.deadline(deadline);
    }
    if let Some(reader) = reader {
        let reader = reader.find(context, node).await;
        let reader = reader.map_err(|failure| failure.with_option("--seal-for"))?;
        task = task.sealed_for(&reader.peer);
    }
    Ok(task.send().await?)
}
