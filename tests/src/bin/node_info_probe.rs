//! Calls GetNodeInfo at the address given, and says how that went: `answered`, or `refused: …`. The tests
//! run it as another user.

use agentanycast_proto::v1::GetNodeInfoRequest;
use agentanycast_tests::rpc;

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout, reason = "its output is what it is for")]
async fn main() {
    let address = std::env::args().nth(1).unwrap_or_default();
    match ask(&address).await {
        Ok(()) => println!("answered"),
        Err(error) => println!("refused: {error}"),
    }
}

async fn ask(address: &str) -> anyhow::Result<()> {
    let mut client = rpc::try_connect(address).await?;
    client.get_node_info(GetNodeInfoRequest {}).await?;
    Ok(())
}
