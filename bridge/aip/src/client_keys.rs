//! Clients whose ids belong to keys: setting `keys` binds a client_id to a did:key. The front reads their tokens here.
//!
//! Invariant: an id that is bound is registered only with a JWT that its key has signed and whose `sub` is the id.

use std::collections::BTreeMap;

use agentanycast_identity::public_key_of_did_key;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, errors::ErrorKind};
use serde::Deserialize;

use super::settings::ClientKey;

/// Longest token that is read, in bytes; one of these claims has less than 1 KiB.
const LONGEST_TOKEN: usize = 8 << 10;

/// How many seconds the clocks of clients may differ.
const LEEWAY: u64 = 60;

/// The audience that tokens may name besides the gateway's public URL.
const AUDIENCE: &str = "aip";

/// The ids that are bound to keys.
#[derive(Debug, Default)]
pub(super) struct ClientKeys {
    keys: BTreeMap<String, String>,
    audiences: Vec<String>,
}

/// The claims that tell for which id a token is. Times are checked by the library.
#[derive(Deserialize)]
struct SubjectClaim {
    sub: String,
}

/// What a token says that is not checked yet.
pub(super) struct ClaimedId<'a> {
    /// The id that it is for.
    pub(super) client_id: String,
    did: &'a str,
    audiences: &'a [String],
}

impl ClientKeys {
    /// These, at a gateway with this public URL; empty: it has none.
    pub(super) fn new(keys: &[ClientKey], public_url: &str) -> Self {
        let keys = keys.iter().map(|key| (key.client_id.clone(), key.did.clone()));
        let own = Some(public_url).filter(|url| !url.is_empty());
        let audiences = [AUDIENCE].into_iter().chain(own).map(str::to_owned);
        Self {
            keys: keys.collect(),
            audiences: audiences.collect(),
        }
    }

    /// The did:key that an id is bound to.
    pub(super) fn of_client(&self, client_id: &str) -> Option<&str> {
        self.keys.get(client_id).map(String::as_str)
    }

    /// For which bound id a token is, if it is such a JWT.
    pub(super) fn claimed(&self, token: &str) -> Option<ClaimedId<'_>> {
        if self.keys.is_empty() || token.len() > LONGEST_TOKEN {
            return None;
        }
        let mut parts = token.split('.');
        let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
        let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?;
        let SubjectClaim { sub } = serde_json::from_slice(&claims).ok()?;
        let did = self.of_client(&sub)?;
        Some(ClaimedId {
            client_id: sub,
            did,
            audiences: &self.audiences,
        })
    }
}

impl ClaimedId<'_> {
    /// Checks the token; gives the did:key of its signer.
    ///
    /// # Errors
    /// Why it is not good.
    pub(super) fn verify(&self, token: &str) -> Result<String, String> {
        let key = public_key_of_did_key(self.did).ok_or("its key is not an Ed25519 key")?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "sub"]);
        validation.set_audience(self.audiences);
        decode::<SubjectClaim>(token, &DecodingKey::from_ed_der(&key), &validation)
            .map_err(|error| self.reason(error.kind()))?;
        Ok(self.did.to_owned())
    }

    fn reason(&self, kind: &ErrorKind) -> String {
        match kind {
            ErrorKind::InvalidSignature => format!("it is not signed with the key of {}", self.did),
            ErrorKind::InvalidAlgorithm => "its algorithm is not EdDSA".to_owned(),
            ErrorKind::ExpiredSignature => "it has expired".to_owned(),
            ErrorKind::ImmatureSignature => "it is not valid yet".to_owned(),
            ErrorKind::InvalidAudience => format!("its aud is none of {}", self.audiences.join(", ")),
            ErrorKind::MissingRequiredClaim(claim) => format!("it has no {claim}"),
            _ => "it cannot be read".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use agentanycast_identity::{Keypair, PeerId, did_key_of};
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::{Value, json};

    use super::*;

    /// PKCS#8 of an Ed25519 key: RFC 8410, section 7.
    const PKCS8_HEAD: [u8; 16] = [
        0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
    ];

    struct Signer {
        did: String,
        key: EncodingKey,
    }

    fn signer() -> Signer {
        let pair = Keypair::generate_ed25519();
        let secret = pair.clone().try_into_ed25519().unwrap().secret();
        let der = [&PKCS8_HEAD[..], secret.as_ref()].concat();
        Signer {
            did: did_key_of(PeerId::from(pair.public().to_peer_id())).unwrap(),
            key: EncodingKey::from_ed_der(&der),
        }
    }

    fn now() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.unwrap().as_secs()
    }

    impl Signer {
        fn token(&self, claims: &Value) -> String {
            encode(&Header::new(Algorithm::EdDSA), claims, &self.key).unwrap()
        }
    }

    fn keys(signer: &Signer) -> ClientKeys {
        let key = ClientKey {
            client_id: "desk".to_owned(),
            did: signer.did.clone(),
        };
        ClientKeys::new(&[key], "https://aip.example")
    }

    #[test]
    fn the_token_of_the_key_names_the_client() {
        let signer = signer();
        let keys = keys(&signer);
        for extra in [
            json!({}),
            json!({ "aud": "aip" }),
            json!({ "aud": ["x", "https://aip.example"] }),
        ] {
            let mut claims = json!({ "sub": "desk", "exp": now() + 60 });
            claims
                .as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            let token = signer.token(&claims);
            let claimed = keys.claimed(&token).unwrap();
            assert_eq!(claimed.client_id, "desk");
            assert_eq!(claimed.verify(&token), Ok(signer.did.clone()), "{claims}");
        }
    }

    #[test]
    fn other_tokens_are_refused_with_the_reason() {
        let (own, other) = (signer(), signer());
        let keys = keys(&own);
        let later = now() + 60;
        for (signed_by, claims, why) in [
            (
                &other,
                json!({ "sub": "desk", "exp": later }),
                "not signed with the key",
            ),
            (&own, json!({ "sub": "desk", "exp": now() - 120 }), "expired"),
            (&own, json!({ "sub": "desk" }), "no exp"),
            (
                &own,
                json!({ "sub": "desk", "exp": later, "nbf": now() + 3600 }),
                "not valid yet",
            ),
            (
                &own,
                json!({ "sub": "desk", "exp": later, "aud": "other" }),
                "aud",
            ),
        ] {
            let token = signed_by.token(&claims);
            let refused = keys.claimed(&token).unwrap().verify(&token).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        let shared = EncodingKey::from_secret(b"secret");
        let claims = json!({ "sub": "desk", "exp": later });
        let token = encode(&Header::new(Algorithm::HS256), &claims, &shared).unwrap();
        let refused = keys.claimed(&token).unwrap().verify(&token).unwrap_err();
        assert!(refused.contains("EdDSA"), "{refused}");
    }

    #[test]
    fn what_is_not_for_a_bound_id_is_left_to_the_front() {
        let signer = signer();
        let keys = keys(&signer);
        let token = signer.token(&json!({ "sub": "else", "exp": now() + 60 }));
        for token in [
            token.as_str(),
            "0123456789abcdef",
            "a.b.c",
            "",
            &"a".repeat(10_000),
        ] {
            assert!(keys.claimed(token).is_none());
        }
        assert!(ClientKeys::default().claimed(&token).is_none());
    }
}
