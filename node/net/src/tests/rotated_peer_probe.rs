//! Where a wanted peer was another key answers: it is met, since it may be the same node, and a stranger is let go.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use agentanycast_identity::rotation::Rotation;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use super::{super::rotated_peer_probe::MAX_STRANGERS, *};

/// More than may be met at once.
const PLACES: usize = MAX_STRANGERS + 4;
/// Redials at once, with the dials that follow from them.
const REDIALS: usize = 16;

fn somebody() -> PeerId {
    Keypair::generate_ed25519().public().to_peer_id().into()
}

fn port_of(node: &NetNode) -> u16 {
    node.handle.listen_addrs()[0]
        .rsplit('/')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

/// A place in front of other hosts: the address where it is, and what accepts there.
async fn place() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (format!("/ip4/127.0.0.1/tcp/{port}"), listener)
}

fn lead(mut near: TcpStream, port: u16) {
    tokio::spawn(async move {
        let mut far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    });
}

/// A place that has another key as soon as somebody has got through to the one before and shown his card.
async fn place_of_many_keys() -> String {
    let (at, listener) = place().await;
    tokio::spawn(async move {
        let mut former = Vec::new();
        let mut now = NetNode::start(config(&[TCP])).await;
        loop {
            tokio::select! {
                Ok((near, _)) = listener.accept() => lead(near, port_of(&now)),
                _ = now.card() => {
                    former.push(now);
                    now = NetNode::start(config(&[TCP])).await;
                }
            }
        }
    });
    at
}

