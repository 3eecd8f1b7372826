//! Capability tokens (UAMP 1.0 §6.2): JWTs whose issuer allows the holder an intent or a skill. Used by the
//! handler.
//!
//! Invariant: a token counts when its issuer is the receiver itself or a trust anchor, its audience the
//! receiver, and its time not over; CWTs are refused. PURE: `now_ms` is an argument.

use serde_json::{Map, Value};

use crate::{
    canonical::read_strict,
    envelope::Intent,
    error::{UampCode, UampError, shown},
    jws::CompactJws,
    trust::TrustAnchors,
};

/// Longest token, in bytes.
const MAX_TOKEN: usize = 16 << 10;

/// What a token has to allow.
#[derive(Clone, Copy, Debug)]
pub struct CapabilityCheck<'a> {
    /// Who uses it: where the token names a subject, that one.
    pub holder: &'a str,
    /// The receiver's DID and those of the envelope's `to`: the audience has to be among them.
    pub audiences: &'a [&'a str],
    /// The receiver's own DID, whose tokens count.
    pub receiver: &'a str,
    /// The intent of the envelope.
    pub intent: Intent,
    /// The skill that it asks for.
    pub skill: Option<&'a str>,
    /// Unix time in milliseconds.
    pub now_ms: i64,
    /// How much clocks may differ, in milliseconds.
    pub skew_ms: i64,
}

impl CapabilityCheck<'_> {
    /// Checks a token.
    ///
    /// # Errors
    /// [`UampCode::Unauthorized`], with the reason.
    pub fn check(&self, token: &str, anchors: &TrustAnchors) -> Result<(), UampError> {
        self.refusal(token, anchors)
            .map_err(|reason| UampError::coded(UampCode::Unauthorized, format!("cap_token: {reason}")))
    }

    fn refusal(&self, token: &str, anchors: &TrustAnchors) -> Result<(), String> {
        if token.len() > MAX_TOKEN {
            return Err(format!("it has more than {MAX_TOKEN} bytes"));
        }
        let jws =
            CompactJws::parse(token).map_err(|error| format!("{error}; JWTs are taken, CWTs are not"))?;
        let payload = jws
            .payload()
            .map_err(|error| error.to_string())?
            .unwrap_or_default();
        let Ok(Value::Object(claims)) = read_strict(&payload) else {
            return Err("its claims are not a JSON object".to_owned());
        };
        let issuer = claims
            .get("iss")
            .and_then(Value::as_str)
            .or_else(|| jws.key_did())
            .ok_or("it has no iss")?;
        if issuer != self.receiver && !anchors.knows(issuer) {
            return Err(format!(
                "its issuer {} is neither the receiver nor a trust anchor",
                shown(issuer)
            ));
        }
        let keys = anchors
            .keys_for(issuer, &jws)
            .map_err(|error| error.to_string())?;
        if !keys.iter().any(|key| jws.verify(key, &payload).is_ok()) {
            return Err("its signature does not fit".to_owned());
        }
        self.check_claims(&claims)
    }

    fn check_claims(&self, claims: &Map<String, Value>) -> Result<(), String> {
        let now = self.now_ms as f64 / 1000.0;
        let skew = self.skew_ms as f64 / 1000.0;
        let time = |name: &str| {
            claims
                .get(name)
                .map(|time| time.as_f64().ok_or(format!("its {name} is not a number")))
        };
        let end = time("exp").ok_or("it has no exp")??;
        if end + skew < now {
            return Err("it has expired".to_owned());
        }
        if let Some(begin) = time("nbf").transpose()?
            && begin - skew > now
        {
            return Err("it does not count yet".to_owned());
        }
        if !texts(claims.get("aud")).any(|audience| self.audiences.contains(&audience)) {
            return Err("its aud is not this receiver".to_owned());
        }
        if let Some(subject) = claims.get("sub").and_then(Value::as_str)
            && subject != self.holder
        {
            return Err(format!("its sub is {}, and not the sender", shown(subject)));
        }
        let wanted = [
            Some(format!("uamp:{}", self.intent.as_str())),
            self.skill.map(|skill| format!("skill:{skill}")),
        ];
        let allows = texts(claims.get("scope"))
            .flat_map(str::split_ascii_whitespace)
            .any(|scope| wanted.iter().flatten().any(|wanted| wanted == scope));
        if !allows {
            let wanted: Vec<String> = wanted.into_iter().flatten().collect();
            return Err(format!("its scope has none of {}", wanted.join(", ")));
        }
        Ok(())
    }
}

/// The texts of a claim that is one or several.
fn texts(claim: Option<&Value>) -> impl Iterator<Item = &str> {
    let one = claim.and_then(Value::as_str);
    let several = claim.and_then(Value::as_array);
    one.into_iter()
        .chain(several.into_iter().flatten().filter_map(Value::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jws::{self, SignatureForm, SigningIdentity};

    const NOW: i64 = 1_752_154_625_000;

    fn token(issuer: &SigningIdentity, claims: &Value) -> String {
        jws::sign(
            issuer,
            claims.to_string().as_bytes(),
            SignatureForm::Attached,
            Some("JWT"),
        )
    }

    #[test]
    fn a_token_counts_for_its_audience_scope_holder_and_time() {
        let receiver = SigningIdentity::from_ed25519(&[1; 32]);
        let stranger = SigningIdentity::from_ed25519(&[2; 32]);
        let anchor = SigningIdentity::from_p256(&[3; 32]).unwrap();
        let mut anchors = TrustAnchors::default();
        anchors
            .add(&json!({"keys": [anchor.verification_key().to_jwk(anchor.kid())]}))
            .unwrap();
        let audiences = [receiver.did(), "did:web:worker.example"];
        let check = CapabilityCheck {
            holder: "did:web:client",
            audiences: &audiences,
            receiver: receiver.did(),
            intent: Intent::Ask,
            skill: Some("add"),
            now_ms: NOW,
            skew_ms: 300_000,
        };
        let end = NOW / 1000 + 60;
        let good = json!({"aud": receiver.did(), "scope": "uamp:ask other", "exp": end});
        check.check(&token(&receiver, &good), &anchors).unwrap();
        check.check(&token(&anchor, &good), &anchors).unwrap();
        let whole = json!({
            "iss": receiver.did(), "sub": "did:web:client", "aud": ["x", "did:web:worker.example"],
            "scope": ["skill:add"], "exp": end, "nbf": end,
        });
        check.check(&token(&receiver, &whole), &anchors).unwrap();
        assert!(check.check(&token(&stranger, &good), &anchors).is_err());
        for (name, value) in [
            ("exp", Value::Null),
            ("exp", json!(end - 400)),
            ("nbf", json!(end + 400)),
            ("aud", json!("did:web:other")),
            ("aud", Value::Null),
            ("scope", json!("uamp:inform skill:sub")),
            ("scope", Value::Null),
            ("sub", json!("did:web:other")),
            ("iss", json!("did:web:other")),
        ] {
            let mut bad = good.clone();
            bad[name] = value;
            let refused = check.check(&token(&receiver, &bad), &anchors).unwrap_err();
            assert_eq!(refused.code(), Some(UampCode::Unauthorized), "{name}");
        }
        for text in ["", "2D3RhEOhASagWQ", "a.b.c"] {
            let refused = check.check(text, &anchors).unwrap_err();
            assert!(refused.to_string().contains("CWTs are not"), "{refused}");
        }
    }
}
