//! `anycast chat`: a conversation at the terminal, or line by line from standard input. Each line is a task in the same
//! context; where the agent asks, the next line answers.

mod input_line;
mod line_editor;

use std::{path::Path, path::PathBuf, time::Duration};

use agentanycast::{Message, Node, Role, Target, TaskFilter};
use clap::Args;

use self::{
    input_line::{ChatInput, ChatPart},
    line_editor::LineEditor,
};
use super::{
    follow::FollowArgs,
    follow::Follower,
    send::{ResolvedTarget, SendTarget, short},
};
use crate::{
    arg_values::parse_duration,
    context::Context,
    failure::CommandFailure,
    interrupt::{Interrupt, StopSignal},
    message_content::{self, PartSource},
    output::{self, Paint},
};

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The peer: an alias, its card's name, its id or a unique piece of it, did:key, did:web, an invite, or a multiaddr
    /// that ends in /p2p/PEER_ID; PEER/AGENT is one of several agents there, self/AGENT one of this node; a skill or URL with
    /// --skill or --url
    pub(crate) target: String,
    /// TARGET is a skill: any agent that has it
    #[arg(long, conflicts_with = "url")]
    pub(crate) skill: bool,
    /// TARGET is the URL of an A2A agent outside the network, which the daemon calls
    #[arg(long)]
    pub(crate) url: bool,
    /// With --url: the agent may be on the daemon's host or on a private network
    #[arg(long, requires = "url")]
    pub(crate) allow_private: bool,
    /// Go on with this conversation, as `anycast task` shows it, and show what was said in it [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) context: Option<String>,
    /// Give up waiting for an answer after this long, such as 30s, 1h30m or 2d; 0 waits for ever
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Write what comes back into files in this directory, texts too
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

/// What can be typed besides messages.
const HELP: &str =
    "Each line is sent as it is; @FILE in it sends that file (Tab completes it), @@ stands for @.
/help shows this, /context the id of the conversation, /quit or Ctrl-D ends. Pasted lines are one message.
While an answer is awaited Ctrl-C cancels the task, and Ctrl-D leaves it; what is typed meanwhile is the next line.";

pub(crate) async fn run(context: &Context, args: ChatArgs) -> Result<(), CommandFailure> {
    let mut interrupt = Interrupt::new()?;
    let aim = SendTarget::parse(context, &args.target, args.skill, args.url)?;
    let node = interrupt.or(context.connect_or_start()).await?;
    let outcome = async {
        let mut chat = Chat::begin(context, &node, aim, &args).await?;
        chat.run(&mut interrupt).await
    };
    let outcome = outcome.await;
    node.shutdown().await;
    outcome
}

struct Chat<'a> {
    context: &'a Context,
    node: &'a Node,
    target: Target,
    /// The only skill of the peer that may be asked for; empty: any.
    skill: String,
    /// The agent of the peer's node; empty: which is that node's to say.
    agent: String,
    /// What the user calls it.
    name: String,
    conversation: String,
    allow_private: bool,
    follow: FollowArgs,
    editor: LineEditor,
    /// The task that waits for the next line.
    asking: Option<String>,
}

impl<'a> Chat<'a> {
    async fn begin(
        context: &'a Context,
        node: &'a Node,
        aim: SendTarget,
        args: &ChatArgs,
    ) -> Result<Self, CommandFailure> {
        let ResolvedTarget { target, skill, agent } = aim.reach(context, node).await?;
        if let Some(conversation) = &args.context {
            show_history(context, node, conversation).await?;
        }
        Ok(Self {
            context,
            node,
            target,
            skill,
            agent,
            name: short(&args.target),
            conversation: args
                .context
                .clone()
                .unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            allow_private: args.allow_private,
            follow: FollowArgs {
                no_wait: false,
                stream: true,
                timeout: args.timeout,
                output: args.output.clone(),
            },
            editor: LineEditor::new(context.json)?,
            asking: None,
        })
    }

