use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use libp2p_identity::ed25519;
use multibase::Base;
use proptest::prelude::*;

use super::*;
use crate::{did::peer_of_multikey, document_of};

const NOW: u64 = 1_700_000_000_000;
const DAY: u64 = 24 * 3600 * 1000;
const BOTH: [Suite; 2] = [Suite::EddsaJcs2022, Suite::Ed25519Signature2020];

fn grant(key: &Keypair) -> Grant {
    Grant {
        id: "urn:uuid:5f0f4a6e-2d6b-4a55-9bb5-3d0cf3bfa2a1".into(),
        issuer: did_key_of(peer_id(key)).unwrap(),
        subject: "did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH".into(),
        capabilities: vec!["translate".into(), "a < b & c".into()],
        from_ms: NOW,
        until_ms: Some(NOW + DAY),
        status: None,
    }
}

fn read(document: &Value) -> Result<Credential, CredentialError> {
    Credential::read(document.to_string().as_bytes())
}

fn check(document: &Value, now: u64) -> Result<Credential, CredentialError> {
    let credential = read(document)?;
    credential.check(&issuer_keys(&credential.grant().issuer, None), now)?;
    Ok(credential)
}

#[test]
fn what_was_signed_is_read_and_holds() {
    for suite in BOTH {
        let key = Keypair::generate_ed25519();
        let document = grant(&key).sign(&key, suite, NOW).unwrap();
        let credential = check(&document, NOW).unwrap();
        assert_eq!(credential.grant(), &grant(&key));
        assert_eq!(credential.suite(), suite);
    }
}

#[test]
fn a_change_anywhere_is_noticed() {
    for suite in BOTH {
        let key = Keypair::generate_ed25519();
        let document = grant(&key).sign(&key, suite, NOW).unwrap();
        let changes: [(&str, Value); 6] = [
            ("/credentialSubject/id", "did:key:z6Mkother".into()),
            ("/credentialSubject/capabilities/0", "everything".into()),
            ("/id", "urn:uuid:0".into()),
            ("/type/0", "X".into()),
            ("/@context/0", "https://example.org".into()),
            ("/proof/proofPurpose", "authentication".into()),
        ];
        for (at, value) in changes {
            let mut changed = document.clone();
            *changed.pointer_mut(at).unwrap() = value;
            assert!(check(&changed, NOW).is_err(), "{suite}: {at}");
        }
        let mut added = document.clone();
        added["evidence"] = "x".into();
        assert_eq!(check(&added, NOW), Err(ProofError::Wrong.into()), "{suite}");
        // The new suite covers what the proof says of itself.
        let mut redated = document.clone();
        redated["proof"]["created"] = "2020-01-01T00:00:00Z".into();
        assert_eq!(check(&redated, NOW).is_ok(), suite == Suite::Ed25519Signature2020);
    }
}

#[test]
fn nobody_signs_for_another() {
    for suite in BOTH {
        let [key, other] = [(); 2].map(|()| Keypair::generate_ed25519());
        assert!(grant(&key).sign(&other, suite, NOW).is_err());
        // By its own key, under the other's name.
        let mut forged = grant(&other).sign(&other, suite, NOW).unwrap();
        forged["issuer"] = grant(&key).issuer.into();
        assert!(matches!(
            check(&forged, NOW),
            Err(CredentialError::Proof(ProofError::OtherKey { .. }))
        ));
        forged["proof"]["verificationMethod"] = key_url_of(peer_id(&key)).into();
        assert_eq!(check(&forged, NOW), Err(ProofError::Wrong.into()));
    }
}

#[test]
fn it_counts_in_its_time_only() {
    for suite in BOTH {
        let key = Keypair::generate_ed25519();
        let document = grant(&key).sign(&key, suite, NOW).unwrap();
        assert!(check(&document, NOW - SKEW_MS).is_ok() && check(&document, NOW + DAY - 1).is_ok());
        assert!(matches!(
            check(&document, NOW + DAY),
            Err(CredentialError::Expired(_))
        ));
        assert!(check(&document, NOW - SKEW_MS - 1000).is_err());
        let endless = Grant {
            until_ms: None,
            ..grant(&key)
        };
        let document = endless.sign(&key, suite, NOW).unwrap();
        assert!(check(&document, NOW + 10_000 * DAY).is_ok());
    }
}

#[test]
fn an_issuer_by_the_web_signs_with_the_keys_of_its_document() {
    let [key, other] = [(); 2].map(|()| Keypair::generate_ed25519());
    let did = "did:web:issuer.example";
    let grant = Grant {
        issuer: did.into(),
        ..grant(&key)
    };
    let credential = read(&grant.sign(&key, Suite::EddsaJcs2022, NOW).unwrap()).unwrap();
    for (owner, holds) in [(&key, true), (&other, false)] {
        let document = document_of(did, peer_id(owner), None).unwrap().to_string();
        let document = Document::read(did, document.as_bytes()).unwrap();
        let keys = issuer_keys(did, Some(&document));
        assert_eq!(keys.len(), 1);
        assert_eq!(credential.check(&keys, NOW).is_ok(), holds);
    }
    assert!(credential.check(&issuer_keys(did, None), NOW).is_err());
}

