//! Where the client of a request thinks it is: what cards say of the bridge when nothing is configured. PURE.
//!
//! The one rule: a card is signed for a place that is known to be this bridge's, and for no other that somebody names.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::Request;
use http::{HeaderMap, HeaderValue, header, uri::Authority};

use crate::{
    client_connection::ClientConnection,
    refusal::{Refusal, RefusalKind},
};

/// Most that an error shows of a host, in characters.
const SHOWN: usize = 80;

/// Where a client thinks it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHost {
    authority: Authority,
    /// It is the address that the request came to.
    is_local_addr: bool,
}

impl RequestHost {
    /// That of a request: HTTP/1.1 says it in a header, HTTP/2 in the request line.
    ///
    /// # Errors
    /// When it says none, several, or something that is none.
    pub fn from_request(request: &Request) -> Result<Self, Refusal> {
        let here = request
            .extensions()
            .get::<ClientConnection>()
            .and_then(|peer| peer.local_addr);
        let mut named = request.headers().get_all(header::HOST).iter();
        let authority = match (request.uri().authority(), named.next()) {
            (Some(authority), _) => authority.as_str(),
            (None, Some(host)) => host.to_str().unwrap_or("?"),
            (None, None) => {
                return Err(wrong(
                    "Host is missing; send where the request goes, such as host:8090",
                ));
            }
        };
        if named.next().is_some() {
            return Err(wrong("Host is there more than once; send one"));
        }
        Self::read(authority, here).ok_or_else(|| {
            let shown: String = authority.chars().take(SHOWN).collect();
            wrong(format!(
                "Host must be a host, with its port if it has one, not {shown:?}"
            ))
        })
    }

    /// Of this text; `here` is the address that the request came to.
    fn read(text: &str, here: Option<SocketAddr>) -> Option<Self> {
        let authority: Authority = text.parse().ok()?;
        let host = authority.host();
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        // A port that is none is taken by the parser as long as nobody asks for it.
        let has_odd_port = authority.as_str().len() > host.len() && authority.port_u16().is_none();
        if host.is_empty() || has_odd_port || !host.bytes().all(legal) {
            return None;
        }
        let is_here = here.is_some_and(|here| is_at(&authority, here));
        Some(Self {
            authority,
            is_local_addr: is_here,
        })
    }

    /// `HOST` or `HOST:PORT`, as the client named it.
    pub fn as_str(&self) -> &str {
        self.authority.as_str()
    }

    /// Whether the host that headers name is one of this host alone: an address, `localhost`, or a name without a dot. A page's own
    /// domain may lead here, and what a proxy passes on has the name of a site.
    pub(crate) fn names_this_host(headers: &HeaderMap) -> bool {
        let is_of_this_host = |host: &HeaderValue| {
            let host = host.to_str().ok().and_then(|host| Self::read(host, None));
            host.is_some_and(|host| host.is_literal() || !host.authority.host().contains('.'))
        };
        headers.get_all(header::HOST).iter().all(is_of_this_host)
    }

    /// Whether the client named the address that it has reached, and no name that somebody may have led here.
    pub fn is_here(&self) -> bool {
        self.is_local_addr
    }

    /// Whether it is an address and no name that somebody else may have given it.
    pub fn is_literal(&self) -> bool {
        is_localhost(self.authority.host()) || literal(self.authority.host()).is_some()
    }

    /// Whether it is a name that nobody outside can have: one without a dot, or below a domain that is kept for this use
    /// (RFC 6761 §6.3, ICANN's reservation of `internal`, RFC 8375).
    pub fn is_unregistrable(&self) -> bool {
        let host = self.authority.host().trim_end_matches('.').to_ascii_lowercase();
        let kept = [".localhost", ".internal", ".home.arpa"];
        !host.contains('.') || kept.iter().any(|domain| host.ends_with(domain))
    }
}

fn wrong(text: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Invalid, text)
}

fn is_localhost(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
}

fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(inside) => inside.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// Whether somebody who names this has named the address `here`. Without a port it is that of HTTP or HTTPS.
fn is_at(authority: &Authority, here: SocketAddr) -> bool {
    let same_port = match authority.port_u16() {
        Some(port) => port == here.port(),
        None => matches!(here.port(), 80 | 443),
    };
    let ip = here.ip().to_canonical();
    let same_host = match literal(authority.host()) {
        Some(named) => named.to_canonical() == ip,
        None => is_localhost(authority.host()) && ip.is_loopback(),
    };
    same_port && same_host
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_here(text: &str, here: &str) -> bool {
        RequestHost::read(text, Some(here.parse().unwrap()))
            .unwrap()
            .is_here()
    }

    #[test]
    fn only_the_address_that_was_reached_is_here() {
        for (text, here, expected) in [
            ("127.0.0.1:8090", "127.0.0.1:8090", true),
            ("localhost:8090", "127.0.0.1:8090", true),
            ("LocalHost:8090", "[::1]:8090", true),
            ("[::1]:8090", "[::1]:8090", true),
            ("192.0.2.7:8090", "[::ffff:192.0.2.7]:8090", true),
            ("192.0.2.7", "192.0.2.7:80", true),
            ("127.0.0.1:8091", "127.0.0.1:8090", false),
            ("127.0.0.1", "127.0.0.1:8090", false),
            ("192.0.2.8:8090", "192.0.2.7:8090", false),
            ("localhost:8090", "192.0.2.7:8090", false),
            ("evil.example:8090", "127.0.0.1:8090", false),
            ("localhost.evil.example:8090", "127.0.0.1:8090", false),
            ("127.0.0.1.evil.example:8090", "127.0.0.1:8090", false),
        ] {
            assert_eq!(is_here(text, here), expected, "{text} {here}");
        }
        assert!(!RequestHost::read("127.0.0.1:8090", None).unwrap().is_here());
    }

    #[test]
    fn a_name_that_somebody_can_have_registered_is_somebodys() {
        let is_nobodys = |text| RequestHost::read(text, None).unwrap().is_unregistrable();
        for name in [
            "bridge:8090",
            "my-node",
            "a.localhost",
            "A.Internal:1",
            "n.home.arpa.",
        ] {
            assert!(is_nobodys(name), "{name}");
        }
        for name in [
            "evil.example",
            "localhost.evil.example",
            "evil.example.",
            "xinternal.example",
            "a.local",
        ] {
            assert!(!is_nobodys(name), "{name}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for bad in [
            "",
            ":8090",
            "a b",
            "user@host",
            "host:port",
            "host:",
            "host:99999",
            "a/b",
            "a,b",
            "a%41",
            "a\"b",
            "?",
        ] {
            assert_eq!(RequestHost::read(bad, None), None, "{bad:?}");
        }
        for good in ["bridge", "a.example.org:1", "10.0.0.1", "[::1]", "my_host:80"] {
            assert!(RequestHost::read(good, None).is_some(), "{good}");
        }
    }

    proptest! {
        /// Whatever is taken can stand in a URL as it is, and is where that URL leads.
        #[test]
        fn what_is_taken_is_part_of_a_url(text in "[a-z0-9.:@/\\[\\]%#? _-]{0,20}") {
            if let Some(host) = RequestHost::read(&text, None) {
                let url: http::Uri = format!("http://{}/x", host.as_str()).parse().unwrap();
                prop_assert_eq!(url.path(), "/x");
                prop_assert_eq!(url.authority().unwrap().as_str(), text);
            }
        }
    }
}
