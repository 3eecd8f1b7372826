//! What the handle adds to the registry: where relays are, and what is on disk.

use agentanycast_proto::v1::SkillInfo;

use super::*;
use crate::clock::HybridClock;

/// A handle on an empty registry whose entries live for so long.
fn handle(ttl: Duration, store: Option<Store>) -> Handle {
    let limits = RegistryLimits {
        ttl,
        ..RegistryLimits::default()
    };
    let registry = SkillRegistry::new("me", limits, HybridClock::default());
    Handle::new("me", registry, store, 0, Arc::default())
}

#[test]
fn a_relay_that_moves_is_known_where_it_is_now() {
    let handle = handle(Duration::from_secs(30), None);
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    handle.relay_is_at("one:1", [ip("192.0.2.1"), ip("::ffff:192.0.2.2")]);
    handle.relay_is_at("other:1", [ip("192.0.2.9")]);
    assert!(handle.knows_relay_at(ip("192.0.2.1")) && handle.knows_relay_at(ip("192.0.2.2")));
    handle.relay_is_at("one:1", [ip("2001:db8::1")]);
    assert!(handle.knows_relay_at(ip("2001:db8::1")) && handle.knows_relay_at(ip("192.0.2.9")));
    assert!(
        !handle.knows_relay_at(ip("192.0.2.1")),
        "somebody else may be there now"
    );
}

/// An agent of about a megabyte.
fn large(peer: &str) -> RegisteredAgent {
    let skill = |n: usize| SkillInfo {
        skill_id: n.to_string(),
        description: "x".repeat(4096),
        ..SkillInfo::default()
    };
    RegisteredAgent {
        peer: peer.to_owned(),
        skills: (0..240).map(skill).collect(),
        ..RegisteredAgent::default()
    }
}

#[tokio::test]
async fn what_has_expired_is_gone_from_the_disk_and_its_room_is_given_back() {
    // Twice what a store may be before it is looked at.
    const AGENTS: usize = 140;
    const AT_ONCE: usize = 20;
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap().store;
    let handle = handle(Duration::from_millis(1), Some(store.clone()));
    let (of_peer, clock) = (handle.clone(), handle.clone());
    let writer = store
        .run(
            move |peer| of_peer.stored(peer),
            Vec::new,
            move || clock.last_version(),
        )
        .unwrap();
    for n in 0..AGENTS {
        handle
            .register(large(&format!("p{n}")), RegistryCaller::default())
            .await
            .unwrap();
        if n % AT_ONCE == AT_ONCE - 1 {
            while handle.stats().local > 0 {
                handle.expire();
                tokio::task::yield_now().await;
            }
        }
    }
    assert_eq!(handle.stats(), RegistryStats::default());
    store.stop();
    writer.join().unwrap();
    drop((handle, store));
    let database = directory.path().join("registry/db");
    let size = std::fs::metadata(database).unwrap().len();
    assert!(size < 96 << 20, "{size} bytes for nobody");
    let opened = Store::open(directory.path()).unwrap();
    assert!(
        opened.records.is_empty(),
        "{} records of nobody",
        opened.records.len()
    );
}
