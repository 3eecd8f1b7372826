//! An agent as a process of its own, to be killed and frozen: serves the daemon at the address given with the skill given,
//! and adds a line to the file given for each task that it has completed: its id.

use std::{fs::OpenOptions, io::Write as _, sync::Arc, time::Duration};

use agentanycast::{AgentCard, Artifact, Node, Skill};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, skill, file] = args.as_slice() else {
        anyhow::bail!("usage: load_agent ADDRESS SKILL FILE");
    };
    let done = Arc::new(OpenOptions::new().create(true).append(true).open(file)?);
    let node = connected(address).await?;
    let card = AgentCard::new("load", "An agent of a test").with_skill(Skill::new(skill, "what it does"));
    node.set_card(card).await?;
    node.serve(move |task| {
        let done = Arc::clone(&done);
        async move {
            let line = format!("{}\n", task.id());
            task.complete([Artifact::text("done")]).await?;
            (&*done).write_all(line.as_bytes())?;
            Ok(())
        }
    })
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
