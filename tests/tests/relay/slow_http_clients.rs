//! Clients of the relay's HTTP faces that ask for much and read nothing: they are given up, cost a bounded memory, and take
//! nothing from others.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use agentanycast_proto::v1::SkillInfo;
use agentanycast_tests::{TestRelay, eventually_within, proc_stats, within};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use crate::registry_requests::registration;

const PAGE: &str = "/api/v1/agents?limit=1000";
const EVENTS: &str = "/api/v1/events";

/// Agents that say nearly a MiB each: a page of the directory is as large as it may be.
const AGENTS: usize = 10;

/// Clients of one address: what they ask for is more than an address may leave unread.
const CLIENTS: usize = 24;

/// What the relay may take of memory for all of them, in bytes: the 64 MiB of an address twice, since an answer is put
/// together before it is known to be too much, and what the system holds for sockets is not the relay's.
const MOST: u64 = 160 << 20;

/// The relay gives them up after 20 s in which they read nothing; what their small windows let through comes before that.
const GIVEN_UP: Duration = Duration::from_mins(3);

async fn crowded() -> TestRelay {
    let relay = TestRelay::builder()
        .args(["--entry-bytes-per-ip=64MiB", "--registry-ttl=1h"])
        .start()
        .await;
    let mut client = relay.client().await;
    for number in 0..AGENTS {
        let skills = (0..240).map(|n| SkillInfo {
            skill_id: format!("skill-{n}"),
            description: "d".repeat(4000),
            ..SkillInfo::default()
        });
        let mut agent = registration(&format!("agent-{number}"), "s");
        agent.skills = skills.collect();
        client.register_skills(agent).await.unwrap();
    }
    relay
}

/// Asks from an address of the loopback, with a window as small as it can be.
async fn ask(relay: &TestRelay, from: u8, path: &str, window: Option<u32>) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    if let Some(window) = window {
        socket.set_recv_buffer_size(window).unwrap();
    }
    let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, from)), 0);
    socket.bind(from).unwrap();
    let mut stream = socket.connect(relay.api).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: relay\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads a page to its end; its status and the bytes of its body.
async fn read(mut stream: TcpStream) -> (u16, usize) {
    let mut said = Vec::new();
    let mut length = None;
    loop {
        let head = said.windows(4).position(|four: &[u8]| four == b"\r\n\r\n");
        if let (Some(head), None) = (head, length) {
            let text = String::from_utf8_lossy(&said[..head]).to_ascii_lowercase();
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            length = Some(head + 4 + line.unwrap().parse::<usize>().unwrap());
        }
        if length.is_some_and(|length| said.len() >= length) {
            break;
        }
        assert!(stream.read_buf(&mut said).await.unwrap() > 0, "it broke off");
    }
    let status = String::from_utf8_lossy(&said[9..12]).parse().unwrap();
    (status, said.len())
}

async fn page(relay: &TestRelay, from: u8) -> (u16, usize) {
    within("a page is read", read(ask(relay, from, PAGE, None).await)).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: waits until a client that reads nothing is given up"]
async fn who_asks_for_much_and_reads_nothing_is_given_up_and_nobody_else() {
    let relay = crowded().await;
    let (status, whole) = page(&relay, 1).await;
    assert!(status == 200 && whole > 7_000_000, "{status}: {whole} bytes");
    let (files, rss) = (
        proc_stats::open_files(relay.pid()),
        proc_stats::rss_bytes(relay.pid()),
    );
    let mut standing = Vec::new();
    for number in 0..CLIENTS {
        let path = if number % 4 == 0 { EVENTS } else { PAGE };
        standing.push(ask(&relay, 1, path, Some(2048)).await);
    }
    // They stand until they are given up, so this goes on beside them: all of it is read, whoever else reads nothing.
    for _ in 0..3 {
        assert_eq!(page(&relay, 2).await, (200, whole));
    }
    let taken = proc_stats::peak_rss_bytes(relay.pid()).saturating_sub(rss);
    assert!(taken < MOST, "{} MiB", taken >> 20);
    // The same address gets what is small.
    let stats = within(
        "figures are read",
        read(ask(&relay, 1, "/api/v1/stats", None).await),
    )
    .await;
    assert_eq!(stats.0, 200);
    eventually_within(GIVEN_UP, "all of them are given up", || async {
        (proc_stats::open_files(relay.pid()) <= files).then_some(())
    })
    .await;
    drop(standing);
    assert_eq!(page(&relay, 1).await, (200, whole), "its share is free again");
}
