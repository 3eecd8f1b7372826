//! Two nodes over the loopback, as the rest of the node sees them.

use std::{collections::HashSet, time::Duration};

use agentanycast_core::link::MAX_FRAME_BYTES;
use agentanycast_proto::v1::AgentCard;
use bytes::Bytes;
use libp2p::identity::Keypair;
use prost::Message as _;
use tokio::time::{sleep, timeout};

use super::*;

mod dht;
mod dialing;
mod relay_reservation;
mod relayed_to_direct;
mod rotated_peer_probe;

const TCP: &str = "/ip4/127.0.0.1/tcp/0";
const QUIC: &str = "/ip4/127.0.0.1/udp/0/quic-v1";
const WEBSOCKET: &str = "/ip4/127.0.0.1/tcp/0/ws";
/// Far beyond what any step takes; a test that waits this long has failed.
const DEADLINE: Duration = Duration::from_secs(30);

struct NetNode {
    handle: Handle,
    events: mpsc::Receiver<LinkEvent>,
    task: JoinHandle<()>,
}

fn config(listen: &[&str]) -> NetConfig {
    let keypair = Keypair::generate_ed25519();
    NetConfig {
        other_daemons: DuplicateKeyReports::new(&keypair),
        invites: HashMap::new(),
        keypair,
        listen_addrs: listen.iter().map(ToString::to_string).collect(),
        preferred_listen: Vec::new(),
        bootstrap_peers: Vec::new(),
        known_addrs: Vec::new(),
        mdns: false,
        quic: true,
        relay_client: true,
        hole_punching: true,
        upnp: false,
        authorities: Vec::new(),
        dht: None,
        agent_version: "agentanycast-test".to_owned(),
        names: OwnIdentity::default(),
        limits: NetLimits::default(),
    }
}

impl NetNode {
    async fn start(config: NetConfig) -> Self {
        let (sender, events) = mpsc::channel(64);
        let (handle, task) = start(config, sender).await.unwrap();
        Self { handle, events, task }
    }

    fn peer(&self) -> PeerId {
        self.handle.local_peer()
    }

    /// The first event that `pick` takes; the others are dropped.
    async fn wait<T>(&mut self, mut pick: impl FnMut(LinkEvent) -> Option<T>) -> T {
        let picked = async {
            loop {
                if let Some(picked) = pick(self.events.recv().await.expect("the network runs")) {
                    return picked;
                }
            }
        };
        timeout(DEADLINE, picked).await.expect("the event comes in time")
    }

    async fn connected(&mut self, other: PeerId) {
        self.wait(|event| matches!(event, LinkEvent::Connected { peer } if peer == other).then_some(()))
            .await;
    }

    async fn disconnected(&mut self, other: PeerId) {
        self.wait(|event| matches!(event, LinkEvent::Disconnected { peer } if peer == other).then_some(()))
            .await;
    }

    async fn frame(&mut self) -> (PeerId, Bytes) {
        self.wait(|event| match event {
            LinkEvent::Frame { peer, frame } => Some((peer, frame.bytes)),
            _ => None,
        })
        .await
    }

    async fn card(&mut self) -> AgentCard {
        self.wait(|event| match event {
            LinkEvent::Card { card, .. } => Some(AgentCard::decode(card).unwrap()),
            _ => None,
        })
        .await
    }

    async fn stop(self) {
        self.handle.shutdown().await;
        timeout(DEADLINE, self.task).await.unwrap().unwrap();
    }
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let met = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(DEADLINE, met).await.is_ok(), "not met in time: {what}");
}

fn named(name: &str) -> AgentCard {
    AgentCard {
        name: name.to_owned(),
        ..AgentCard::default()
    }
}

async fn pair(listen: &str) -> (NetNode, NetNode) {
    let (mut a, mut b) = (
        NetNode::start(config(&[listen])).await,
        NetNode::start(config(&[listen])).await,
    );
    let snapshot = a.handle.dial(b.peer(), b.handle.listen_addrs()).await.unwrap();
    assert_eq!((snapshot.peer, snapshot.direct), (b.peer(), true));
    assert_eq!(snapshot.addresses, b.handle.listen_addrs());
    a.connected(b.peer()).await;
    b.connected(a.peer()).await;
    (a, b)
}

