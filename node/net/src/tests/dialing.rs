//! Listening and dialling over the loopback: ports, redials, and what errors say.

use super::*;

#[tokio::test]
async fn a_bootstrap_peer_that_comes_up_later_is_reached() {
    for (listen, with_peer) in [(TCP, true), (QUIC, true), (TCP, false)] {
        let late = config(&[listen]);
        let first = NetNode::start(late.clone()).await;
        let (peer, bound) = (first.peer(), first.handle.bound_addrs());
        first.stop().await;
        let mut early = config(&[TCP]);
        let suffix = if with_peer {
            format!("/p2p/{peer}")
        } else {
            String::new()
        };
        early.bootstrap_peers = vec![format!("{}{suffix}", bound[0])];
        let mut early = NetNode::start(early).await;
        until("one attempt failed", || {
            early.handle.counters().dial_failures.get() > 0
        })
        .await;
        let mut again = NetNode::start(NetConfig {
            preferred_listen: bound.clone(),
            ..late
        })
        .await;
        assert_eq!(again.handle.bound_addrs(), bound, "the port of the last run");
        early.connected(peer).await;
        again.connected(early.peer()).await;
        again.stop().await;
        early.disconnected(peer).await;
        early.stop().await;
    }
}

#[tokio::test]
async fn a_wanted_peer_is_redialled_while_it_is_wanted() {
    let away = config(&[TCP]);
    let (mut a, first) = (
        NetNode::start(config(&[TCP])).await,
        NetNode::start(away.clone()).await,
    );
    let (peer, bound) = (first.peer(), first.handle.bound_addrs());
    a.handle.dial(peer, first.handle.listen_addrs()).await.unwrap();
    a.handle.set_wanted(peer, true);
    a.handle.set_wanted(a.peer(), true);
    a.connected(peer).await;
    first.stop().await;
    a.disconnected(peer).await;
    let second = NetNode::start(NetConfig {
        preferred_listen: bound.clone(),
        ..away.clone()
    })
    .await;
    a.connected(peer).await;
    a.handle.set_wanted(peer, false);
    second.stop().await;
    a.disconnected(peer).await;
    let _third = NetNode::start(NetConfig {
        preferred_listen: bound,
        ..away
    })
    .await;
    let reconnected = timeout(Duration::from_secs(2), a.connected(peer)).await;
    assert!(reconnected.is_err(), "nobody wants it any more");
}

#[tokio::test]
async fn known_addresses_of_the_last_run_serve_a_wanted_peer() {
    let b = NetNode::start(config(&[QUIC])).await;
    let mut next = config(&[TCP]);
    next.known_addrs = vec![(b.peer(), b.handle.listen_addrs())];
    let mut a = NetNode::start(next).await;
    a.handle.set_wanted(b.peer(), true);
    a.connected(b.peer()).await;
    a.stop().await;
    let mut c = NetNode::start(config(&[TCP])).await;
    c.handle.dial(b.peer(), b.handle.listen_addrs()).await.unwrap();
    let told = |event| {
        if let LinkEvent::Addresses { addrs, .. } = event {
            Some(addrs)
        } else {
            None
        }
    };
    assert_eq!(
        c.wait(told).await,
        b.handle.listen_addrs(),
        "worth keeping for the next run"
    );
}

