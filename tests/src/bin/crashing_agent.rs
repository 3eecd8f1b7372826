//! An agent as a process of its own that works on all tasks at once and dies of one. Serves the daemon at the
//! address given, by the SDK (`sdk`) or by bare gRPC (`bare`), which reports nothing but ends. A task whose
//! text is `poison` kills the process after as many milliseconds as are given; every other task takes twice
//! that, 20 ms at least.

use std::time::Duration;

use agentanycast::{Artifact, Node};
use agentanycast_tests::rpc;
use rustix::process::{Signal, getpid, kill_process};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, kind, millis] = args.as_slice() else {
        anyhow::bail!("usage: crashing_agent ADDRESS sdk|bare MILLISECONDS");
    };
    let lives = Duration::from_millis(millis.parse()?);
    if kind == "sdk" {
        serve(&Node::connect(address).await?, lives).await
    } else {
        listen(rpc::try_connect(address).await?, lives).await
    }
}

async fn work(text: &str, lives: Duration) {
    if text != "poison" {
        return tokio::time::sleep((2 * lives).max(Duration::from_millis(20))).await;
    }
    tokio::time::sleep(lives).await;
    // As the system does it: nothing of the process runs any more.
    let _ = kill_process(getpid(), Signal::KILL);
}

async fn serve(node: &Node, lives: Duration) -> anyhow::Result<()> {
    let served = node.serve(move |task| async move {
        work(&task.message().text_content(), lives).await;
        task.complete([Artifact::text("done")]).await?;
        Ok(())
    });
    Ok(served.concurrency(100).await?)
}

async fn listen(mut rpc: rpc::Rpc, lives: Duration) -> anyhow::Result<()> {
    let mut tasks = rpc::listen(&mut rpc).await;
    loop {
        let task = rpc::next_task(&mut tasks).await;
        let mut rpc = rpc.clone();
        tokio::spawn(async move {
            let said = task.messages.first().map(|message| rpc::text_of(&message.parts));
            work(&said.unwrap_or_default(), lives).await;
            let _ = rpc::complete(&mut rpc, &task.task_id, "done").await;
        });
    }
}
