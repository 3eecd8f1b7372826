//! An agent in a process of its own, for tests that kill and freeze it. It serves one skill at the given daemon with the
//! given number of tasks at once. It appends a line to the given file when it begins a task (`begun ID`) and when it has
//! completed one (`done ID`). While a file with that name and the suffix `.hold` exists, it completes no task that it
//! begins: it claims the task, waits for the daemon's answer, and appends `held ID`. A held task is therefore claimed
//! durably: after a kill the daemon does not hand it to the next agent as a new one.

use std::{fs::OpenOptions, io::Write as _, path::PathBuf, sync::Arc, time::Duration};

use agentanycast::{AgentCard, Artifact, Node, Skill};

/// How often it looks whether it may go on.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, skill, at_once, file] = args.as_slice() else {
        anyhow::bail!("usage: load_agent ADDRESS SKILL AT_ONCE FILE");
    };
    let ledger = Arc::new(OpenOptions::new().create(true).append(true).open(file)?);
    let hold = PathBuf::from(format!("{file}.hold"));
    let node = connected(address).await?;
    let card = AgentCard::new("load", "An agent of a test").with_skill(Skill::new(skill, "what it does"));
    node.set_card(card).await?;
    node.serve(move |task| {
        let (ledger, hold) = (Arc::clone(&ledger), hold.clone());
        async move {
            let id = task.id().to_owned();
            // One write each, so that a kill leaves whole lines.
            let note = |word: &str| (&*ledger).write_all(format!("{word} {id}\n").as_bytes());
            note("begun")?;
            if hold.exists() {
                task.claim().await?;
                note("held")?;
            }
            while hold.exists() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            task.complete([Artifact::text("done")]).await?;
            note("done")?;
            Ok(())
        }
    })
    .concurrency(at_once.parse()?)
    .await?;
    Ok(())
}

/// Connects as a supervisor would have it: a daemon on a busy machine may not answer at first.
async fn connected(address: &str) -> anyhow::Result<Node> {
    const TRIES: u32 = 30;
    for _ in 1..TRIES {
        match Node::connect(address).await {
            Ok(node) => return Ok(node),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
    Ok(Node::connect(address).await?)
}
