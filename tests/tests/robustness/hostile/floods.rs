//! More than anybody needs: envelopes, refusals, streams, connections. The flood is slowed to what the daemon
//! takes, costs a bounded amount of memory, and tasks of others go on beside it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use agentanycast_proto::v1::{TaskCancelPayload, a2a_envelope::Payload};
use agentanycast_tests::{
    eventually,
    proc_stats::open_files,
    raw_peer::{A2A, CARD, RawConnection, RawPeer, ReadMode, encoded, envelope, frame, send_task},
    within,
};
use futures::{AsyncWriteExt as _, future::join_all};
use tokio::{io::AsyncReadExt as _, net::TcpSocket, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{AttackedDaemon, MIB, assert_accepted, size};

/// Junk goes out in writes of so many frames.
const BATCH: u64 = 512;

/// One peer sends junk as fast as it is taken, on several streams of TCP and of QUIC; at 100 000 envelopes a
/// second it would rest. Tasks of another peer are sent all the while, and all of them complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_junk_envelopes_a_second() {
    const WANTED: u64 = 100_000;
    let siege = AttackedDaemon::begin().await;
    let seconds: u64 = size("AGENTANYCAST_PROOF_JUNK_SECONDS", 5);
    let stranger = RawPeer::new();
    let flood = EnvelopeFlood::default();
    let mut writers = Vec::new();
    for address in [siege.daemon.tcp(), siege.daemon.quic()] {
        let link = Arc::new(stranger.dial(address).await);
        for kind in 0..4 {
            writers.push(flood.pour(&link, junk(kind)));
        }
    }
    let began = Instant::now();
    let mut tasks = 0;
    while began.elapsed() < Duration::from_secs(seconds) {
        siege.honest_work(16).await;
        tasks += 16;
    }
    let (taken, time) = (flood.written.load(Relaxed), began.elapsed());
    flood.stop.cancel();
    join_all(writers).await;
    let rate = taken as f64 / time.as_secs_f64();
    eprintln!(
        "{rate:.0} junk envelopes/s were taken ({WANTED} were wanted) beside {tasks} tasks in {time:?}"
    );
    assert!(taken > 0 && tasks > 0);
    siege.endured(64 * MIB).await;

    /// A write full of junk of one kind.
    fn junk(kind: u64) -> Vec<u8> {
        let one = match kind {
            0 => frame(b"\x07\x07\x07\x07 this is no envelope"),
            1 => frame(b""),
            2 => encoded(&[agentanycast_proto::v1::A2aEnvelope {
                payload: None,
                ..envelope(send_task("x"))
            }]),
            _ => encoded(&[agentanycast_proto::v1::A2aEnvelope {
                r#type: 8,
                ..envelope(send_task("x"))
            }]),
        };
        one.repeat(BATCH as usize)
    }
}

/// One peer sends envelopes that are refused, each with an acknowledgement, and never reads one. What it is owed
/// is bounded; others are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_never_reads_its_acks() {
    let siege = AttackedDaemon::begin().await;
    let flood = EnvelopeFlood::default();
    let mut writers = Vec::new();
    for address in [siege.daemon.tcp(), siege.daemon.quic()] {
        let deaf = RawPeer::new()
            .dial_as(address, ReadMode::NeverReads)
            .await
            .unwrap();
        let deaf = Arc::new(deaf);
        for text in ["unknown", "never heard of it"] {
            let cancel = envelope(Payload::TaskCancel(TaskCancelPayload {
                task_id: text.to_owned(),
            }));
            writers.push(flood.pour(&deaf, encoded(&[cancel]).repeat(BATCH as usize)));
        }
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        siege.honest_work(16).await;
    }
    let taken = flood.written.load(Relaxed);
    flood.stop.cancel();
    join_all(writers).await;
    eprintln!("{taken} refusals in {:?}", began.elapsed());
    assert!(taken > 4096, "more than what a courier takes");
    siege.endured(64 * MIB).await;
}

