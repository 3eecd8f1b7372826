//! Proofs that another relay brings: those that hold, and every way to bend them.

use agentanycast_identity::{Keypair, peer_id};
use agentanycast_proto::v1::SkillInfo;

use super::*;

const NOW: Nanos = 1_800_000_000 * SECOND;
const NOW_MS: u64 = NOW / 1_000_000;
const TTL: Duration = Duration::from_secs(30);
const ORIGIN: &str = "relay-b";

struct SigningPeer {
    key: Keypair,
    id: String,
}

impl SigningPeer {
    fn new() -> Self {
        let key = Keypair::generate_ed25519();
        let id = peer_id(&key).to_string();
        Self { key, id }
    }

    fn proof(&self, method: &str, request: &impl prost::Message, time_ms: u64) -> RegistryProof {
        let request = request.encode_to_vec();
        let statement = Statement {
            method,
            request: &request,
            relay: ORIGIN,
            time_ms,
        };
        let signature = statement.sign(&self.key).unwrap();
        RegistryProof {
            method: method.into(),
            request,
            signature,
            time_ms,
        }
    }

    fn register(&self, skills: &[&str], time_ms: u64) -> RegistryProof {
        let skills = skills.iter().map(|id| SkillInfo {
            skill_id: (*id).into(),
            ..SkillInfo::default()
        });
        let request = RegisterSkillsRequest {
            peer_id: self.id.clone(),
            skills: skills.collect(),
            ..RegisterSkillsRequest::default()
        };
        self.proof(REGISTER, &request, time_ms)
    }

    fn unregister(&self, skills: &[&str], time_ms: u64) -> RegistryProof {
        let skill_ids = skills.iter().map(ToString::to_string).collect();
        self.proof(
            UNREGISTER,
            &UnregisterSkillsRequest {
                peer_id: self.id.clone(),
                skill_ids,
            },
            time_ms,
        )
    }

    fn heartbeat(&self, time_ms: u64) -> RegistryProof {
        self.proof(
            HEARTBEAT,
            &HeartbeatRequest {
                peer_id: self.id.clone(),
                ..HeartbeatRequest::default()
            },
            time_ms,
        )
    }

    fn read_with(&self, proofs: Vec<RegistryProof>) -> RemoteRecord {
        read_record(FederatedRegistration {
            proofs,
            ..self.bare()
        })
    }

    fn bare(&self) -> FederatedRegistration {
        FederatedRegistration {
            peer_id: self.id.clone(),
            origin_relay_id: ORIGIN.into(),
            skills: vec![SkillInfo {
                skill_id: "claimed".into(),
                ..SkillInfo::default()
            }],
            version: 5,
            remaining_ms: 1000,
            ..FederatedRegistration::default()
        }
    }
}

fn read_record(told: FederatedRegistration) -> RemoteRecord {
    RemoteRecord::from_registration(told, NOW, TTL, RecordSender::default())
}

fn skills(incoming: &RemoteRecord) -> Vec<&str> {
    incoming
        .agent
        .skills
        .iter()
        .map(|skill| skill.skill_id.as_str())
        .collect()
}

#[test]
fn a_signed_registration_of_too_many_parts_proves_nothing() {
    let peer = SigningPeer::new();
    let ids: Vec<String> = (0..MAX_REGISTRATION_ELEMENTS).map(|n| n.to_string()).collect();
    let mut ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert_eq!(
        peer.read_with(vec![peer.register(&ids, NOW_MS)]).proven_ms,
        NOW_MS
    );
    ids.push("one more");
    assert_eq!(peer.read_with(vec![peer.register(&ids, NOW_MS)]).proven_ms, 0);
}

#[test]
fn what_the_peer_signed_counts_and_not_what_the_relay_says() {
    let peer = SigningPeer::new();
    let proofs = vec![
        peer.register(&["a", "b"], NOW_MS),
        peer.unregister(&["b"], NOW_MS + 1),
        peer.heartbeat(NOW_MS + 2),
    ];
    let incoming = peer.read_with(proofs.clone());
    assert_eq!(
        (skills(&incoming), incoming.proven_ms, incoming.over),
        (vec!["a"], NOW_MS + 2, false)
    );
    assert_eq!(incoming.proofs, proofs);
    assert_eq!(incoming.life, SECOND);
}

#[test]
fn the_end_is_proven_too() {
    let peer = SigningPeer::new();
    let incoming = peer.read_with(vec![peer.unregister(&[], NOW_MS)]);
    assert!(incoming.over && incoming.proven_ms == NOW_MS);
    let all_of_it = peer.read_with(vec![
        peer.register(&["a"], NOW_MS),
        peer.unregister(&["a"], NOW_MS + 1),
    ]);
    assert!(all_of_it.over && all_of_it.proven_ms == NOW_MS + 1);
}

