//! `anycast send`: sends a task, follows it, answers its questions at a terminal, prints the result.

use std::{borrow::Cow, io::IsTerminal, path::PathBuf, time::Duration};

use agentanycast::{Artifact, Message, Node, Target, Task, TaskHandle, TaskStatus, TaskUpdate};
use futures::StreamExt;
use serde_json::json;

use super::join;
use crate::{
    args::SendArgs,
    content::Source,
    context::Context,
    failure::{Code, Failure},
    interrupt::Interrupt,
    invite_code::{self, Invitation},
    json, output,
    progress::Progress,
    target::{PeerTarget, Wanted},
};

mod live;
mod question;
pub(super) mod whole;

/// After the task's end, its last artifacts are on their way already.
const LAST_ARTIFACTS: Duration = Duration::from_secs(10);

/// How long a cancel may take after Ctrl-C.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);

pub(crate) async fn run(context: &Context, args: SendArgs) -> Result<(), Failure> {
    let mut interrupt = Interrupt::new()?;
    let aim = Aim::parse(context, &args)?;
    let reader = args.seal_for.as_deref();
    let reader = reader.map(|peer| Wanted::read(context, peer)).transpose();
    let reader = reader.map_err(|failure| failure.about("--seal-for"))?;
    let message = Source::parse(&args.text).message()?;
    let node = context.connect_or_start().await?;
    let outcome = async {
        let interrupted = || {
            Failure::new(
                Code::General,
                "Interrupted",
                "interrupted before the task was sent",
            )
        };
        let mut exchange = Exchange {
            context,
            args: &args,
            progress: Progress::new(context.json),
        };
        let handle = tokio::select! {
            handle = exchange.deliver(&node, aim, reader, message) => handle?,
            () = interrupt.wait() => return Err(interrupted()),
        };
        tokio::select! {
            outcome = exchange.until_done(&handle) => outcome,
            () = interrupt.wait() => Err(cancel(&handle).await),
        }
    };
    let outcome = outcome.await;
    node.shutdown().await;
    outcome
}

/// Whom the task is for.
enum Aim {
    Peer(Wanted),
    Invited(Box<Invitation>),
    Other(Target),
}

impl Aim {
    fn parse(context: &Context, args: &SendArgs) -> Result<Self, Failure> {
        Ok(match (args.skill, args.url) {
            (true, _) => Self::Other(Target::skill(&args.target)),
            (_, true) => Self::Other(Target::url(&args.target)),
            _ if invite_code::is_one(&args.target) => {
                let read = Invitation::decode(&args.target);
                Self::Invited(Box::new(read.map_err(|error| Failure::usage(error.to_string()))?))
            }
            _ => Self::Peer(Wanted::read(context, &args.target).map_err(no_peer)?),
        })
    }
}

/// A skill, or an agent's URL, was perhaps meant.
fn no_peer(failure: Failure) -> Failure {
    failure.hinting("; --skill sends to a skill, --url to a URL")
}

async fn cancel(handle: &TaskHandle) -> Failure {
    let message = match tokio::time::timeout(CANCEL_LIMIT, handle.cancel()).await {
        Ok(Ok(_)) => format!("interrupted; task {} was canceled", handle.id()),
        Ok(Err(error)) => format!("interrupted; task {} was not canceled: {error}", handle.id()),
        Err(_) => format!("interrupted; task {} was not canceled in time", handle.id()),
    };
    Failure::new(Code::General, "Interrupted", message)
}

struct Exchange<'a> {
    context: &'a Context,
    args: &'a SendArgs,
    progress: Progress,
}

