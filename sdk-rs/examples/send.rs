//! Sends a text to a peer through the daemon in `~/.agentanycast`, shows every change of the task and
//! its result: `cargo run --example send -- 12D3KooW… "hello"`.

use agentanycast::{Node, PeerId, Target};
use futures::StreamExt;

#[tokio::main]
#[allow(clippy::print_stdout)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(peer), Some(text)) = (arguments.next(), arguments.next()) else {
        return Err("usage: send PEER_ID TEXT".into());
    };
    let peer: PeerId = peer.parse()?;
    let node = Node::connect("").await?;
    let handle = node.send_task(Target::Peer(peer), text).await?;
    let mut updates = handle.updates();
    while let Some(update) = updates.next().await {
        println!("{}", update?.status);
    }
    println!("{}", handle.wait().await?.text_content());
    Ok(())
}