/// W3C Data Integrity EdDSA Cryptosuites 1.0, appendix B.2: key, document, proof.
#[test]
fn the_published_vector_of_eddsa_jcs_2022_holds() {
    let name = "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2";
    let (_, secret) = multibase::decode("z3u2en7t5LR2WtQH5PfFqMqwVHBeXouLzo6haApm8XHqvjxq").unwrap();
    let mut seed: [u8; 32] = secret.strip_prefix(&[0x80, 0x26]).unwrap().try_into().unwrap();
    let secret = ed25519::SecretKey::try_from_bytes(&mut seed).unwrap();
    let key: Keypair = ed25519::Keypair::from(secret).into();
    assert_eq!(multikey_of(peer_id(&key)).unwrap(), name);
    let method = format!("did:key:{name}#{name}");
    let document = json!({
        "@context": ["https://www.w3.org/ns/credentials/v2", "https://www.w3.org/ns/credentials/examples/v2"],
        "id": "urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33",
        "type": ["VerifiableCredential", "AlumniCredential"],
        "name": "Alumni Credential",
        "description": "A minimum viable example of an Alumni Credential.",
        "issuer": "https://vc.example/issuers/5678",
        "validFrom": "2023-01-01T00:00:00Z",
        "credentialSubject": {"id": "did:example:abcdefgh", "alumniOf": "The School of Examples"},
    });
    let created = time_of("2023-02-24T23:36:38Z").unwrap();
    let mut signed = document.clone();
    proof::sign(&mut signed, &key, &method, Suite::EddsaJcs2022, created).unwrap();
    assert_eq!(
        signed["proof"],
        json!({
            "type": "DataIntegrityProof",
            "cryptosuite": "eddsa-jcs-2022",
            "created": "2023-02-24T23:36:38Z",
            "verificationMethod": method,
            "proofPurpose": "assertionMethod",
            "@context": document["@context"],
            "proofValue":
                "z2HnFSSPPBzR36zdDgK8PbEHeXbR56YF24jwMpt3R1eHXQzJDMWS93FCzpvJpwTWd3GAVFuUfjoJdcnTMuVor51aX",
        })
    );
    let keys = vec![(method, peer_of_multikey(name).unwrap())];
    proof::check(&signed, "x", &keys, NOW).unwrap();
}

/// What a deployed node signs: the JSON of the document with sorted names, as Go writes it.
#[test]
fn the_deployed_form_is_sorted_json_with_html_escaped() {
    let key = Keypair::generate_ed25519();
    let document = grant(&key).sign(&key, Suite::Ed25519Signature2020, NOW).unwrap();
    let issuer = grant(&key).issuer;
    let signed = format!(
        "{{\"@context\":[\"{V1}\"],\"credentialSubject\":{{\"capabilities\":[\"translate\",\"a \\u003c b \\u0026 c\"],\
         \"id\":\"did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH\"}},\
         \"expirationDate\":\"2023-11-15T22:13:20Z\",\"id\":\"urn:uuid:5f0f4a6e-2d6b-4a55-9bb5-3d0cf3bfa2a1\",\
         \"issuanceDate\":\"2023-11-14T22:13:20Z\",\"issuer\":\"{issuer}\",\
         \"type\":[\"VerifiableCredential\",\"AgentCapabilityCredential\"]}}"
    );
    let value = document["proof"]["proofValue"].as_str().unwrap();
    let (_, signature) = multibase::decode(value).unwrap();
    assert!(key.public().verify(signed.as_bytes(), &signature));
    // Signed without the escapes it holds too.
    let mut other = document.clone();
    let plain = signed.replace("\\u003c", "<").replace("\\u0026", "&");
    let signature = key.sign(plain.as_bytes()).unwrap();
    other["proof"]["proofValue"] = multibase::encode(Base::Base58Btc, &signature).into();
    check(&other, NOW).unwrap();
}

fn entry(index: usize) -> StatusEntry {
    StatusEntry {
        list: "https://issuer.example/status/1".into(),
        index,
        purpose: "revocation".into(),
    }
}