impl Exchange<'_> {
    async fn deliver(
        &mut self,
        node: &Node,
        aim: Aim,
        reader: Option<Wanted>,
        message: agentanycast::Message,
    ) -> Result<TaskHandle, Failure> {
        self.progress.show("sending");
        let mut skill = String::new();
        let target = match aim {
            Aim::Peer(wanted) => {
                let target = wanted.find(self.context, node).await.map_err(no_peer)?;
                target.reach(node).await?;
                Target::Peer(target.peer)
            }
            Aim::Invited(invitation) => {
                let target = PeerTarget::invited(&invitation)?;
                join::accept(node, &target, &invitation).await?;
                target.reach(node).await?;
                skill = invitation.skill;
                Target::Peer(target.peer)
            }
            Aim::Other(target) => target,
        };
        let labels = self.args.metadata.iter().cloned().collect();
        let mut task = node
            .task(target, message)
            .metadata_from(labels)
            .skill_of_peer(skill);
        if let Some(reader) = reader {
            let reader = reader.find(self.context, node).await;
            let reader = reader.map_err(|failure| failure.about("--seal-for"))?;
            task = task.sealed_for(&reader.peer);
        }
        Ok(task.send().await?)
    }

    async fn until_done(&mut self, handle: &TaskHandle) -> Result<(), Failure> {
        if self.args.timeout.is_zero() {
            return self.follow(handle).await;
        }
        if let Ok(outcome) = tokio::time::timeout(self.args.timeout, self.follow(handle)).await {
            return outcome;
        }
        self.progress.clear();
        let waited = self.args.timeout;
        let message = format!(
            "task {} has not ended within {waited:?}; it was not canceled",
            handle.id()
        );
        Err(Failure::new(Code::Timeout, "Timeout", message))
    }

    /// Follows the task to its end and prints what comes out.
    async fn follow(&mut self, handle: &TaskHandle) -> Result<(), Failure> {
        let mut updates = handle.updates();
        let mut live = live::Live::new(self.context.json, self.args.output.clone());
        let mut artifacts = if self.args.stream {
            handle.artifacts()
        } else {
            futures::stream::empty().boxed()
        }
        .fuse();
        loop {
            tokio::select! {
                Some(event) = artifacts.next() => {
                    self.progress.clear();
                    live.take(handle.id(), event?)?;
                }
                update = updates.next() => match update.transpose()? {
                    Some(update) if !update.status.is_terminal() => self.changed(handle, update).await?,
                    Some(update) => {
                        self.say(&update)?;
                        break;
                    }
                    None => break,
                },
                () = self.progress.tick() => {}
            }
        }
        self.progress.clear();
        while let Ok(Some(event)) = tokio::time::timeout(LAST_ARTIFACTS, artifacts.next()).await {
            live.take(handle.id(), event?)?;
        }
        let task = handle.snapshot().await?;
        self.finish(handle, task, &live).await
    }

    async fn changed(&mut self, handle: &TaskHandle, update: TaskUpdate) -> Result<(), Failure> {
        self.say(&update)?;
        if update.status != TaskStatus::InputRequired {
            let text = update
                .message
                .as_ref()
                .map(agentanycast::Message::text_content)
                .unwrap_or_default();
            self.progress.show(format!("{} {text}", update.status).trim_end());
            return Ok(());
        }
        self.progress.clear();
        let question = update
            .message
            .map(|message| message.text_content())
            .unwrap_or_default();
        let at_terminal = std::io::stdin().is_terminal() && !self.context.json && self.args.text != "-";
        if !at_terminal {
            // Nobody is there to answer; the agent must not wait for ever.
            handle.cancel().await?;
            let asks = if question.is_empty() {
                "for input, without a word".to_owned()
            } else {
                format!("{question:?}")
            };
            let message = format!("the agent asks {asks}, and there is no terminal to answer at; canceled");
            return Err(Failure::new(Code::General, "InputRequired", message));
        }
        let answer = question::ask(&question).await?;
        handle.reply(answer).await?;
        self.progress.show("answered");
        Ok(())
    }

    /// Prints a change where each is wanted: in a JSON stream.
    fn say(&self, update: &TaskUpdate) -> Result<(), Failure> {
        if self.context.json && self.args.stream {
            output::json(&json::update(update))?;
        }
        Ok(())
    }

    async fn finish(&self, handle: &TaskHandle, task: Task, live: &live::Live) -> Result<(), Failure> {
        let directory = self.args.output.as_deref();
        if !self.context.json {
            let task = task.into_result()?;
            if let Some(peer) = task.sealed_for() {
                output::complain(&format!(
                    "sealed: the answer is from {peer}, and nobody on its way could read or change it"
                ));
            }
            for artifact in results(&task).iter().filter(|artifact| !live.has(&artifact.id)) {
                whole::print(handle, artifact, directory).await?;
            }
            return Ok(());
        }
        let mut saved: Vec<(String, PathBuf)> = live.saved().to_vec();
        if let Some(directory) = directory {
            for artifact in results(&task).iter().filter(|artifact| !live.has(&artifact.id)) {
                saved.extend(whole::save(handle, artifact, directory).await?);
            }
        }
        let document = json::task(&task, &saved);
        output::json(&if self.args.stream {
            json!({"event": "result", "task": document})
        } else {
            document
        })?;
        task.into_result()
            .map(drop)
            .map_err(|error| Failure::from(error).told())
    }
}

/// The label of a message that is an answer by itself, and not what was said with a state.
const ANSWER: &str = "gateway.answer";

/// What came out of a task. Without artifacts it is what was said at the end: agents of A2A may answer by messages
/// alone.
fn results(task: &Task) -> Cow<'_, [Artifact]> {
    if !task.artifacts.is_empty() || task.status != TaskStatus::Completed {
        return task.artifacts.as_slice().into();
    }
    let last = task.status_message.as_ref();
    let is_answer = |message: &&Message| {
        let first = message.parts.first();
        first.is_some_and(|part| part.metadata.contains_key(ANSWER))
            && last.is_none_or(|last| last.id != message.id)
    };
    let messages = task.messages.iter().filter(is_answer).chain(last);
    messages
        .map(|message| Artifact::new("message", message.parts.iter().cloned()))
        .collect::<Vec<_>>()
        .into()
}
