//! An agent that says what it hears. Uses the daemon in the home directory given as the first
//! argument (default `~/.agentanycast`), or starts one; ends on Ctrl-C.

use agentanycast::{AgentCard, Artifact, CancellationToken, Node, Skill};

#[tokio::main]
#[allow(clippy::print_stdout)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let card = AgentCard::new("echo", "Says what it hears").with_skill(Skill::new("echo", "Echoes a text"));
    let mut builder = Node::builder().card(card);
    if let Some(home) = std::env::args_os().nth(1) {
        builder = builder.home(home);
    }
    let node = builder.start().await?;
    println!(
        "{}",
        node.info().await?.peer_id.ok_or("the daemon has no peer id")?
    );

    let stop = CancellationToken::new();
    let on_signal = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            on_signal.cancel();
        }
    });
    node.serve(|task| async move {
        let text = task.message().text_content();
        println!("{}: {text}", task.id());
        task.complete([Artifact::text(text)]).await?;
        Ok(())
    })
    .until(stop)
    .await?;
    node.shutdown().await;
    Ok(())
}