/// Thousands of streams of either protocol, opened by one peer and left as they are: on TCP and on QUIC, with
/// their protocol agreed, half agreed, and not even proposed.
#[tokio::test]
async fn thousands_of_idle_streams() {
    const EACH: usize = 1000;
    let siege = AttackedDaemon::begin().await;
    let (idle, other) = (RawPeer::new(), RawPeer::new());
    let other = other.dial(siege.daemon.tcp()).await;
    let mut links = Vec::new();
    let (mut opened, mut refused) = (0, 0);
    for address in [siege.daemon.tcp(), siege.daemon.quic()] {
        let link = idle.dial(address).await;
        let mut streams = Vec::new();
        let mut bare = Vec::new();
        for number in 0..3 * EACH {
            let open = async {
                if number % 3 == 2 {
                    let mut stream = link.open_unnegotiated().await?;
                    // Half of the agreement, or nothing at all.
                    if number % 2 == 0 {
                        stream.write_all(b"\x13/multistream/1.0.0\n\x16/agentany").await?;
                        stream.flush().await?;
                    }
                    bare.push(stream);
                } else {
                    let mut stream = link.open([A2A, CARD][number % 3]).await?;
                    stream.flush().await?;
                    streams.push(stream);
                }
                std::io::Result::Ok(())
            };
            match tokio::time::timeout(Duration::from_secs(1), open).await {
                Ok(Ok(())) => opened += 1,
                // At its limit the daemon lets a QUIC peer wait, and resets what a TCP peer opens.
                Ok(Err(_)) => refused += 1,
                Err(_) => {
                    refused += 1;
                    break;
                }
            }
        }
        links.push((link, streams, bare));
    }
    eprintln!("{opened} streams were opened, {refused} were not");
    assert!(opened > 1500);
    siege.honest_work(100).await;
    let right = envelope(send_task("beside them"));
    other.send(std::slice::from_ref(&right)).await;
    assert_accepted(&other.ack_of(&right).await, &right);
    // A stream with a task to serve it is a few KiB; 4 096 on TCP and 1 024 on QUIC at most.
    siege.endured(64 * MIB).await;
}

/// Streams that are filled as far as their windows allow while the frames on them wait for a budget that is used
/// up: the windows of one peer are all the memory that it gets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_that_are_filled_and_never_emptied() {
    const STREAMS: usize = 1000;
    let siege = AttackedDaemon::begin().await;
    let link = Arc::new(RawPeer::new().dial(siege.daemon.tcp()).await);
    let mut held = Vec::new();
    // A frame of 1 MiB that is never finished: 32 of them are all that one peer may have in the making.
    let begun = [&(1_u32 << 20).to_be_bytes()[..], &vec![0; (1 << 20) - 5]].concat();
    for _ in 0..STREAMS {
        let Ok(mut stream) = link.open(A2A).await else {
            break;
        };
        let write = async {
            stream.write_all(&begun).await?;
            stream.flush().await
        };
        let _ = tokio::time::timeout(Duration::from_millis(20), write).await;
        held.push(stream);
    }
    eprintln!("{} streams are held", held.len());
    siege.honest_work(100).await;
    drop(held);
    // 256 KiB are what the muxer grants each of 1 024 streams at its start; 32 MiB are the peer's share of frames; a
    // fifth is what the allocator rounds up to its size classes, and keeps of what was freed for ten seconds.
    siege.endured((256 + 32 + 64 + 32) * MIB).await;
}