#[tokio::test]
async fn dial_errors_say_what_was_wrong() {
    let a = NetNode::start(config(&[TCP])).await;
    let other = NetNode::start(config(&[TCP])).await;
    let stranger = PeerId::from(Keypair::generate_ed25519().public().to_peer_id());
    assert_eq!(a.handle.dial(a.peer(), vec![]).await, Err(DialError::Self_));
    assert_eq!(
        a.handle.dial(stranger, vec![]).await,
        Err(DialError::Unreachable { attempts: vec![] })
    );
    for address in [
        "nonsense",
        &format!("/ip4/127.0.0.1/tcp/1/p2p/{}", a.peer()),
        &format!("/p2p/{stranger}"),
    ] {
        let error = a
            .handle
            .dial(stranger, vec![address.to_owned()])
            .await
            .unwrap_err();
        assert!(matches!(error, DialError::InvalidAddress { address: named, .. } if named == address));
    }
    let error = a
        .handle
        .dial(stranger, other.handle.listen_addrs())
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("another peer is there: {}", other.peer())),
        "{error}"
    );
    let nobody = other.handle.listen_addrs();
    let other_peer = other.peer();
    other.stop().await;
    let error = a.handle.dial(other_peer, nobody.clone()).await.unwrap_err();
    let DialError::Unreachable { attempts } = &error else {
        panic!("{error}")
    };
    assert!(attempts[0].address.starts_with(&nobody[0]), "{error}");
    assert!(attempts[0].reason.contains("refused"), "{error}");
    let error = a
        .handle
        .dial(stranger, a.handle.listen_addrs())
        .await
        .unwrap_err();
    assert!(matches!(error, DialError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_node_that_dials_itself_by_address_gives_up() {
    let mut own = config(&[TCP]);
    let first = NetNode::start(own.clone()).await;
    own.preferred_listen = first.handle.bound_addrs();
    own.bootstrap_peers = own
        .preferred_listen
        .iter()
        .map(|addr| format!("{addr}/p2p/{}", first.peer()))
        .collect();
    own.bootstrap_peers
        .push(own.preferred_listen[0].replace("127.0.0.1", "127.0.0.2"));
    first.stop().await;
    own.listen_addrs = own
        .preferred_listen
        .iter()
        .map(|addr| addr.replace("127.0.0.1", "0.0.0.0"))
        .collect();
    let node = NetNode::start(own).await;
    until("the dial failed", || {
        node.handle.counters().dial_failures.get() == 1
    })
    .await;
    let again = timeout(
        Duration::from_secs(2),
        until("", || node.handle.counters().dial_failures.get() > 1),
    )
    .await;
    assert!(again.is_err() && node.handle.peers().is_empty());
}

#[tokio::test]
async fn both_sides_dialling_at_once_is_one_peer() {
    for _ in 0..10 {
        let (mut a, mut b) = (
            NetNode::start(config(&[TCP, QUIC])).await,
            NetNode::start(config(&[TCP, QUIC])).await,
        );
        let (to_b, to_a) = (b.handle.listen_addrs(), a.handle.listen_addrs());
        let (ab, ba) = tokio::join!(a.handle.dial(b.peer(), to_b), b.handle.dial(a.peer(), to_a));
        assert!(ab.is_ok() && ba.is_ok(), "{ab:?} {ba:?}");
        a.connected(b.peer()).await;
        b.connected(a.peer()).await;
        assert_eq!((a.handle.peers().len(), b.handle.peers().len()), (1, 1));
        a.stop().await;
        b.disconnected(to_a_peer(&ba)).await;
        assert!(b.handle.peers().is_empty());
    }
}

fn to_a_peer(dialled: &Result<PeerSnapshot, DialError>) -> PeerId {
    dialled.as_ref().unwrap().peer
}

#[tokio::test]
async fn a_taken_port_and_a_bad_address_stop_the_start() {
    let a = NetNode::start(config(&[TCP, QUIC])).await;
    for address in a.handle.bound_addrs() {
        let (sender, _events) = mpsc::channel(1);
        let error = start(config(&[&address]), sender).await.unwrap_err();
        assert!(
            matches!(&error, StartError::Bind { address: named, .. } if *named == address),
            "{error}"
        );
    }
    let mut bad = config(&[TCP]);
    bad.bootstrap_peers = vec!["relay.example:4001".to_owned()];
    let (sender, _events) = mpsc::channel(1);
    let error = start(bad, sender).await.unwrap_err();
    assert!(matches!(error, StartError::InvalidBootstrap { .. }));
}

#[tokio::test]
async fn an_unspecified_address_is_spelled_out() {
    let mut wide = config(&["/ip4/0.0.0.0/tcp/0", "/ip4/0.0.0.0/udp/0/quic-v1"]);
    wide.quic = false;
    let node = NetNode::start(wide).await;
    let (bound, reachable) = (node.handle.bound_addrs(), node.handle.listen_addrs());
    assert_eq!(bound.len(), 1);
    assert!(
        bound[0].starts_with("/ip4/0.0.0.0/tcp/") && !bound[0].ends_with("/0"),
        "{bound:?}"
    );
    assert!(
        reachable.contains(&bound[0].replace("0.0.0.0", "127.0.0.1")),
        "{reachable:?}"
    );
    assert!(
        reachable.iter().all(|address| !address.contains("0.0.0.0")),
        "{reachable:?}"
    );
}
