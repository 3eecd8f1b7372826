//! Names of hosts, looked up without a thread: that of a host whose name servers do not answer would be held for as long
//! as that takes, and threads are few.
//!
//! As the system is set up at the moment: `/etc/resolv.conf` and `/etc/hosts` are read each time, since a machine goes from
//! one network to the next.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use agentanycast_daemon_kit::resolver;
use hickory_resolver::config::LookupIpStrategy;

/// How long one name server may take.
const SERVER_WITHIN: Duration = Duration::from_secs(3);

/// The addresses of a host, those of IPv4 first.
pub(super) async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    #[cfg(any(test, feature = "test-names"))]
    if let Some(address) = led::to(host) {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let resolver = resolver::of_system(|options| {
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.timeout = SERVER_WITHIN;
        options.attempts = 2;
        options.cache_size = 0;
    })
    .map_err(io::Error::other)?;
    let found = resolver.lookup_ip(host).await.map_err(|error| {
        if error.is_nx_domain() || error.is_no_records_found() {
            io::Error::new(io::ErrorKind::NotFound, "there is no such host")
        } else {
            io::Error::other(error)
        }
    })?;
    Ok(found
        .iter()
        .map(|address| SocketAddr::new(address, port))
        .collect())
}

/// Names that lead where a test says, in its thread.
#[cfg(any(test, feature = "test-names"))]
pub mod led {
    use std::{cell::RefCell, collections::HashMap, net::IpAddr};

    thread_local! {
        static LED: RefCell<HashMap<String, IpAddr>> = RefCell::default();
    }

    /// From now on the name leads there.
    #[allow(clippy::expect_used, reason = "a test fails by a panic")]
    pub fn set_address(host: &str, address: &str) {
        LED.with_borrow_mut(|led| {
            led.insert(host.to_owned(), address.parse().expect("a test names an address"))
        });
    }

    pub(super) fn to(host: &str) -> Option<IpAddr> {
        LED.with_borrow(|led| led.get(host).copied())
    }
}