#[test]
fn bent_proofs_prove_nothing() {
    let (peer, other) = (SigningPeer::new(), SigningPeer::new());
    let good = peer.register(&["a"], NOW_MS);
    let bent = [
        vec![RegistryProof {
            time_ms: NOW_MS + 1,
            ..good.clone()
        }],
        vec![RegistryProof {
            method: UNREGISTER.into(),
            ..good.clone()
        }],
        vec![RegistryProof {
            request: other.register(&["a"], NOW_MS).request,
            ..good.clone()
        }],
        vec![other.register(&["a"], NOW_MS)],
        // Of a part of a registration, without the registration.
        vec![peer.unregister(&["a"], NOW_MS)],
        vec![peer.heartbeat(NOW_MS)],
        // Backwards, twice, too many.
        vec![good.clone(), peer.heartbeat(NOW_MS - 1)],
        vec![good.clone(), good.clone()],
        vec![good.clone(); MAX_PROOFS + 1],
        // After the end.
        vec![good.clone(), peer.unregister(&[], NOW_MS), peer.heartbeat(NOW_MS)],
        // Stolen an hour ago.
        vec![peer.register(&["a"], NOW_MS - 3_600_000)],
    ];
    for proofs in bent {
        let incoming = peer.read_with(proofs.clone());
        assert!(
            incoming.proven_ms == 0 && incoming.proofs.is_empty() && !incoming.over,
            "{proofs:?}"
        );
        assert_eq!(skills(&incoming), ["claimed"]);
    }
    let elsewhere = FederatedRegistration {
        proofs: vec![good],
        origin_relay_id: "relay-c".into(),
        ..peer.bare()
    };
    assert_eq!(read_record(elsewhere).proven_ms, 0);
}

fn rotation(by: &Rotation) -> RegistryProof {
    RegistryProof {
        method: KEY_ROTATION.into(),
        request: by.to_bytes(),
        time_ms: by.at_ms(),
        ..RegistryProof::default()
    }
}

#[test]
fn a_change_of_keys_ends_what_the_old_one_registered() {
    let (peer, next) = (SigningPeer::new(), SigningPeer::new());
    let by = Rotation::sign(&peer.key, &next.key, NOW_MS - 1000).unwrap();
    for origin_relay_id in [ORIGIN, "relay-c"] {
        let incoming = read_record(FederatedRegistration {
            proofs: vec![rotation(&by)],
            origin_relay_id: origin_relay_id.into(),
            ..peer.bare()
        });
        assert!(incoming.over && incoming.proven_ms == NOW_MS - 1000 && incoming.proofs.len() == 1);
    }
    let month_ago = Rotation::sign(&peer.key, &next.key, NOW_MS - 31 * 24 * 3_600_000).unwrap();
    let another = Rotation::sign(&next.key, &SigningPeer::new().key, NOW_MS).unwrap();
    let mut changed = rotation(&by);
    changed.request[100] ^= 1;
    let bent = [
        vec![rotation(&month_ago)],
        vec![rotation(&another)],
        vec![changed],
        vec![RegistryProof {
            time_ms: NOW_MS,
            ..rotation(&by)
        }],
        // Whoever signs after it is not gone.
        vec![rotation(&by), peer.heartbeat(NOW_MS)],
        vec![peer.register(&["a"], NOW_MS - 2000), rotation(&by)],
    ];
    for proofs in bent {
        let incoming = peer.read_with(proofs.clone());
        assert!(!incoming.over && incoming.proven_ms == 0, "{proofs:?}");
    }
    // To the new one nothing happens.
    let incoming = next.read_with(vec![rotation(&by)]);
    assert!(!incoming.over && incoming.proven_ms == 0);
}

#[test]
fn deployed_relays_are_understood() {
    let peer = SigningPeer::new();
    let told = FederatedRegistration {
        remaining_ms: 0,
        expires_at: Some(crate::registry::timestamp(NOW + 7 * SECOND)),
        ..peer.bare()
    };
    let incoming = read_record(told.clone());
    assert_eq!(
        (incoming.life, incoming.version, incoming.over),
        (7 * SECOND, 5, false)
    );
    let past = FederatedRegistration {
        expires_at: Some(crate::registry::timestamp(NOW - 1)),
        ..told
    };
    assert_eq!(read_record(past).life, 0);
}
