//! What this host can listen on, and listeners on all addresses of it.
//!
//! The looks here make the same sockets as the listeners do: an IPv6 socket of libp2p takes no IPv4, and a look that
//! takes both would find a port taken by the program's own IPv4 listener.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use multiaddr::{Multiaddr, Protocol};
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use crate::settings::ListenOn;

/// Connections that the system holds until they are accepted.
const WAITING: i32 = 1024;

/// The IP address and, for TCP, the port that a multiaddr listens on.
fn place(address: &Multiaddr) -> Option<(IpAddr, Option<u16>)> {
    let mut parts = address.iter();
    let ip = match parts.next()? {
        Protocol::Ip4(ip) => IpAddr::from(ip),
        Protocol::Ip6(ip) => IpAddr::from(ip),
        _ => return None,
    };
    let port = match parts.next() {
        Some(Protocol::Tcp(port)) => Some(port),
        _ => None,
    };
    Some((ip, port))
}

/// Whether a multiaddr means all addresses of a family of which this host has none, such as `/ip6/::` where IPv6 is off.
pub fn lacks_family(address: &Multiaddr) -> bool {
    // Where a family is on, the host's loopback has an address of it.
    let loopback: IpAddr = match place(address) {
        Some((IpAddr::V4(ip), _)) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        Some((IpAddr::V6(ip), _)) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        _ => return false,
    };
    UdpSocket::bind((loopback, 0)).is_err()
}

/// Fails when another socket has the TCP port of a multiaddr. The listener alone would share the port with another
/// program of the same user (`SO_REUSEPORT`), and each would get half of the connections.
///
/// # Errors
/// The system's.
pub fn check_free(address: &Multiaddr) -> io::Result<()> {
    match place(address) {
        Some((ip, Some(port))) if port != 0 => listener((ip, port).into(), true).map(drop),
        _ => Ok(()),
    }
}

fn listener(address: SocketAddr, only_v6: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(socket2::Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(WAITING)?;
    Ok(socket)
}

/// Listens there: for `:PORT` on IPv4 and IPv6 with one socket, on IPv4 alone where the host has no IPv6.
///
/// # Errors
/// The system's.
pub async fn bind(listen: &ListenOn) -> io::Result<TcpListener> {
    let Some(port) = listen.0.strip_prefix(':').and_then(|port| port.parse().ok()) else {
        return TcpListener::bind(listen.to_bind()).await;
    };
    match listener((Ipv6Addr::UNSPECIFIED, port).into(), false) {
        Ok(socket) => {
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket.into())
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
    }
}

/// The address of a peer as it is: a socket for both families shows IPv4 addresses as IPv6 ones (`::ffff:192.0.2.1`).
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Multiaddr {
        format!("{host}/tcp/{port}").parse().unwrap()
    }

    #[test]
    fn a_taken_port_is_seen_in_its_own_family_only() {
        let taken = listener((Ipv4Addr::UNSPECIFIED, 0).into(), true).unwrap();
        let port = taken.local_addr().unwrap().as_socket().unwrap().port();
        assert!(check_free(&at("/ip4/0.0.0.0", port)).is_err());
        assert!(check_free(&at("/ip4/127.0.0.1", port)).is_err());
        if !lacks_family(&at("/ip6/::", 0)) {
            check_free(&at("/ip6/::", port)).unwrap();
        }
        drop(taken);
        check_free(&at("/ip4/0.0.0.0", port)).unwrap();
        check_free(&at("/ip4/0.0.0.0", 0)).unwrap();
    }

    #[tokio::test]
    async fn all_addresses_are_those_of_both_families() {
        let listener = bind(&ListenOn(":0".to_owned())).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut hosts: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into()];
        if !lacks_family(&at("/ip6/::", 0)) {
            hosts.push(Ipv6Addr::LOCALHOST.into());
        }
        for host in hosts {
            let client = tokio::net::TcpStream::connect((host, port)).await.unwrap();
            let (_, peer) = listener.accept().await.unwrap();
            assert_eq!(canonical(peer), client.local_addr().unwrap());
        }
        let error = bind(&ListenOn(format!(":{port}"))).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
