//! `anycast demo`: an echo agent on the home's daemon, until Ctrl-C.

use agentanycast::{AgentCard, Artifact, CancellationToken, IncomingTask, Node, Part, Skill};
use clap::Args;
use serde_json::json;
use tokio::sync::mpsc;

use crate::{
    context::Context,
    failure::CommandFailure,
    hints,
    interrupt::Interrupt,
    output::{self, Paint},
};

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Start two daemons and two agents in temporary homes and send a task between them
    #[arg(long, conflicts_with_all = ["name", "home", "daemon"])]
    pub(crate) pair: bool,
    /// Name on the echo agent's card
    #[arg(long, default_value = "echo")]
    pub(crate) name: String,
}

/// How often it is asked whether the echo agent listens.
const LISTEN_POLL: std::time::Duration = std::time::Duration::from_millis(20);

/// The skill on the echo agent's card.
const SKILL: &str = "echo";

pub(crate) async fn run(context: &Context, args: DemoArgs) -> Result<(), CommandFailure> {
    let mut interrupt = Interrupt::new()?;
    let node = interrupt.or(context.connect_or_start()).await?;
    for warning in node.set_card(card(&args.name)).await? {
        output::warn(&format!("anycast: {warning}"));
    }
    let outcome = serve(context, &node, &mut interrupt).await;
    node.shutdown().await;
    outcome
}

/// The card of the echo agent.
pub(crate) fn card(name: &str) -> AgentCard {
    AgentCard::new(name, "Says what it hears").with_skill(Skill::new(SKILL, "Echoes each part of a message"))
}

/// What the echo agent answers: an artifact of the parts that it got.
pub(crate) fn echo(task: &IncomingTask) -> Artifact {
    let parts: Vec<Part> = task.message().parts.clone();
    Artifact::new(SKILL, parts)
}

async fn serve(context: &Context, node: &Node, interrupt: &mut Interrupt) -> Result<(), CommandFailure> {
    let stop = CancellationToken::new();
    let as_json = context.json;
    let (untold, mut output_failed) = mpsc::channel(1);
    let serving = node
        .serve(move |task| {
            let untold = untold.clone();
            async move {
                let answer = echo(&task);
                let text = task.message().text_content();
                let sender = task.sender().map(ToString::to_string).unwrap_or_default();
                task.complete([answer]).await?;
                let told = if as_json {
                    output::json(
                        &json!({"task_id": task.id(), "peer_id": sender, "sender": sender, "text": text}),
                    )
                } else {
                    output::pieces(&[
                        (&sender, Paint::Faint),
                        (" ", Paint::Plain),
                        (&output::brief(&text), Paint::Plain),
                    ])
                };
                if let Err(error) = told {
                    // The first is enough: the demo ends with it.
                    let _ = untold.try_send(error);
                }
                Ok(())
            }
        })
        .until(stop.clone())
        .into_future();
    tokio::pin!(serving);
    // Tasks, and the card's name, are for it once it listens.
    tokio::select! {
        announced = announce_listening(context, node) => announced?,
        outcome = &mut serving => return Ok(outcome?),
    }
    let ended = tokio::select! {
        () = interrupt.wait() => Ok(()),
        Some(error) = output_failed.recv() => Err(error.into()),
        outcome = &mut serving => return Ok(outcome?),
    };
    stop.cancel();
    // A second signal does not wait for the handlers.
    tokio::select! {
        () = interrupt.wait() => {}
        outcome = &mut serving => outcome?,
    }
    ended
}

async fn announce_listening(context: &Context, node: &Node) -> Result<(), CommandFailure> {
    while node.info().await?.agent_listening == Some(false) {
        tokio::time::sleep(LISTEN_POLL).await;
    }
    announce(context, node).await
}

async fn announce(context: &Context, node: &Node) -> Result<(), CommandFailure> {
    let info = node.info().await?;
    let peer = info.peer_id.ok_or_else(CommandFailure::unnamed_daemon)?;
    let addresses: Vec<String> = info
        .listen_addresses
        .iter()
        .map(|address| format!("{address}/p2p/{peer}"))
        .collect();
    if context.json {
        return Ok(output::json(
            &json!({"peer_id": peer.as_str(), "addresses": addresses}),
        )?);
    }
    output::pieces(&[
        ("The echo agent listens as ", Paint::Plain),
        (peer.as_str(), Paint::Good),
    ])?;
    let here = hints::command(&format!("send {peer} \"hello\""));
    output::line(&format!("Try it: {here}"))?;
    output::line(&format!(
        "{} prints a string by which any other machine reaches it, through its relay too:",
        hints::command("invite")
    ))?;
    output::line("  anycast send STRING \"hello\"")?;
    output::line("From any other home or host on this network:")?;
    output::line(&format!("  anycast send {peer} \"hello\""))?;
    if !addresses.is_empty() {
        output::line("or, where it is not found by itself, by an address:")?;
        addresses
            .iter()
            .try_for_each(|address| output::line(&format!("  anycast send {address} \"hello\"")))?;
    }
    Ok(output::line("Ctrl-C ends it.")?)
}