async fn frames_of_every_size_arrive_in_order(listen: &str) {
    let (a, mut b) = pair(listen).await;
    let mut writer = a.handle.open_stream(b.peer()).await.unwrap();
    let largest = Bytes::from(vec![7; MAX_FRAME_BYTES]);
    let frames = [
        Bytes::new(),
        Bytes::from_static(b"1"),
        largest,
        Bytes::from_static(b"last"),
    ];
    let sending = tokio::spawn({
        let frames = frames.clone();
        async move {
            writer.write(&frames).await.unwrap();
            let too_long = [
                Bytes::from_static(b"x"),
                Bytes::from(vec![0; MAX_FRAME_BYTES + 1]),
            ];
            let refused = writer.write(&too_long).await.unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
            writer.write(&[Bytes::from_static(b"on")]).await.unwrap();
            writer.close().await;
        }
    });
    for expected in frames.iter().chain([&Bytes::from_static(b"on")]) {
        let (peer, frame) = b.frame().await;
        assert!(peer == a.peer() && frame == expected, "{} bytes", frame.len());
    }
    sending.await.unwrap();
    assert_eq!(b.handle.counters().frames_in.get(), 5);
    assert_eq!(a.handle.counters().frames_out.get(), 5);
    let mut back = b.handle.open_stream(a.peer()).await.unwrap();
    back.write(&[Bytes::from_static(b"and back")]).await.unwrap();
    a.stop().await;
    timeout(DEADLINE, back.closed()).await.unwrap();
    assert!(back.write(&[Bytes::new()]).await.is_err());
    b.disconnected(back.peer()).await;
    assert!(b.handle.peers().is_empty());
}

#[tokio::test]
async fn frames_over_tcp() {
    frames_of_every_size_arrive_in_order(TCP).await;
}

#[tokio::test]
async fn frames_over_websocket() {
    frames_of_every_size_arrive_in_order(WEBSOCKET).await;
}

#[tokio::test]
async fn frames_over_quic() {
    frames_of_every_size_arrive_in_order(QUIC).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_streams_with_a_frame_each_lose_none() {
    for listen in [TCP, QUIC] {
        let (a, mut b) = pair(listen).await;
        let writes = (0..1000u32).map(|n| {
            let handle = a.handle.clone();
            let peer = b.peer();
            tokio::spawn(async move {
                let mut writer = handle.open_stream(peer).await.unwrap();
                writer
                    .write(&[Bytes::copy_from_slice(&n.to_be_bytes())])
                    .await
                    .unwrap();
                writer.close().await;
            })
        });
        let writes: Vec<_> = writes.collect();
        let mut seen = HashSet::new();
        while seen.len() < 1000 {
            seen.insert(b.frame().await.1);
        }
        for write in writes {
            write.await.unwrap();
        }
        assert_eq!(b.handle.counters().refused_streams.get(), 0);
    }
}

#[tokio::test]
async fn a_claim_over_the_limit_resets_the_stream() {
    use futures::{AsyncReadExt, AsyncWriteExt};
    let (a, b) = pair(TCP).await;
    let protocol = streams::Protocol::Envelopes;
    let streams::OutboundStream { mut stream, .. } = a
        .handle
        .shared
        .control
        .open(b.peer().into(), protocol)
        .await
        .unwrap();
    stream.write_all(&[1, 0, 0, 1]).await.unwrap();
    stream.flush().await.unwrap();
    let ended = timeout(DEADLINE, stream.read(&mut [0; 8])).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)));
    until("the frame is counted", || {
        b.handle.counters().oversized_frames.get() == 1
    })
    .await;
    assert!(a.handle.is_connected(b.peer()));
}

#[tokio::test]
async fn held_permits_hold_the_sender_back() {
    let (a, mut b) = pair(TCP).await;
    let mut writer = a.handle.open_stream(b.peer()).await.unwrap();
    let frames: Vec<_> = (0..100u8).map(|n| Bytes::from(vec![n])).collect();
    writer.write(&frames).await.unwrap();
    let mut held = Vec::new();
    while held.len() < NetLimits::default().frames_per_peer {
        held.push(
            b.wait(|event| {
                if let LinkEvent::Frame { frame, .. } = event {
                    Some(frame)
                } else {
                    None
                }
            })
            .await,
        );
    }
    assert!(
        timeout(Duration::from_millis(200), b.frame()).await.is_err(),
        "64 frames are held"
    );
    let mut bytes: Vec<_> = held.drain(..).map(|frame| frame.bytes).collect();
    while bytes.len() < 100 {
        bytes.push(b.frame().await.1);
    }
    assert_eq!(bytes, frames);
}

