//! A system that gives few file descriptors, and strangers who take all connections that they can: the relay's store goes
//! on, and it says who was refused.

use std::net::{IpAddr, SocketAddr};

use agentanycast_tests::{TestRelay, eventually, proc_stats::open_files};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use crate::registry_requests::registration;

/// What the relay may have open.
const LIMIT: u64 = 1024;

/// Connections that each of three addresses tries at each port.
const KNOCKING: usize = 150;

/// Whether the other side has it too; what it has sent is dropped.
fn is_open(stream: &TcpStream) -> bool {
    let mut bytes = [0; 1024];
    loop {
        match stream.try_read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

async fn knock(from: u8, at: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    let from = SocketAddr::new(IpAddr::from([127, 0, 0, from]), 0);
    socket.bind(from).unwrap();
    socket.connect(at).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_all_connections_leaves_the_store_its_files() {
    let relay = TestRelay::builder().with_store().descriptors(LIMIT).start().await;
    // Its log is read beside it.
    eventually("it says that it has too few files", || {
        let said = relay
            .log()
            .contains("max_connections is 16384, but 1024 open files");
        async move { said.then_some(()) }
    })
    .await;
    // Its connection stands before the others come.
    let mut client = relay.client().await;
    client.register_skills(registration("before", "s")).await.unwrap();
    let parts: Vec<&str> = relay.addresses[0].split('/').collect();
    let peers: SocketAddr = format!("{}:{}", parts[2], parts[4]).parse().unwrap();
    let mut strangers = Vec::new();
    for (at, most) in [
        (peers, 12),
        (relay.registry, 48),
        (relay.api, 24),
        (relay.metrics, 24),
    ] {
        for from in 2..5 {
            let mut those = Vec::new();
            for _ in 0..KNOCKING {
                those.extend(knock(from, at).await);
            }
            eventually(&format!("at most {most} stay of one address at {at}"), || {
                those.retain(is_open);
                let few = those.len() <= most;
                async move { few.then_some(()) }
            })
            .await;
            strangers.extend(those);
        }
    }
    assert!(open_files(relay.pid()) < LIMIT, "{}", open_files(relay.pid()));
    for n in 0..20 {
        let request = registration(&format!("meanwhile-{n}"), "s");
        client.register_skills(request).await.unwrap();
    }
    drop(strangers);
    let health = relay.health().await;
    assert_eq!(health["problems"], serde_json::json!([]), "{health}");
    // At the other two, whoever asks nothing gives way to who comes.
    let refused = "connections_refused_total{listener=\"registry\",limit=\"one address\"}";
    assert!(relay.metric(refused).await > 0.0, "{refused}");
    let line = "\"listener\":\"registry\"";
    let lines = relay.log().lines().filter(|text| text.contains(line)).count();
    assert!((1..100).contains(&lines), "{lines} lines say so");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_nothing_to_the_registry_is_let_go() {
    let relay = TestRelay::builder().start().await;
    let mut silent = TcpStream::connect(relay.registry).await.unwrap();
    let mut half = TcpStream::connect(relay.registry).await.unwrap();
    half.write_all(b"PRI * HTTP/2").await.unwrap();
    for stream in [&mut silent, &mut half] {
        let ended = tokio::time::timeout(std::time::Duration::from_mins(1), async {
            let mut bytes = Vec::new();
            // The server's own first words come before ours.
            let _ = stream.read_to_end(&mut bytes).await;
        });
        ended.await.expect("it keeps the connection");
    }
    eventually("who asks is served", || async {
        let mut client = relay.client().await;
        client.register_skills(registration("p", "s")).await.ok()
    })
    .await;
}
