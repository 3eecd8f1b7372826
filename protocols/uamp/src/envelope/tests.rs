use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::jws::{SignatureForm, SigningIdentity, hash_payload};

const NOW: i64 = 1_752_154_625_000;

fn identities() -> [SigningIdentity; 2] {
    [
        SigningIdentity::from_ed25519(&[7; 32]),
        SigningIdentity::from_p256(&[7; 32]).unwrap(),
    ]
}

fn draft() -> EnvelopeDraft {
    let body = EnvelopeBody::text("text/plain", "2+2");
    EnvelopeDraft::new(Intent::Ask, vec!["did:web:calc.example".to_owned()], body, NOW)
}

fn read(bytes: &[u8]) -> Result<Envelope, UampError> {
    Envelope::read(bytes, 1 << 20)
}

fn field_of(object: &Value) -> String {
    match read(object.to_string().as_bytes()) {
        Err(UampError::Field { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_signed_is_read_and_verified() {
    for identity in identities() {
        for form in [SignatureForm::Detached, SignatureForm::Attached] {
            let mut draft = draft()
                .with_reply_to(EnvelopeId::random())
                .with_stream_id("str-ä");
            draft.delta_window = Some(2);
            draft.context = vec![ContextItem {
                id: EnvelopeId::random(),
                hash: format!("sha256:{}", "0".repeat(64)),
            }];
            draft
                .ext
                .insert("x-trace".to_owned(), json!({ "n": [1.5, -0.0, "😀"] }));
            let bytes = draft.sign_to_bytes(&identity, form).unwrap();
            let envelope = read(&bytes).unwrap();
            envelope.verify(&identity.verification_key()).unwrap();
            assert_eq!((envelope.id(), envelope.time_ms()), (draft.id, NOW));
            assert_eq!(
                (envelope.from(), envelope.to()),
                (identity.did(), draft.to.as_slice())
            );
            assert_eq!(envelope.stream_id(), Some("str-ä"));
            assert_eq!(
                (envelope.reply_to(), envelope.context()),
                (draft.reply_to, draft.context.as_slice())
            );
            assert_eq!(envelope.delta_window(), 2);
            let other = SigningIdentity::from_ed25519(&[8; 32]).verification_key();
            let refused = envelope.verify(&other).unwrap_err();
            assert_eq!(refused.code(), Some(UampCode::Unauthenticated));
        }
    }
}

#[test]
fn members_of_others_are_covered_by_the_signature() {
    let identity = &identities()[0];
    let mut object = draft().sign(identity, SignatureForm::Detached).unwrap();
    object["body"]["pages"] = json!(3);
    let envelope = read(Value::Object(object).to_string().as_bytes()).unwrap();
    assert!(
        envelope.verify(&identity.verification_key()).is_err(),
        "a member was added"
    );
    // The hash of uamp-js does not see it.
    let mut object = envelope.object().clone();
    object.remove("sig");
    let payload = hash_payload(&allow_list_hash(&object).unwrap());
    let sig = crate::jws::sign(identity, &payload, SignatureForm::Attached, None);
    object.insert("sig".to_owned(), sig.into());
    object["body"]["content"] = json!("other");
    let envelope = read(Value::Object(object).to_string().as_bytes()).unwrap();
    let key = identity.verification_key();
    assert!(envelope.verify(&key).is_err());
    envelope.verify_allow_list(&key).unwrap();
}

#[test]
fn ids_are_uuids_of_version_4() {
    let id = EnvelopeId::random();
    let text = id.to_string();
    assert!(text.starts_with("urn:uuid:"));
    assert_eq!(EnvelopeId::parse(&text), Some(id));
    assert_eq!(EnvelopeId::parse(&text.to_ascii_uppercase()), Some(id));
    assert_eq!(EnvelopeId::parse(&text["urn:uuid:".len()..]), Some(id));
    for bad in [
        "urn:uuid:1111",
        "urn:uuid:imgreq",
        "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "{936da01f-9abd-4d9d-80c7-02af85c822a8}",
        "936da01f9abd4d9d80c702af85c822a8",
        "",
    ] {
        assert_eq!(EnvelopeId::parse(bad), None, "{bad}");
    }
}

#[test]
fn each_field_has_its_rule() {
    let good = Value::Object(draft().sign(&identities()[0], SignatureForm::Detached).unwrap());
    assert!(read(good.to_string().as_bytes()).is_ok());
    let long = format!("did:web:{}", "x".repeat(2048));
    for (name, value, field) in [
        ("id", json!("urn:uuid:1111"), "id"),
        ("ts", json!("yesterday"), "ts"),
        ("ts", json!("2025-07-10T13:37:05+02:00"), "ts"),
        ("from", json!("nothing"), "from"),
        ("from", json!("did:web:a b"), "from"),
        ("to", json!(["did:web:a", "x"]), "to.1"),
        ("to", json!([long]), "to.0"),
        ("reply_to", json!("x"), "reply_to"),
        ("stream_id", json!(""), "stream_id"),
        ("stream_id", json!("a\nb"), "stream_id"),
        ("stream_id", json!("x".repeat(129)), "stream_id"),
        ("extra", json!(1), "extra"),
        (
            "context",
            json!([{"id": "x", "hash": format!("sha256:{}", "0".repeat(64))}]),
            "context.0.id",
        ),
    ] {
        let mut bad = good.clone();
        bad[name] = value;
        assert_eq!(field_of(&bad), field);
    }
    let code = Envelope::read(good.to_string().as_bytes(), 100)
        .unwrap_err()
        .code();
    assert_eq!(code, Some(UampCode::PayloadTooLarge));
    let mut large = good.clone();
    large["delta_window"] = json!(1e300);
    assert_eq!(
        read(large.to_string().as_bytes()).unwrap().delta_window(),
        u64::MAX
    );
}

#[test]
fn old_and_early_envelopes_are_refused() {
    let bytes = draft()
        .sign_to_bytes(&identities()[0], SignatureForm::Detached)
        .unwrap();
    let envelope = read(&bytes).unwrap();
    for (now, taken) in [
        (0, true),
        (300_000, true),
        (-300_000, true),
        (300_001, false),
        (-300_001, false),
    ] {
        let checked = envelope.check_time(NOW + now, 300_000);
        assert_eq!(checked.is_ok(), taken, "{now}");
        assert!(taken || checked.unwrap_err().code() == Some(UampCode::Unauthenticated));
    }
}

/// One bit changed anywhere: the envelope is refused, unless its JSON means the same.
#[test]
fn a_changed_bit_is_noticed() {
    for identity in identities() {
        let mut draft = draft().with_stream_id("str-42");
        draft.ext.insert("x-trace".to_owned(), "b3:1".into());
        let bytes = draft.sign_to_bytes(&identity, SignatureForm::Attached).unwrap();
        let key = identity.verification_key();
        let good = read(&bytes).unwrap();
        let mut taken = 0;
        for at in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[at / 8] ^= 1 << (at % 8);
            if let Ok(envelope) = read(&changed)
                && envelope.verify(&key).is_ok()
            {
                assert_eq!(envelope.object(), good.object(), "bit {at}");
                taken += 1;
            }
        }
        assert_eq!(taken, 0, "no bit of this JSON has two forms");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53) + 1..1 << 53).prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has finite numbers", |number| number.is_finite())
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Any envelope is read back from its JSON, in any layout, and verified.
    #[test]
    fn random_envelopes_are_signed_and_verified(
        content in any::<String>(),
        ext in proptest::collection::btree_map(any::<String>(), any_json(), 0..4),
        window in proptest::option::of(1_u64..1 << 53),
        intent in 0_usize..10,
        attached in any::<bool>(),
        p256 in any::<bool>(),
    ) {
        let identity = &identities()[usize::from(p256)];
        let mut draft = EnvelopeDraft::new(
            Intent::ALL[intent],
            vec!["did:web:a".to_owned(), identity.did().to_owned()],
            EnvelopeBody::text("text/plain", content.clone()),
            NOW,
        );
        draft.delta_window = window;
        draft.ext = ext.into_iter().collect();
        let form = if attached { SignatureForm::Attached } else { SignatureForm::Detached };
        let object = Value::Object(draft.sign(identity, form).unwrap());
        let pretty = serde_json::to_vec_pretty(&object).unwrap();
        let envelope = read(&pretty).unwrap();
        envelope.verify(&identity.verification_key()).unwrap();
        prop_assert_eq!(envelope.body().decode(1 << 20).unwrap(), content.as_bytes());
        let canonical = crate::canonical::canonical_form(&object).unwrap();
        let again = read(&canonical).unwrap();
        again.verify(&identity.verification_key()).unwrap();
    }

    /// Random bytes are refused without a panic.
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }
}
