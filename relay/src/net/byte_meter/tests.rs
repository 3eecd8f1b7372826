//! Streams that agree on a protocol as libp2p does.

use futures::{AsyncReadExt as _, AsyncWriteExt as _, future::join};
use libp2p::{Multiaddr, PeerId};
use multistream_select::{Version, dialer_select_proto, listener_select_proto};
use tokio_util::compat::TokioAsyncReadCompatExt as _;

use super::{super::circuit_quota::source, *};

const HOP: &str = "/libp2p/circuit/relay/0.2.0/hop";
const STOP: &str = "/libp2p/circuit/relay/0.2.0/stop";
const CARRIED: usize = 10_000;

/// A message that asks for a place here.
const RESERVE: &[u8] = &[2, 0x08, 0];
/// One that asks for a circuit, to a peer with an id of two bytes.
const CONNECT: &[u8] = &[8, 0x08, 1, 0x12, 4, 0x0a, 2, b'i', b'd'];
/// One that answers.
const STATUS: &[u8] = &[4, 0x08, 1, 0x20, 100];

/// What is counted of a stream that `opened_by` opens for the first of `names` that the other side knows, once the peer
/// has said `first` and so many bytes on it: the bytes, and whether it takes one of the peer's circuits.
async fn counted(
    opened_by: StreamSide,
    names: Vec<String>,
    known: &[&'static str],
    first: &[u8],
) -> (u64, bool) {
    let remote: Multiaddr = "/ip4/192.0.2.1/tcp/1".parse().unwrap();
    let meter = CircuitMeter {
        bytes: Counter::default(),
        circuit_quota: CircuitQuota::new(0),
    };
    let (peer, us) = tokio::io::duplex(100);
    let us = MeteredStream {
        inner: SubstreamBox::new(us.compat()),
        meter: meter.clone(),
        remote: source(&remote),
        kind: StreamPhase::Negotiating(opened_by, NegotiationReader::default()),
    };
    let (asks, answers): (SubstreamBox, SubstreamBox) = match opened_by {
        StreamSide::Peer => (SubstreamBox::new(peer.compat()), SubstreamBox::new(us)),
        StreamSide::Us => (SubstreamBox::new(us), SubstreamBox::new(peer.compat())),
    };
    let asks = dialer_select_proto(asks, names, Version::V1);
    let answers = listener_select_proto(answers, known.iter().copied());
    let (asks, answers) = join(asks, answers).await;
    let (asks, answers) = (asks.unwrap().1, answers.unwrap().1);
    let (mut peer, mut us) = match opened_by {
        StreamSide::Peer => (asks, answers),
        StreamSide::Us => (answers, asks),
    };
    let mut read = vec![0; first.len() + CARRIED];
    let (wrote, got) = join(
        async {
            peer.write_all(first).await?;
            peer.write_all(&[b'x'; CARRIED]).await?;
            peer.flush().await
        },
        us.read_exact(&mut read),
    )
    .await;
    wrote.and(got).unwrap();
    let holds = !meter.circuit_quota.admit(PeerId::random(), &remote);
    drop(us);
    assert!(
        meter.circuit_quota.admit(PeerId::random(), &remote),
        "it ends with the stream"
    );
    (meter.bytes.get(), holds)
}

#[tokio::test]
async fn a_circuit_is_known_whatever_was_asked_for_before() {
    let carried = CARRIED as u64;
    for before in [0, 1, 50] {
        let names = |last: &str| {
            let mut names = vec![format!("/{}", "b".repeat(200)); before];
            names.push(last.to_owned());
            names
        };
        assert_eq!(
            counted(StreamSide::Peer, names(HOP), &[HOP], CONNECT).await,
            (carried, true)
        );
        assert_eq!(
            counted(StreamSide::Us, names(STOP), &[STOP], STATUS).await,
            (carried, false)
        );
        // Not the names that were asked for count, but the one that was agreed to.
        let mut both = names(HOP);
        both.push("/ping".to_owned());
        assert_eq!(
            counted(StreamSide::Peer, both, &["/ping"], CONNECT).await,
            (0, false)
        );
    }
}

/// Whoever reserves a place holds no circuit, whatever it says behind that.
#[tokio::test]
async fn a_reservation_is_no_circuit() {
    let names = || vec![HOP.to_owned()];
    assert_eq!(
        counted(StreamSide::Peer, names(), &[HOP], RESERVE).await,
        (0, false)
    );
    // The same without any field: the type of a message that names none.
    assert_eq!(counted(StreamSide::Peer, names(), &[HOP], &[0]).await, (0, false));
}
