//! Whether the names in the settings can be looked up.

use std::{collections::BTreeSet, time::Duration};

use agentanycast_node::config::Config;
use futures::future::join_all;

use super::{facts::DoctorFacts, finding::Finding};

const CHECK: &str = "names";

/// How long a name may take.
const LIMIT: Duration = Duration::from_secs(6);

pub(super) async fn check(facts: &DoctorFacts) -> Vec<Finding> {
    let Some(config) = facts.config() else {
        return Vec::new();
    };
    let names = names(config);
    if names.is_empty() {
        return vec![Finding::good(
            CHECK,
            "the settings have none that would have to be looked up",
        )];
    }
    let failed: Vec<String> = join_all(names.iter().map(|name| look_up(name)))
        .await
        .into_iter()
        .flatten()
        .collect();
    if failed.is_empty() {
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        return vec![Finding::good(
            CHECK,
            format!("{} can be looked up", all.join(", ")),
        )];
    }
    let advice = if failed.len() == names.len() {
        "is there a name server? Look at /etc/resolv.conf, and try `getent hosts NAME`; or give relays and registries by their IP addresses"
    } else {
        "put the name right in the settings, or ask whoever runs that host"
    };
    vec![Finding::problem(
        CHECK,
        format!("cannot be looked up: {}", failed.join("; ")),
        advice,
    )]
}

/// Why a name cannot be looked up; None: it can.
async fn look_up(name: &str) -> Option<String> {
    let looked = tokio::time::timeout(LIMIT, tokio::net::lookup_host((name, 0))).await;
    match looked {
        Ok(Ok(mut addresses)) => addresses
            .next()
            .is_none()
            .then(|| format!("{name}: it has no address")),
        Ok(Err(error)) => Some(format!("{name}: {error}")),
        Err(_) => Some(format!("{name}: no answer within {} s", LIMIT.as_secs())),
    }
}

/// The names of hosts in the settings.
fn names(config: &Config) -> BTreeSet<String> {
    let peers = config
        .bootstrap_peers
        .iter()
        .filter_map(|address| host_name(&address.to_string()));
    let registries = registries(config).filter_map(|registry| host_of(registry).map(str::to_owned));
    let is_name = |host: &String| host.parse::<std::net::IpAddr>().is_err();
    peers.chain(registries.filter(is_name)).collect()
}

fn registries(config: &Config) -> impl Iterator<Item = &str> {
    let one = Some(config.anycast.registry_addr.as_str()).filter(|one| !one.is_empty());
    one.into_iter()
        .chain(config.anycast.registry_addrs.iter().map(String::as_str))
}

/// The name in a multiaddr; `/dnsaddr` is not a name of a host.
fn host_name(address: &str) -> Option<String> {
    let mut parts = address.split('/').skip(1);
    let kind = parts.next()?;
    matches!(kind, "dns" | "dns4" | "dns6").then(|| parts.next().map(str::to_owned))?
}

/// The host in `HOST:PORT`, with or without a scheme before it.
fn host_of(registry: &str) -> Option<&str> {
    let bare = registry.split_once("://").map_or(registry, |(_, rest)| rest);
    let bare = bare.split('/').next()?;
    let host = bare.rsplit_once(':').map_or(bare, |(host, _)| host);
    Some(host.trim_matches(['[', ']'])).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_out_of_addresses() {
        assert_eq!(
            host_name("/dns4/relay.example/tcp/4001/p2p/x").as_deref(),
            Some("relay.example")
        );
        assert_eq!(host_name("/ip4/192.0.2.1/tcp/4001"), None);
        assert_eq!(host_name("/dnsaddr/relay.example"), None);
        assert_eq!(host_of("relay.example:50052"), Some("relay.example"));
        assert_eq!(host_of("http://relay.example:50052/"), Some("relay.example"));
        assert_eq!(host_of("[2001:db8::1]:50052"), Some("2001:db8::1"));
    }
}