    async fn run(&mut self, interrupt: &mut Interrupt) -> Result<(), CommandFailure> {
        if self.editor.is_terminal() {
            output::warn(&format!(
                "talking with {}; /help says what can be typed",
                self.name
            ));
        }
        loop {
            let prompt = if self.asking.is_some() { "answer> " } else { "> " };
            let Some(typed) = self.line(prompt, interrupt).await? else {
                return Ok(());
            };
            let parts = match input_line::parse(&typed) {
                ChatInput::Nothing => continue,
                ChatInput::Quit => return Ok(()),
                ChatInput::Help => {
                    HELP.lines().for_each(output::warn);
                    continue;
                }
                ChatInput::Context => {
                    output::line(&self.conversation)?;
                    continue;
                }
                ChatInput::Unknown(command) => {
                    output::warn(&format!(
                        "{command} is no command; /help lists them, and //… sends a line that begins with /"
                    ));
                    continue;
                }
                ChatInput::Message(parts) => parts,
            };
            let sources: Vec<PartSource<'_>> = parts.iter().map(ChatPart::source).collect();
            let outcome = match message_content::message_from(&sources) {
                Ok(message) => self.exchange(message, interrupt).await,
                Err(unreadable) => Err(unreadable),
            };
            match outcome {
                Ok(()) => {}
                Err(failure) if failure.is_question() => {}
                Err(failure)
                    if failure.is_daemon_away() || failure.is_termination() || !self.editor.is_terminal() =>
                {
                    return Err(failure);
                }
                Err(failure) => output::warn(&format!("anycast: {}", failure.message())),
            }
        }
    }

    /// The next line; None: there is none. Ctrl-C and SIGINT empty it, where there is an editor of lines.
    async fn line(
        &mut self,
        prompt: &str,
        interrupt: &mut Interrupt,
    ) -> Result<Option<String>, CommandFailure> {
        let takes_interrupts = self.editor.takes_interrupts();
        let mut line = std::pin::pin!(self.editor.line(prompt));
        loop {
            let wish = tokio::select! {
                line = &mut line => return line,
                wish = interrupt.stop_signal() => wish,
            };
            // One that has come before the editor took them has no line to empty.
            if wish != StopSignal::Cancel || !takes_interrupts {
                output::line("")?;
                return Err(wish.failure("interrupted"));
            }
        }
    }

    /// Sends a message, and waits for what comes of it.
    async fn exchange(&mut self, message: Message, interrupt: &mut Interrupt) -> Result<(), CommandFailure> {
        let mut follower = Follower::new(self.context, self.node, &self.follow, false)
            .named(&self.name)
            .without_questions();
        let asking = self.asking.take();
        let sending = async {
            if let Some(task) = &asking {
                let handle = self.node.task_handle(task);
                handle.reply(message).await?;
                return Ok(handle);
            }
            let mut task = self
                .node
                .task(self.target.clone(), message)
                .skill_of_peer(self.skill.clone())
                .agent(self.agent.clone());
            if self.allow_private {
                task = task.allow_private();
            }
            Ok(task.context_id(&self.conversation).send().await?)
        };
        self.editor.keep_pastes_whole();
        let outcome = follower.send(interrupt, sending).await;
        if let Err(failure) = &outcome
            && failure.is_question()
        {
            self.asking = follower.task().map(str::to_owned);
            if !self.context.json {
                output::say(&format!("{} asks: {}", self.name, follower.question()));
            }
        }
        outcome
    }
}

impl ChatPart {
    fn source(&self) -> PartSource<'_> {
        match self {
            Self::Text(text) => PartSource::Text(text),
            Self::File(path) => PartSource::File(Path::new(path)),
        }
    }
}

/// What was said in a conversation before.
async fn show_history(context: &Context, node: &Node, conversation: &str) -> Result<(), CommandFailure> {
    let filter = TaskFilter {
        context_id: conversation.to_owned(),
        ..TaskFilter::default()
    };
    let mut tasks = node.tasks(&filter).await?;
    if tasks.is_empty() {
        output::warn(&format!(
            "anycast: nothing was said in the conversation {} before",
            output::flat(conversation)
        ));
    }
    if context.json {
        return Ok(());
    }
    tasks.sort_by_key(|task| task.created_at);
    for task in tasks {
        let task = node.task_handle(task.id).snapshot().await?;
        for message in &task.messages {
            say(message)?;
        }
        for artifact in &task.artifacts {
            output::untrusted_text(&artifact.text_content())?;
        }
    }
    Ok(())
}

fn say(message: &Message) -> Result<(), CommandFailure> {
    let text = message.text_content();
    Ok(if message.role == Role::User {
        output::pieces(&[("> ", Paint::Faint), (&output::indented(&text), Paint::Faint)])
    } else {
        output::untrusted_text(&text)
    }?)
}
