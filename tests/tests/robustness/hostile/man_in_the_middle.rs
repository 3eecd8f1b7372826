//! An attacker on the way: reads what passes, changes it, sends it again, stands in for somebody. Nothing that passes can
//! be read or changed; what is lost by it is sent again.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use agentanycast::{Target, TaskFilter, TaskStatus};
use agentanycast_tests::{Daemon, agent::TestAgent, daemon_pair::wait_connected, eventually, within};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

const MARK: &str = "the-words-that-nobody-else-may-read";

/// What stands between two daemons.
#[derive(Debug, Default)]
struct InterceptingProxy {
    /// What the one that dialled has said, of each connection.
    heard: Mutex<Vec<Vec<u8>>>,
    /// Pieces in which a byte is still to be changed.
    to_change: AtomicUsize,
}

impl InterceptingProxy {
    /// Passes on to this address what comes to the one that is returned.
    async fn start(target: SocketAddr) -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let between = Arc::new(Self::default());
        let passing = Arc::clone(&between);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(target).await else {
                    continue;
                };
                let number = {
                    let mut heard = passing.heard.lock().unwrap();
                    heard.push(Vec::new());
                    heard.len() - 1
                };
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                tokio::spawn(Arc::clone(&passing).pass(near_in, far_out, Some(number)));
                tokio::spawn(Arc::clone(&passing).pass(far_in, near_out, None));
            }
        });
        (between, address)
    }

    async fn pass(self: Arc<Self>, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, keep: Option<usize>) {
        let mut piece = vec![0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut piece).await {
            let piece = &mut piece[..count];
            if let Some(number) = keep {
                self.heard.lock().unwrap()[number].extend_from_slice(piece);
            }
            let left = |left: usize| left.checked_sub(1);
            if keep.is_some()
                && self
                    .to_change
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
                    .is_ok()
            {
                piece[count / 2] ^= 0x20;
            }
            if to.write_all(piece).await.is_err() {
                return;
            }
        }
    }

    fn heard(&self) -> Vec<Vec<u8>> {
        self.heard.lock().unwrap().clone()
    }
}

fn tcp_of(daemon: &Daemon) -> SocketAddr {
    let parts: Vec<&str> = daemon.tcp().split('/').collect();
    format!("{}:{}", parts[2], parts[4]).parse().unwrap()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn who_listens_in_reads_nothing_and_who_sends_it_again_is_not_heard() {
    let bob = Daemon::builder().start().await;
    let _agent = TestAgent::echo(&bob.node().await);
    let (between, at) = InterceptingProxy::start(tcp_of(&bob)).await;
    let way = format!("/ip4/{}/tcp/{}/p2p/{}", at.ip(), at.port(), bob.peer_id());
    let alice = Daemon::builder().bootstrap(way).start().await;
    let node = alice.node().await;
    wait_connected(&node, &bob).await;
    let handle = node
        .send_task(Target::Peer(bob.peer_id().clone()), MARK)
        .await
        .unwrap();
    let task = within("the task ends", handle.wait()).await.unwrap();
    assert_eq!(task.text_content(), format!("echo: {MARK}"));
    let heard = between.heard();
    let bytes: usize = heard.iter().map(Vec::len).sum();
    assert!(bytes > 500, "the task went by here: {bytes} bytes");
    for text in [MARK, handle.id()] {
        assert!(!heard.iter().any(|said| contains(said, text)), "{text} was read");
    }

    // The same bytes once more, from the attacker's own connections.
    let tasks = async || {
        bob.node()
            .await
            .tasks(&TaskFilter::default())
            .await
            .unwrap()
            .len()
    };
    let before = tasks().await;
    for said in &heard {
        let mut again = TcpStream::connect(tcp_of(&bob)).await.unwrap();
        let _ = again.write_all(said).await; // It may be cut off before the end.
        let _ = again.shutdown().await;
        let mut answer = Vec::new();
        let _ = within("the daemon hangs up", again.read_to_end(&mut answer)).await;
    }
    let handle = node
        .send_task(Target::Peer(bob.peer_id().clone()), "again")
        .await
        .unwrap();
    within("the task ends", handle.wait()).await.unwrap();
    assert_eq!(tasks().await, before + 1, "the honest one and no other");
}

#[tokio::test]
async fn what_is_changed_on_the_way_is_noticed_and_sent_again() {
    let bob = Daemon::builder().start().await;
    let _agent = TestAgent::echo(&bob.node().await);
    let (between, at) = InterceptingProxy::start(tcp_of(&bob)).await;
    let way = format!("/ip4/{}/tcp/{}/p2p/{}", at.ip(), at.port(), bob.peer_id());
    let alice = Daemon::builder().bootstrap(way).start().await;
    let node = alice.node().await;
    wait_connected(&node, &bob).await;
    between.to_change.store(1, Ordering::Relaxed);
    for number in 0..10 {
        let text = format!("{MARK} {number}");
        let target = Target::Peer(bob.peer_id().clone());
        let handle = node.send_task(target, text.as_str()).await.unwrap();
        let task = within("the task ends", handle.wait()).await.unwrap();
        assert_eq!(task.text_content(), format!("echo: {text}"));
    }
    assert_eq!(
        between.to_change.load(Ordering::Relaxed),
        0,
        "something was changed"
    );
}

/// As a hostile name server or router can: the address leads to somebody else. He is connected to, since he may be the one who
/// is looked for under a new key, and gets what is for him and no more.
#[tokio::test]
async fn who_stands_in_anothers_place_gets_nothing() {
    let mut bob = Daemon::builder().listen(["/ip4/127.0.0.1/tcp/0"]).start().await;
    let place = bob.tcp().split("/p2p/").next().unwrap().to_owned();
    bob.stop().await;
    let mallory = Daemon::builder().listen([place.clone()]).start().await;
    let theirs = mallory.node().await;
    let agent = TestAgent::echo(&theirs);
    let alice = Daemon::builder()
        .bootstrap(format!("{place}/p2p/{}", bob.peer_id()))
        .start()
        .await;
    let node = alice.node().await;
    wait_connected(&node, &mallory).await;
    let handle = node
        .send_task(Target::Peer(bob.peer_id().clone()), MARK)
        .await
        .unwrap();
    eventually("the one in its place was met and refused", || async {
        let trace = node.trace(handle.id()).await.unwrap();
        let peer = trace.peer?;
        (!peer.connected && peer.last_error.contains("another peer is there")).then_some(())
    })
    .await;
    assert_eq!(handle.snapshot().await.unwrap().status, TaskStatus::Submitted);
    let own = Target::Peer(mallory.peer_id().clone());
    let own = node.send_task(own, "for whoever is there").await.unwrap();
    within("the task ends", own.wait()).await.unwrap();
    let came = theirs.tasks(&TaskFilter::default()).await.unwrap();
    assert_eq!(came.len(), 1, "what was for bob did not come: {came:?}");
    drop((agent, theirs));
    let mut mallory = mallory;
    mallory.stop().await;
    bob.restart().await;
    let _agent = TestAgent::echo(&bob.node().await);
    let task = within("the task ends", handle.wait()).await.unwrap();
    assert_eq!(task.text_content(), format!("echo: {MARK}"));
}