/// A place where a key answers once, and nobody afterwards; `silent` counts those who wait there.
async fn place_that_falls_silent(port: u16, silent: &Arc<AtomicUsize>) -> String {
    let (at, listener) = place().await;
    let silent = Arc::clone(silent);
    tokio::spawn(async move {
        lead(listener.accept().await.unwrap().0, port);
        while let Ok((mut waits, _)) = listener.accept().await {
            let silent = Arc::clone(&silent);
            tokio::spawn(async move {
                silent.fetch_add(1, Ordering::Relaxed);
                let _ = tokio::io::copy(&mut waits, &mut tokio::io::sink()).await;
                silent.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    at
}

/// A place where a key answers once; of the second who comes it is told, and he is let through when that is said.
async fn place_that_waits(port: u16) -> (String, oneshot::Receiver<()>, oneshot::Sender<()>) {
    let (at, listener) = place().await;
    let (comes, came) = oneshot::channel();
    let (open, opened) = oneshot::channel();
    tokio::spawn(async move {
        lead(listener.accept().await.unwrap().0, port);
        let (second, _) = listener.accept().await.unwrap();
        comes.send(()).unwrap();
        opened.await.unwrap();
        lead(second, port);
        std::future::pending::<()>().await;
    });
    (at, came, open)
}

async fn wants(node: &NetNode, wanted: PeerId, places: Vec<String>) {
    node.handle.add_addresses(vec![(wanted, places)]).await;
    node.handle.set_wanted(wanted, true);
}

#[tokio::test(flavor = "multi_thread")]
async fn places_with_a_new_key_each_time_get_no_more_than_their_share() {
    let a = NetNode::start(config(&[TCP])).await;
    a.handle.set_card(Some(named("a"))).await;
    for _ in 0..PLACES {
        wants(&a, somebody(), vec![place_of_many_keys().await]).await;
    }
    let mut most = 0;
    until("each was looked for three times", || {
        let met = a.handle.peers().len();
        most = most.max(met);
        met >= MAX_STRANGERS && a.handle.counters().dial_failures.get() >= 3 * PLACES as u64
    })
    .await;
    assert_eq!(most, MAX_STRANGERS);
    let places = a.handle.peers().into_iter().flat_map(|peer| peer.addresses);
    let places: HashSet<_> = places.collect();
    assert_eq!(places.len(), MAX_STRANGERS, "one at each");
    let b = NetNode::start(config(&[TCP])).await;
    wants(&a, b.peer(), b.handle.listen_addrs()).await;
    until("others are reached", || a.handle.is_connected(b.peer())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn places_that_fall_silent_take_no_more_dials_than_redials_may() {
    let a = NetNode::start(config(&[TCP])).await;
    let silent = Arc::new(AtomicUsize::new(0));
    let mut hosts = Vec::new();
    for _ in 0..PLACES {
        hosts.push(NetNode::start(config(&[TCP])).await);
    }
    for host in &hosts {
        let place = place_that_falls_silent(port_of(host), &silent).await;
        wants(&a, somebody(), vec![place]).await;
    }
    let waiting = || silent.load(Ordering::Relaxed);
    until("strangers and redials wait", || waiting() >= MAX_STRANGERS).await;
    let more = timeout(Duration::from_secs(3), until("", || waiting() > REDIALS));
    assert!(more.await.is_err(), "{} wait", waiting());
    let b = NetNode::start(config(&[TCP])).await;
    wants(&a, b.peer(), b.handle.listen_addrs()).await;
    until("others are reached", || a.handle.is_connected(b.peer())).await;
}

#[tokio::test]
async fn a_stranger_is_let_go_and_the_wanted_one_under_a_new_key_stays() {
    let (old, mut renewed) = (Keypair::generate_ed25519(), config(&[TCP]));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let statement = Rotation::sign(&old, &renewed.keypair, now.as_millis() as u64).unwrap();
    renewed.names.key_rotations = vec![statement.to_bytes()];
    let renewed = NetNode::start(renewed).await;
    let mut stranger = NetNode::start(config(&[TCP])).await;
    let mut hasty = config(&[TCP]);
    hasty.limits.stranger_patience = Duration::from_secs(3);
    let a = NetNode::start(hasty).await;
    a.handle.set_card(Some(named("a"))).await;

    let old = old.public().to_peer_id().into();
    wants(&a, old, renewed.handle.listen_addrs()).await;
    until("it is met", || a.handle.is_connected(renewed.peer())).await;
    let since = a.handle.peer(renewed.peer()).unwrap().connected_at;
    // Also who keeps a stream open, is let go.
    wants(&a, somebody(), stranger.handle.listen_addrs()).await;
    assert_eq!(stranger.card().await.name, "a", "he is met");
    let mut writer = stranger.handle.open_stream(a.peer()).await.unwrap();
    writer.write(&[Bytes::from_static(b"stay")]).await.unwrap();
    timeout(DEADLINE, writer.closed()).await.unwrap();
    until("the stranger is let go", || {
        !a.handle.is_connected(stranger.peer())
    })
    .await;
    let stays = a.handle.peer(renewed.peer()).map(|peer| peer.connected_at);
    assert_eq!(stays, Some(since), "it was met before");
}

/// Somebody here dials a peer himself while it is being met elsewhere: he is told that it is connected, and keeps it.
#[tokio::test]
async fn who_is_asked_for_while_being_met_is_no_stranger() {
    let [met, other] = [
        NetNode::start(config(&[TCP])).await,
        NetNode::start(config(&[TCP])).await,
    ];
    let mut hasty = config(&[TCP]);
    hasty.limits.stranger_patience = Duration::from_secs(3);
    let a = NetNode::start(hasty).await;
    let (at, came, open) = place_that_waits(port_of(&met)).await;
    wants(&a, somebody(), vec![at]).await;
    timeout(DEADLINE, came).await.unwrap().unwrap();
    // Nobody answers there.
    let (nowhere, silent) = place().await;
    let handle = a.handle.clone();
    let peer = met.peer();
    let dialled = tokio::spawn(async move { handle.dial(peer, vec![nowhere]).await });
    let _waits = timeout(DEADLINE, silent.accept()).await.unwrap().unwrap();
    open.send(()).unwrap();
    let connected = timeout(DEADLINE, dialled).await.unwrap().unwrap().unwrap();
    // Whoever is met after that is let go when he has had his time.
    wants(&a, somebody(), other.handle.listen_addrs()).await;
    until("another one is met", || a.handle.is_connected(other.peer())).await;
    until("he is let go", || !a.handle.is_connected(other.peer())).await;
    let stays = a.handle.peer(met.peer()).map(|peer| peer.connected_at);
    assert_eq!(stays, Some(connected.connected_at));
}