#[tokio::test]
async fn cards_are_exchanged_on_connection_and_on_change() {
    let (mut a, mut b) = (
        NetNode::start(config(&[TCP])).await,
        NetNode::start(config(&[TCP])).await,
    );
    a.handle.set_card(Some(named("a"))).await;
    a.handle.dial(b.peer(), b.handle.listen_addrs()).await.unwrap();
    let card = b.card().await;
    let extension = card.p2p_extension.unwrap();
    assert_eq!(
        (card.name.as_str(), extension.peer_id),
        ("a", a.peer().to_string())
    );
    assert_eq!(
        Some(extension.did_key),
        agentanycast_identity::did_key_of(a.peer())
    );
    b.handle.set_card(Some(named("b"))).await;
    assert_eq!(a.card().await.name, "b");
    assert_eq!(b.card().await.name, "a", "the answer to b's offer");
    assert_eq!(a.handle.fetch_card(b.peer()).await.unwrap().unwrap().name, "b");
    a.handle.set_card(None).await;
    assert_eq!(
        a.handle.fetch_card(b.peer()).await.unwrap().unwrap().name,
        "b",
        "without a card of its own"
    );
    b.handle.set_card(None).await;
    assert_eq!(a.handle.fetch_card(b.peer()).await.unwrap(), None);
}

#[tokio::test]
async fn a_card_that_claims_another_peer_is_dropped() {
    use prost::Message;
    let (a, mut b) = pair(TCP).await;
    let mut lie = named("liar");
    lie.p2p_extension.get_or_insert_default().peer_id = b.peer().to_string();
    for (payload, counted) in [
        (Bytes::from(lie.encode_to_vec()), 0),
        (Bytes::from(vec![1; MAX_CARD_BYTES + 1]), 1),
    ] {
        let protocol = streams::Protocol::Card;
        let streams::OutboundStream { mut stream, .. } = a
            .handle
            .shared
            .control
            .open(b.peer().into(), protocol)
            .await
            .unwrap();
        // The responder may reset before it has read all of it.
        let _ = frame_writer::write_frames(&mut stream, &[payload]).await;
        let counters = b.handle.counters();
        until("the lie is counted", || {
            counters.wrong_cards.get() == 1 && counters.bad_cards.get() == counted
        })
        .await;
    }
    a.handle.set_card(Some(named("honest"))).await;
    assert_eq!(b.card().await.name, "honest", "the lie was not told");
}

#[tokio::test]
async fn a_full_house_refuses_and_keeps_whom_it_serves() {
    let mut small = config(&[TCP]);
    small.limits.connections = 1;
    let mut full = NetNode::start(small).await;
    let (first, second) = (
        NetNode::start(config(&[TCP])).await,
        NetNode::start(config(&[TCP])).await,
    );
    first
        .handle
        .dial(full.peer(), full.handle.listen_addrs())
        .await
        .unwrap();
    let mut writer = first.handle.open_stream(full.peer()).await.unwrap();
    // The refusal comes after the handshake, so the dialler may be connected for a moment.
    let _ = second.handle.dial(full.peer(), full.handle.listen_addrs()).await;
    until("the second is refused", || {
        full.handle.counters().refused_connections.get() == 1
    })
    .await;
    until("the second notices", || !second.handle.is_connected(full.peer())).await;
    writer.write(&[Bytes::from_static(b"still here")]).await.unwrap();
    assert_eq!(full.frame().await.0, first.peer());
    assert_eq!(full.handle.peers().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_reads_late_hears_of_the_peer_before_its_frames() {
    let a = NetNode::start(config(&[TCP])).await;
    let (sender, mut events) = mpsc::channel(1);
    let (b, _task) = start(config(&[TCP]), sender).await.unwrap();
    // Fills the one place that the consumer leaves, so that the rest must wait.
    let other = NetNode::start(config(&[TCP])).await;
    other.handle.dial(b.local_peer(), b.listen_addrs()).await.unwrap();
    until("the first peer is there", || b.is_connected(other.peer())).await;
    a.handle.dial(b.local_peer(), b.listen_addrs()).await.unwrap();
    let mut writer = a.handle.open_stream(b.local_peer()).await.unwrap();
    writer
        .write(&[Bytes::from_static(b"1"), Bytes::from_static(b"2")])
        .await
        .unwrap();
    until("the second peer is there", || b.is_connected(a.peer())).await;
    let mut heard = Vec::new();
    while heard.len() < 3 {
        match timeout(DEADLINE, events.recv()).await.unwrap().unwrap() {
            LinkEvent::Connected { peer } if peer == a.peer() => heard.push(Bytes::from_static(b"connected")),
            LinkEvent::Frame { frame, .. } => heard.push(frame.bytes),
            _ => {}
        }
    }
    assert_eq!(heard, ["connected", "1", "2"]);
}

#[tokio::test]
async fn dropping_every_handle_stops_the_node() {
    let (a, mut b) = pair(TCP).await;
    let peer = a.peer();
    let NetNode { handle, events, task } = a;
    drop(handle);
    timeout(DEADLINE, task).await.unwrap().unwrap();
    drop(events);
    b.disconnected(peer).await;
}
