//! One inbound stream against its clock: time is paused and runs as far as the next time-out.

use libp2p::PeerId as Libp2pPeerId;
use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};
use tokio_util::compat::TokioAsyncReadCompatExt;

use super::*;
use crate::{NetLimits, budget::Budgets};

struct ServedStream {
    remote: DuplexStream,
    events: mpsc::Receiver<LinkEvent>,
    counters: Arc<Counters>,
    budget: Arc<PeerBudget>,
    task: tokio::task::JoinHandle<()>,
}

fn served() -> ServedStream {
    let (remote, local) = duplex(1 << 20);
    let (sender, events) = mpsc::channel(1);
    let counters = Arc::new(Counters::default());
    let peer = Libp2pPeerId::random();
    let budget = Budgets::new(&NetLimits {
        frames_per_peer: 1,
        ..NetLimits::default()
    })
    .of_peer(peer);
    let serving = serve(
        peer.into(),
        None,
        local.compat(),
        Arc::clone(&budget),
        sender,
        Arc::clone(&counters),
        FairQueue::default(),
    );
    ServedStream {
        remote,
        events,
        counters,
        budget,
        task: tokio::spawn(serving),
    }
}

impl ServedStream {
    async fn frame(&mut self) -> InboundFrame {
        match self.events.recv().await {
            Some(LinkEvent::Frame { frame, .. }) => frame,
            other => panic!("no frame but {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_stays_for_ten_minutes() {
    let begin = Instant::now();
    let mut served = served();
    served.remote.write_all(&[0, 0, 0, 1, 7]).await.unwrap();
    assert_eq!(served.frame().await.bytes, [7].as_slice());
    served.task.await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), IDLE_TIMEOUT.as_secs());
    assert_eq!(served.counters.broken_frames.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_frame_has_thirty_seconds_from_its_first_byte() {
    let mut served = served();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let begin = Instant::now();
    served.remote.write_all(&[0, 0, 0, 9, 1]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    served.remote.write_all(&[2]).await.unwrap();
    served.task.await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), FRAME_TIMEOUT.as_secs());
    assert_eq!(served.counters.broken_frames.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn our_own_back_pressure_is_not_the_senders_fault() {
    let mut served = served();
    served
        .remote
        .write_all(&[0, 0, 0, 1, 7, 0, 0, 0, 2, 8])
        .await
        .unwrap();
    let held = served.frame().await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    drop(held);
    tokio::time::sleep(Duration::from_secs(20)).await;
    served.remote.write_all(&[9]).await.unwrap();
    assert_eq!(served.frame().await.bytes, [8, 9].as_slice());
}

#[tokio::test]
async fn an_end_is_an_end_only_between_frames() {
    for (wire, broken) in [(&[0, 0, 0, 0][..], 0), (&[0, 0], 1), (&[0, 0, 0, 2, 1], 1)] {
        let mut served = served();
        served.remote.write_all(wire).await.unwrap();
        served.remote.shutdown().await.unwrap();
        if broken == 0 {
            assert!(served.frame().await.bytes.is_empty());
        }
        served.task.await.unwrap();
        assert_eq!(served.counters.broken_frames.get(), broken);
    }
}

#[tokio::test]
async fn a_refused_frame_gives_its_budget_back() {
    let mut served = served();
    served.remote.write_all(&[1, 0, 0, 1]).await.unwrap();
    served.task.await.unwrap();
    assert_eq!(served.counters.oversized_frames.get(), 1);
    drop(served.budget.frame(MAX_FRAME_BYTES).await.unwrap());
}
