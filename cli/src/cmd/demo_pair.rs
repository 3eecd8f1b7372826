//! `anycast demo --pair`: two daemons in temporary homes, an agent on each, and one task between them,
//! with the road that it takes. Nothing is left behind.

use std::time::Instant;

use agentanycast::{Node, Peer, PeerId, Target, Task, TaskStatus};
use futures::StreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    background_daemon::own_program,
    cmd::demo,
    context::Context,
    failure::{CommandFailure, FailureCode},
    interrupt::Interrupt,
    json,
    output::{self, Paint},
};

/// What the first agent says to the second.
const GREETING: &str = "Hello from the other side of the network";

/// Where the two daemons listen: a free TCP and UDP port, on this machine only.
const LISTEN: &str = "--listen=/ip4/127.0.0.1/tcp/0,/ip4/127.0.0.1/udp/0/quic-v1";

/// One daemon of the pair.
struct PairNode {
    node: Node,
    peer: PeerId,
    home: TempDir,
}

/// A state of the task and when it was seen, in milliseconds since the send.
type StatusTime = (TaskStatus, f64);

pub(crate) async fn run(context: &Context) -> Result<(), CommandFailure> {
    Interrupt::new()?.or(exchange(context)).await
}

async fn exchange(context: &Context) -> Result<(), CommandFailure> {
    let sender = start("a", &[]).await?;
    let addresses = sender.node.announced_addresses().await;
    if addresses.is_empty() {
        return Err(CommandFailure::new(
            FailureCode::Daemon,
            "Protocol",
            "the first daemon announced no address",
        ));
    }
    let receiver = start("b", &addresses).await?;
    let outcome = between(context, &sender, &receiver, &addresses).await;
    tokio::join!(sender.node.shutdown(), receiver.node.shutdown());
    outcome
}

async fn start(name: &str, bootstrap: &[String]) -> Result<PairNode, CommandFailure> {
    let home = tempfile::Builder::new().prefix("anycast-").tempdir()?;
    let mut builder = Node::builder()
        .home(home.path())
        .daemon_command(own_program()?, ["daemon"])
        .daemon_arg(LISTEN)
        .daemon_env("AGENTANYCAST_ENABLE_MDNS", "false")
        .card(demo::card(&format!("agent-{name}")));
    for address in bootstrap {
        builder = builder.bootstrap(address);
    }
    let node = builder.start().await?;
    let unnamed = || CommandFailure::new(FailureCode::Daemon, "Protocol", "a daemon did not say who it is");
    let peer = node.info().await?.peer_id.ok_or_else(unnamed)?;
    Ok(PairNode { node, peer, home })
}

async fn between(
    context: &Context,
    sender: &PairNode,
    receiver: &PairNode,
    road: &[String],
) -> Result<(), CommandFailure> {
    let connection = receiver.node.connect_peer(&sender.peer, road).await?;
    if !context.json {
        show_sides(sender, receiver, &connection)?;
    }
    let serving = tokio::spawn(
        receiver
            .node
            .serve(|task| async move {
                task.working("repeating what I heard").await?;
                let answer = demo::echo(&task);
                task.complete([answer]).await?;
                Ok(())
            })
            .into_future(),
    );
    let sent = send(sender, receiver).await;
    serving.abort();
    let (task, steps, total) = sent?;
    if context.json {
        return Ok(output::json(&document(
            sender,
            receiver,
            &connection,
            &task,
            &steps,
            total,
        ))?);
    }
    show_task(&task, &steps, total)
}

async fn send(
    sender: &PairNode,
    receiver: &PairNode,
) -> Result<(Task, Vec<StatusTime>, f64), CommandFailure> {
    let start = Instant::now();
    let since = || start.elapsed().as_secs_f64() * 1000.0;
    let handle = sender
        .node
        .send_task(Target::Peer(receiver.peer.clone()), GREETING)
        .await?;
    let mut steps = vec![(TaskStatus::Submitted, since())];
    let mut updates = handle.updates();
    while let Some(update) = updates.next().await {
        let status = update?.status;
        if steps.last().is_none_or(|(last, _)| *last != status) {
            steps.push((status, since()));
        }
    }
    let total = since();
    Ok((handle.wait().await?, steps, total))
}

fn show_sides(sender: &PairNode, receiver: &PairNode, connection: &Peer) -> Result<(), CommandFailure> {
    for (name, side) in [("A", sender), ("B", receiver)] {
        output::pieces(&[
            (&format!("daemon {name}    {}  ", side.peer), Paint::Plain),
            (&side.home.path().display().to_string(), Paint::Faint),
        ])?;
    }
    let address = connection.addresses.first().cloned().unwrap_or_default();
    let how = format!("{}, {}", connection.via, transport(&address));
    Ok(output::pieces(&[
        (&format!("connection  {how}  "), Paint::Plain),
        (&address, Paint::Faint),
    ])?)
}

fn show_task(task: &Task, steps: &[StatusTime], total: f64) -> Result<(), CommandFailure> {
    output::line(&format!(
        "task        {}  agent A asks agent B: {GREETING:?}",
        task.id
    ))?;
    for (status, millis) in steps {
        let shade = if *status == TaskStatus::Completed {
            Paint::Good
        } else {
            Paint::Busy
        };
        output::pieces(&[
            (&format!("  {millis:7.1} ms  "), Paint::Plain),
            (status.as_str(), shade),
        ])?;
    }
    for artifact in &task.artifacts {
        let text = output::brief(&artifact.text_content());
        output::pieces(&[
            (
                &format!("artifact    {}: ", output::brief(&artifact.name)),
                Paint::Plain,
            ),
            (&text, Paint::Good),
        ])?;
    }
    Ok(output::line(&format!(
        "total       {total:.1} ms from agent to agent and back, durable on both sides"
    ))?)
}

/// The transport that a multiaddr names.
fn transport(address: &str) -> &'static str {
    match address {
        _ if address.contains("/p2p-circuit") => "through a relay",
        _ if address.contains("/quic") => "QUIC",
        _ if address.contains("/ws") => "WebSocket",
        _ if address.contains("/tcp/") => "TCP with Noise",
        _ => "unknown transport",
    }
}

fn document(
    sender: &PairNode,
    receiver: &PairNode,
    connection: &Peer,
    task: &Task,
    steps: &[StatusTime],
    total: f64,
) -> Value {
    let steps: Vec<Value> = steps
        .iter()
        .map(|(status, millis)| json!({"status": status.as_str(), "ms": millis}))
        .collect();
    json!({
        "sender": sender.peer.as_str(),
        "receiver": receiver.peer.as_str(),
        "connection": json::peer(connection),
        "steps": steps,
        "total_ms": total,
        "task": json::task(task, &[]),
    })
}
