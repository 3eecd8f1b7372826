//! Ports and transports in multiaddrs, what of a URL may be shown, and a path below a URL.
//!
//! PURE.

use multiaddr::{Multiaddr, Protocol};

use crate::sanitize::user_part;

/// The TCP or UDP port.
pub fn port(address: &Multiaddr) -> Option<u16> {
    address.iter().find_map(|part| match part {
        Protocol::Tcp(port) | Protocol::Udp(port) => Some(port),
        _ => None,
    })
}

/// A URL as a log and others may have it: without user, query and fragment, where secrets stand.
pub fn bare_url(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let rest = user_part(rest).map_or(rest, |end| &rest[end + 1..]);
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    scheme + &rest[..end]
}

/// A URL with a path below its own, which begins with a slash and may have a query. The URL's own query is kept.
#[must_use]
pub fn join_path(url: &str, path: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let base = base.strip_suffix('/').unwrap_or(base);
    match (query.is_empty(), path.contains('?')) {
        (true, _) => format!("{base}{path}"),
        (false, false) => format!("{base}{path}?{query}"),
        (false, true) => format!("{base}{path}&{query}"),
    }
}

/// The same address with another port.
#[must_use]
pub fn with_port(address: &Multiaddr, port: u16) -> Multiaddr {
    let set = |part| match part {
        Protocol::Tcp(_) => Protocol::Tcp(port),
        Protocol::Udp(_) => Protocol::Udp(port),
        other => other,
    };
    address.iter().map(set).collect()
}

/// What follows the transport in the parts behind a host; none where that is no transport that our programs dial: TCP,
/// WebSocket over it (plain or in TLS) or QUIC v1, at a port that is not 0.
pub fn behind_transport<'a, 'b>(parts: &'a [Protocol<'b>]) -> Option<&'a [Protocol<'b>]> {
    match parts {
        [Protocol::Tcp(0) | Protocol::Udp(0), ..] => None,
        [Protocol::Tcp(_), Protocol::Tls, Protocol::Ws(_), rest @ ..]
        | [
            Protocol::Tcp(_),
            Protocol::Tls,
            Protocol::Sni(_),
            Protocol::Ws(_),
            rest @ ..,
        ]
        | [Protocol::Tcp(_), Protocol::Ws(_) | Protocol::Wss(_), rest @ ..]
        | [Protocol::Udp(_), Protocol::QuicV1, rest @ ..]
        | [Protocol::Tcp(_), rest @ ..] => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_of_a_url_may_be_shown() {
        for (url, shown) in [
            ("https://a.example/b?token=x", "https://a.example/b"),
            ("https://joe:x@[::1]:8443?token=x/@y", "https://[::1]:8443"),
            ("http://a.example/b@c#d", "http://a.example/b@c"),
            ("https://u:p/w@h/x", "https://h/x"),
            ("https://u:p#w@h/x", "https://h/x"),
            ("a?b", "a"),
            ("u:p@a:1/x", "a:1/x"),
        ] {
            assert_eq!(bare_url(url), shown);
        }
    }

    #[test]
    fn a_urls_slash_and_query_are_kept() {
        for (url, path, whole) in [
            ("https://h", "/x", "https://h/x"),
            ("https://h/a/", "/x", "https://h/a/x"),
            ("https://h/a?k=/", "/x", "https://h/a/x?k=/"),
            ("https://h/a/?k=v#f", "/x?y=1", "https://h/a/x?y=1&k=v"),
        ] {
            assert_eq!(join_path(url, path), whole);
        }
    }

    #[test]
    fn a_port_is_read_and_set_where_there_is_one() {
        let address = |text: &str| text.parse::<Multiaddr>().unwrap();
        for (text, port_of, with_seven) in [
            (
                "/ip4/127.0.0.1/tcp/4001/ws",
                Some(4001),
                "/ip4/127.0.0.1/tcp/7/ws",
            ),
            ("/ip6/::/udp/1/quic-v1", Some(1), "/ip6/::/udp/7/quic-v1"),
            ("/dns4/relay.example", None, "/dns4/relay.example"),
        ] {
            assert_eq!(port(&address(text)), port_of);
            assert_eq!(with_port(&address(text), 7), address(with_seven));
        }
    }

    #[test]
    fn transports_are_known_by_their_parts() {
        for (text, behind) in [
            ("/tcp/1", Some(0)),
            ("/tcp/1/ws", Some(0)),
            ("/tcp/443/wss", Some(0)),
            ("/tcp/443/tls/ws", Some(0)),
            ("/tcp/443/tls/sni/relay.example/ws/p2p-circuit", Some(1)),
            ("/udp/1/quic-v1", Some(0)),
            ("/tcp/1/http", Some(1)),
            ("/tcp/443/tls", Some(1)),
            ("/tcp/0", None),
            ("/udp/0/quic-v1", None),
            ("/udp/1", None),
            ("/p2p-circuit", None),
        ] {
            let address: Multiaddr = text.parse().unwrap();
            let parts: Vec<_> = address.iter().collect();
            assert_eq!(behind_transport(&parts).map(<[_]>::len), behind, "{text}");
        }
    }
}
