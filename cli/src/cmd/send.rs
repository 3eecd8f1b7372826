//! `anycast send`: sends a task, and follows it.

use agentanycast::{Message, Node, Target, TaskHandle};

use super::{follow::Follower, task};
use crate::{
    args::SendArgs, content, context::Context, failure::Failure, interrupt::Interrupt, target::PeerTarget,
};

pub(crate) async fn run(context: &Context, args: SendArgs) -> Result<(), Failure> {
    let mut interrupt = Interrupt::new()?;
    let aim = Aim::parse(&args.target, args.skill, args.url)?;
    let reader = args.seal_for.as_deref();
    let reader = reader
        .map(|peer| PeerTarget::of_option("--seal-for", peer))
        .transpose()?;
    let message = content::message(&args.parts)?;
    let node = context.connect_or_start().await?;
    let mut follower = Follower::new(context, &node, &args.follow, content::reads_input(&args.parts));
    if let Aim::Peer(_) = aim {
        follower = follower.named(short(&args.target));
    }
    let sending = deliver(&node, &args, aim, reader, message);
    let outcome = follower.send(&mut interrupt, sending).await;
    node.shutdown().await;
    outcome
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
pub(super) enum Aim {
    Peer(PeerTarget),
    Other(Target),
}

impl Aim {
    /// As it is typed, and whether that is a skill or an URL.
    pub(super) fn parse(target: &str, is_skill: bool, is_url: bool) -> Result<Self, Failure> {
        Ok(match (is_skill, is_url) {
            (true, _) => Self::Other(Target::skill(target)),
            (_, true) => Self::Other(Target::url(target)),
            _ => Self::Peer(PeerTarget::parse(target)?),
        })
    }

    /// The target; an address that was given for a peer is connected to.
    pub(super) async fn reach(self, node: &Node) -> Result<Target, Failure> {
        match self {
            Self::Peer(target) => {
                target.reach(node).await?;
                Ok(Target::Peer(target.peer))
            }
            Self::Other(target) => Ok(target),
        }
    }
}

async fn deliver(
    node: &Node,
    args: &SendArgs,
    aim: Aim,
    reader: Option<PeerTarget>,
    message: Message,
) -> Result<TaskHandle, Failure> {
    let conversation = match (&args.context, &args.reply_to) {
        (Some(context), _) => context.clone(),
        (None, Some(earlier)) => task::find(node, earlier).await?.1.context_id,
        (None, None) => String::new(),
    };
    let target = aim.reach(node).await?;
    let labels = args.metadata.iter().cloned().collect();
    let mut task = node
        .task(target, message)
        .metadata_from(labels)
        .context_id(conversation);
    if let Some(deadline) = args.deadline {
        task = task.deadline(deadline);
    }
    if let Some(reader) = reader {
        task = task.sealed_for(&reader.peer);
    }
    Ok(task.send().await?)
}
