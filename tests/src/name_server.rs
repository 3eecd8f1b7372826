//! A server of names (RFC 1035) for a laboratory: it knows one name, and its address can be changed while programs ask
//! for it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{net::UdpSocket, task::JoinHandle};

use crate::network_lab::Namespace;

/// The only name that there is.
pub const NAME: &str = "relay.test";

/// How long an answer holds, in seconds.
const TTL: u32 = 1;

/// Longest question over UDP.
const MAX_QUESTION: usize = 512;

/// What a question for an IPv4 address has behind the name: its type (A) and class (Internet).
const ASKS_FOR_IPV4: [u8; 4] = [0, 1, 0, 1];

/// A server; dropping it ends it.
#[derive(Debug)]
pub struct NameServer {
    ip: String,
    address: Arc<Mutex<Ipv4Addr>>,
    serving: JoinHandle<()>,
}

impl NameServer {
    /// On a host that has this address; [`NAME`] is at `address`.
    ///
    /// # Panics
    /// When it cannot listen there.
    pub fn start(host: &Namespace, ip: &str, address: &str) -> Self {
        let socket = host.udp_socket(&SocketAddr::new(ip.parse().expect("an address"), 53).to_string());
        socket
            .set_nonblocking(true)
            .and_then(|()| UdpSocket::from_std(socket))
            .map(|socket| {
                let address = Arc::new(Mutex::new(address.parse().expect("an address")));
                Self {
                    ip: ip.to_owned(),
                    serving: tokio::spawn(serve(socket, Arc::clone(&address))),
                    address,
                }
            })
            .expect("the socket can be used")
    }

    /// Where it is.
    pub fn ip(&self) -> &str {
        &self.ip
    }

    /// [`NAME`] is at this address from now on.
    ///
    /// # Panics
    /// When it is none.
    pub fn set_address(&self, address: &str) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address.parse().expect("an address");
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(socket: UdpSocket, address: Arc<Mutex<Ipv4Addr>>) {
    let mut question = [0; MAX_QUESTION];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut question).await else {
            continue;
        };
        let address = *address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answer(&question[..length], address) {
            let _ = socket.send_to(&answer, from).await;
        }
    }
}

/// The answer to one question: the address, or that there is none. None to what cannot be read.
fn answer(question: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let id = question.get(..2)?;
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*question.get(at)?);
        let label = question.get(at + 1..at + 1 + length)?;
        at += 1 + length;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
    }
    let kind = question.get(at..at + 4)?;
    let is_known = labels.join(".") == NAME;
    let found = is_known && *kind == ASKS_FOR_IPV4;
    // An answer, to a question that may be asked on; no such name where that is so.
    let code = if is_known { 0 } else { 3 };
    let mut said = [id, &[0x81, 0x80 | code, 0, 1, 0, u8::from(found), 0, 0, 0, 0]].concat();
    said.extend_from_slice(question.get(12..at + 4)?);
    if found {
        // The name is the one that stands at byte 12.
        said.extend_from_slice(&[0xc0, 12]);
        said.extend_from_slice(&ASKS_FOR_IPV4);
        said.extend_from_slice(&TTL.to_be_bytes());
        said.extend_from_slice(&[0, 4]);
        said.extend_from_slice(&address.octets());
    }
    Some(said)
}
