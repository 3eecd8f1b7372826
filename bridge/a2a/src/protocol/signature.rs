//! Signed cards: JWS over the canonical form (RFC 8785) of a card's fields of 1.0 (8.4.1 of the
//! specification). PURE.
//!
//! A verifier reads a card as protobuf and writes it again. So a card that is signed has no optional field
//! that is empty, and the fields of 0.3 are added after signing. The specification keeps required fields that
//! are empty (a skill without tags); the official Python SDK leaves out everything that is empty. Where the
//! two differ, the card has a signature for each. What a signature must protect is never empty, so both
//! protect it.

use agentanycast_identity::{Keypair, did_key_of, json, peer_id};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

/// Signs a card that has the fields of 1.0 alone. With a key that is not Ed25519, which no node has, it stays as it is.
pub(super) fn sign(card: &mut Value, key: &Keypair) {
    let whole = card.clone();
    let forms = [
        json::canonical(&whole),
        without_empty(whole).as_ref().and_then(json::canonical),
    ];
    let mut payloads: Vec<String> = forms.into_iter().flatten().collect();
    payloads.dedup();
    let signatures = payloads.iter().filter_map(|payload| signature(payload, key));
    let signatures: Vec<Value> = signatures.collect();
    if !signatures.is_empty() {
        card["signatures"] = signatures.into();
    }
}

fn signature(payload: &str, key: &Keypair) -> Option<Value> {
    let did = did_key_of(peer_id(key))?;
    let fragment = did.rsplit(':').next().unwrap_or_default();
    let head = json!({"alg": "EdDSA", "kid": format!("{did}#{fragment}"), "typ": "JOSE"});
    let protected = URL_SAFE_NO_PAD.encode(head.to_string());
    let payload = URL_SAFE_NO_PAD.encode(payload);
    let signature = key.sign(format!("{protected}.{payload}").as_bytes()).ok()?;
    let signature = URL_SAFE_NO_PAD.encode(signature);
    Some(json!({"protected": protected, "signature": signature}))
}

/// A value without empty texts, lists and objects in it; `None` if nothing is left.
pub(super) fn without_empty(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then_some(Value::String(text)),
        Value::Array(items) => {
            let items: Vec<Value> = items.into_iter().filter_map(without_empty).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_empty(value)?)))
                .collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_form_has_an_order_and_nothing_empty() {
        let card = json!({
            "name": "ü\n", "b": {"c": "", "d": []}, "a": [true, {"z": 1, "y": "\u{1F600}"}, null],
            "\u{1F600}": "x", "\u{FB33}": "y",
        });
        // As in RFC 8785: a letter beyond the basic plane begins with a surrogate, which comes before U+FB33.
        let expected = "{\"a\":[true,{\"y\":\"\u{1F600}\",\"z\":1}],\"name\":\"ü\\n\",\"\u{1F600}\":\"x\",\"\u{FB33}\":\"y\"}";
        assert_eq!(json::canonical(&without_empty(card).unwrap()).unwrap(), expected);
    }

    #[test]
    fn a_signature_holds_for_what_was_signed() {
        let key = Keypair::generate_ed25519();
        let mut card = json!({"name": "A", "tags": []});
        sign(&mut card, &key);
        // By the specification, and as the Python SDK checks it.
        for (at, payload) in ["{\"name\":\"A\",\"tags\":[]}", "{\"name\":\"A\"}"]
            .into_iter()
            .enumerate()
        {
            let signature = &card["signatures"][at];
            let part = |name: &str| signature[name].as_str().unwrap().to_owned();
            let payload = URL_SAFE_NO_PAD.encode(payload);
            let signed = format!("{}.{payload}", part("protected"));
            let bytes = URL_SAFE_NO_PAD.decode(part("signature")).unwrap();
            assert!(key.public().verify(signed.as_bytes(), &bytes));
            let head: Value =
                serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part("protected")).unwrap()).unwrap();
            assert!(
                head["kid"].as_str().unwrap().starts_with("did:key:z6Mk"),
                "{head}"
            );
        }
        let mut plain = json!({"name": "A"});
        sign(&mut plain, &key);
        assert_eq!(
            plain["signatures"].as_array().unwrap().len(),
            1,
            "both forms are one"
        );
    }
}