#[test]
fn what_was_taken_back_does_not_count() {
    let key = Keypair::generate_ed25519();
    let issuer = did_key_of(peer_id(&key)).unwrap();
    let keys = issuer_keys(&issuer, None);
    let mut list = StatusList::new("revocation");
    assert!(list.set(7) && list.set(131_071) && !list.set(131_072));
    let signed = list.sign(&entry(0).list, &issuer, &key, NOW, DAY).unwrap();
    let bytes = signed.to_string();
    let read = StatusList::read(bytes.as_bytes(), &issuer, &keys, NOW).unwrap();
    for (index, is_set) in [(0, false), (6, false), (7, true), (8, false), (131_071, true)] {
        let answer = read.check(&entry(index));
        assert_eq!(
            matches!(answer, Err(StatusError::TakenBack(_))),
            is_set,
            "{index}"
        );
        assert_eq!(answer.is_ok(), !is_set);
    }
    assert!(matches!(read.check(&entry(131_072)), Err(StatusError::NotOne(_))));
    // Another list of the same issuer, shown in its place, takes nothing back.
    let elsewhere = StatusEntry {
        list: format!("{}/other", entry(0).list),
        ..entry(0)
    };
    assert!(matches!(read.check(&elsewhere), Err(StatusError::NotOne(_))));
    let suspension = StatusEntry {
        purpose: "suspension".into(),
        ..entry(0)
    };
    assert!(matches!(read.check(&suspension), Err(StatusError::NotOne(_))));
    assert_eq!(
        StatusList::read(bytes.as_bytes(), &issuer, &keys, NOW + DAY),
        Err(StatusError::NotNow)
    );
    // Another one's list says nothing of this issuer's credentials.
    let other = Keypair::generate_ed25519();
    let other_did = did_key_of(peer_id(&other)).unwrap();
    let foreign = list.sign(&entry(0).list, &other_did, &other, NOW, DAY).unwrap();
    assert!(StatusList::read(foreign.to_string().as_bytes(), &issuer, &keys, NOW).is_err());
    let mut changed = signed.clone();
    changed["credentialSubject"]["encodedList"] = StatusList::new("revocation")
        .sign("x:y", &issuer, &key, NOW, DAY)
        .unwrap()["credentialSubject"]["encodedList"]
        .clone();
    let read = StatusList::read(changed.to_string().as_bytes(), &issuer, &keys, NOW);
    assert_eq!(read, Err(ProofError::Wrong.into()));
}

#[test]
fn a_list_cannot_unfold_without_bound() {
    use std::io::Write as _;
    let key = Keypair::generate_ed25519();
    let issuer = did_key_of(peer_id(&key)).unwrap();
    let keys = issuer_keys(&issuer, None);
    for (bytes, fits) in [
        (16 << 10, true),
        (1 << 20, true),
        (100, false),
        ((1 << 20) + 1, false),
        (64 << 20, false),
    ] {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&vec![0; bytes]).unwrap();
        let mut document = json!({
            "@context": [V2], "type": ["VerifiableCredential", "BitstringStatusListCredential"], "issuer": issuer,
            "credentialSubject": {"type": "BitstringStatusList", "statusPurpose": "revocation",
                "encodedList": format!("u{}", URL_SAFE_NO_PAD.encode(packed.finish().unwrap()))},
        });
        let method = key_url_of(peer_id(&key)).unwrap();
        proof::sign(&mut document, &key, &method, Suite::EddsaJcs2022, NOW).unwrap();
        let read = StatusList::read(document.to_string().as_bytes(), &issuer, &keys, NOW);
        assert_eq!(read.is_ok(), fits, "{bytes}");
    }
}

#[test]
fn a_status_that_cannot_be_checked_is_no_credential() {
    let key = Keypair::generate_ed25519();
    let with = Grant {
        status: Some(entry(3)),
        ..grant(&key)
    };
    let document = with.sign(&key, Suite::EddsaJcs2022, NOW).unwrap();
    assert_eq!(check(&document, NOW).unwrap().grant().status, Some(entry(3)));
    for (name, value) in [
        ("type", json!("RevocationList2020Status")),
        ("statusListCredential", json!("http://issuer.example/1")),
        ("statusListIndex", json!("-1")),
        ("statusListIndex", json!("99999999999999999999")),
        ("statusPurpose", json!("message")),
    ] {
        let mut document = document.clone();
        document["credentialStatus"][name] = value;
        assert!(
            matches!(read(&document), Err(CredentialError::NotOne(_))),
            "{name}"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Credential::read(&bytes);
        let _ = StatusList::read(&bytes, "did:key:x", &Vec::new(), NOW);
    }

    /// Whatever a field of a signed credential becomes, it is refused or says the same.
    #[test]
    fn no_changed_field_holds(
        at in 0..12_usize, value in prop_oneof![".{0,20}".prop_map(Value::from), any::<u32>().prop_map(Value::from),
            Just(json!([])), Just(json!({})), Just(Value::Null)],
    ) {
        let key = Keypair::ed25519_from_bytes([7; 32]).unwrap();
        let with = Grant { status: Some(entry(3)), ..grant(&key) };
        let mut document = with.sign(&key, Suite::EddsaJcs2022, NOW).unwrap();
        let places = ["/@context", "/type", "/issuer", "/id", "/validFrom", "/validUntil", "/credentialSubject",
            "/credentialStatus", "/proof", "/proof/proofValue", "/proof/verificationMethod", "/proof/created"];
        let place = document.pointer_mut(places[at]).unwrap();
        prop_assume!(*place != value);
        *place = value;
        prop_assert!(check(&document, NOW).is_err());
    }
}
