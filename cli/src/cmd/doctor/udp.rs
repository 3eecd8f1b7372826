//! Whether datagrams go out and come back: QUIC needs them, and with it most ways through a NAT.
//!
//! A relay is asked for the versions of QUIC that it speaks, with a packet of a version that nobody does: every server
//! answers that at once (RFC 9000, section 6), without a handshake.

use std::{net::SocketAddr, time::Duration};

use futures::future::join_all;
use tokio::net::UdpSocket;

use super::{facts::DoctorFacts, finding::Finding};

const CHECK: &str = "UDP";

/// How often a relay is asked, and how long each time; a datagram may be lost.
const TRIES: usize = 3;
const WAIT: Duration = Duration::from_millis(700);

/// Smaller first packets are not answered (RFC 9000, section 14.1).
const SIZE: usize = 1200;

/// A version that is reserved for this use (RFC 9000, section 15).
const NO_VERSION: [u8; 4] = [0x1a, 0x2a, 0x3a, 0x4a];

/// Most addresses that are tried.
const MAX_TRIED_ADDRESSES: usize = 8;

pub(super) async fn check(facts: &DoctorFacts) -> Option<Finding> {
    let config = facts.config()?;
    if let Some(told) = facts.daemon_report() {
        let in_use = told
            .network
            .peers
            .iter()
            .flat_map(|peer| &peer.addresses)
            .find(|address| address.contains("/quic-v1"));
        if let Some(address) = in_use {
            return Some(Finding::good(
                CHECK,
                format!("a connection goes over it, at {address}"),
            ));
        }
    }
    let configured: Vec<String> = config.bootstrap_peers.iter().map(ToString::to_string).collect();
    let mut targets = Vec::new();
    for address in configured.iter().filter(|address| address.contains("/quic-v1")) {
        targets.extend(socket_of(address).await);
    }
    targets.truncate(MAX_TRIED_ADDRESSES);
    if targets.is_empty() {
        return Some(Finding::note(
            CHECK,
            "not checked: no peer in bootstrap_peers has a QUIC address (/udp/…/quic-v1)",
        ));
    }
    let answers = join_all(targets.iter().map(|target| answers(*target))).await;
    let heard = targets.iter().zip(answers).find(|(_, heard)| *heard);
    if let Some((target, _)) = heard {
        return Some(Finding::good(CHECK, format!("{target} answers")));
    }
    let tried: Vec<String> = targets.iter().map(ToString::to_string).collect();
    Some(Finding::problem(
        CHECK,
        format!(
            "no answer over UDP from {}: it is blocked, or nobody is there",
            tried.join(", ")
        ),
        "let UDP out in the firewall of this host and network; until then add the relay's TCP address (/tcp/…) to \
         bootstrap_peers, which works, and goes through fewer NATs",
    ))
}

/// Where the datagrams of a multiaddr go.
async fn socket_of(address: &str) -> Option<SocketAddr> {
    let parts: Vec<&str> = address.split('/').collect();
    let [_, _, host, "udp", port, ..] = parts.as_slice() else {
        return None;
    };
    let port: u16 = port.parse().ok()?;
    let looked = tokio::time::timeout(Duration::from_secs(5), tokio::net::lookup_host((*host, port))).await;
    looked.ok()?.ok()?.next()
}

async fn answers(target: SocketAddr) -> bool {
    let any: SocketAddr = if target.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0_u16; 8], 0).into()
    };
    let Ok(socket) = UdpSocket::bind(any).await else {
        return false;
    };
    if socket.connect(target).await.is_err() {
        return false;
    }
    let asked = question(rand::random());
    let mut answer = [0; SIZE];
    for _ in 0..TRIES {
        // A port that is closed refuses the next call on the socket.
        if socket.send(&asked).await.is_err() {
            continue;
        }
        if let Ok(Ok(size)) = tokio::time::timeout(WAIT, socket.recv(&mut answer)).await
            && is_versions(&answer[..size])
        {
            return true;
        }
    }
    false
}

/// A first packet with a long header, these 8 bytes as both connection ids, and nothing that could be understood.
fn question(id: [u8; 8]) -> Vec<u8> {
    let mut packet = vec![0xc0];
    packet.extend(NO_VERSION);
    for _ in 0..2 {
        packet.push(id.len() as u8);
        packet.extend(id);
    }
    packet.resize(SIZE, 0);
    packet
}

/// Whether this is a packet that lists versions: a long header with the version 0.
fn is_versions(packet: &[u8]) -> bool {
    matches!(packet, [first, 0, 0, 0, 0, ..] if first & 0x80 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_a_first_packet() {
        let packet = question([7; 8]);
        assert_eq!(
            (packet.len(), &packet[..6]),
            (1200, &[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8][..])
        );
        assert!(
            !is_versions(&packet) && is_versions(&[0x80, 0, 0, 0, 0, 8]) && !is_versions(&[0x40, 0, 0, 0, 0])
        );
    }

    #[tokio::test]
    async fn where_datagrams_go_is_read() {
        assert_eq!(
            socket_of("/ip4/192.0.2.1/udp/4001/quic-v1/p2p/x").await,
            "192.0.2.1:4001".parse().ok()
        );
        assert_eq!(socket_of("/ip4/192.0.2.1/tcp/4001").await, None);
    }

    /// Nobody answers at a socket that is only bound; what is heard there is the question.
    #[tokio::test]
    async fn silence_is_no_answer() {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        assert!(!answers(silent.local_addr().unwrap()).await);
    }
}
