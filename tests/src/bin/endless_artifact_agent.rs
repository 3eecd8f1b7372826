//! An agent as a process of its own, to be killed: serves the daemon at the address given, and answers every task
//! with an artifact that never ends.

use agentanycast::Node;

/// Bytes that it writes at once.
const PIECE: usize = 64 << 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_default();
    let node = Node::connect(address).await?;
    node.serve(|task| async move {
        let mut artifact = task.stream_artifact("endless", "").await?;
        loop {
            artifact.write(vec![7; PIECE]).await?;
        }
    })
    .await?;
    Ok(())
}