/// From one address come hundreds of sockets that never say a word and hundreds of identities; the daemon lets in
/// as many as one address may have. Whoever comes from elsewhere is let in meanwhile, and served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_connections_than_one_address_may_have() {
    const SILENT: usize = 600;
    const IDENTITIES: usize = 400;
    const MOST: usize = 256;
    const CROWDED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    let siege = AttackedDaemon::begin().await;
    let address = siege.daemon.tcp().to_owned();
    let (silent, stop) = (Arc::<AtomicU64>::default(), CancellationToken::new());
    let door = tokio::spawn(knock(
        address.clone(),
        CROWDED,
        SILENT,
        Arc::clone(&silent),
        stop.clone(),
    ));
    eventually("the silent ones are at the door", || async {
        (silent.load(Relaxed) >= SILENT as u64).then_some(())
    })
    .await;
    // While they are there, somebody else comes.
    let newcomer = RawPeer::new().dial(&address).await;
    let right = envelope(send_task("from elsewhere"));
    newcomer.send(std::slice::from_ref(&right)).await;
    assert_accepted(&newcomer.ack_of(&right).await, &right);
    stop.cancel();
    door.await.unwrap();
    let (mut stand, mut refused) = (Vec::new(), 0);
    for _ in 0..IDENTITIES / 20 {
        let dials = (0..20).map(|_| let_in(&address, CROWDED));
        for link in join_all(dials).await {
            match link {
                Some(link) => stand.push(link),
                None => refused += 1,
            }
        }
    }
    eprintln!(
        "{} of {IDENTITIES} connections stand, {refused} were refused; {} files are open",
        stand.len(),
        open_files(siege.daemon.pid()),
    );
    assert!(stand.len() <= MOST && refused > 0);
    siege.honest_work(50).await;
    let another = RawPeer::new().dial(&address).await;
    let right = envelope(send_task("from elsewhere, too"));
    another.send(std::slice::from_ref(&right)).await;
    assert_accepted(&another.ack_of(&right).await, &right);
    drop(stand);
    eventually("the crowded address is let in again", || async {
        let_in(&address, CROWDED).await.map(drop)
    })
    .await;
    // A connection with the buffers of its muxer is about 100 KiB; so is one that is not authenticated.
    siege.endured(96 * MIB).await;
}

/// A connection from this address that is let in, and served: a refused one ends instead.
async fn let_in(address: &str, source: Ipv4Addr) -> Option<RawConnection> {
    let link = RawPeer::new().dial_from(source, address).await.ok()?;
    let question = envelope(Payload::TaskCancel(TaskCancelPayload {
        task_id: "unknown".to_owned(),
    }));
    // The end of the connection shows below.
    let bytes = encoded(std::slice::from_ref(&question));
    let said = link.send_bytes(A2A, &bytes);
    let _ = within("a question is taken, or its connection ends", said).await;
    let served = tokio::select! {
        _ = link.ack_of(&question) => true,
        () = link.closed() => false,
    };
    served.then_some(link)
}

/// Keeps so many silent sockets open, and replaces those that are closed.
async fn knock(
    address: String,
    source: Ipv4Addr,
    sockets: usize,
    open: Arc<AtomicU64>,
    stop: CancellationToken,
) {
    let parts: Vec<&str> = address.split('/').collect();
    let to: SocketAddr = format!("{}:{}", parts[2], parts[4]).parse().unwrap();
    let silence = async {
        let each = (0..sockets).map(|_| async {
            loop {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind(SocketAddr::new(source.into(), 0)).unwrap();
                if let Ok(mut stream) = socket.connect(to).await {
                    open.fetch_add(1, Relaxed);
                    // Nothing is said; what comes is the other side's end.
                    let mut said = [0; 64];
                    while stream.read(&mut said).await.is_ok_and(|count| count > 0) {}
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        join_all(each).await;
    };
    stop.run_until_cancelled(silence).await;
}

/// Writes that go on until they are stopped.
#[derive(Default)]
struct EnvelopeFlood {
    written: Arc<AtomicU64>,
    stop: CancellationToken,
}

impl EnvelopeFlood {
    /// Pours these bytes, [`BATCH`] envelopes, onto a stream again and again, and onto another one when it is reset.
    fn pour(&self, link: &Arc<RawConnection>, bytes: Vec<u8>) -> JoinHandle<()> {
        let (written, stop, link) = (Arc::clone(&self.written), self.stop.clone(), Arc::clone(link));
        tokio::spawn(async move {
            let pouring = async {
                while link.is_open() {
                    let Ok(mut stream) = link.open(A2A).await else {
                        return;
                    };
                    while stream.write_all(&bytes).await.is_ok() && stream.flush().await.is_ok() {
                        written.fetch_add(BATCH, Relaxed);
                    }
                }
            };
            stop.run_until_cancelled(pouring).await;
        })
    }
}
