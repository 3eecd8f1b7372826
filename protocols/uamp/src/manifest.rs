//! The signed manifest of an agent (UAMP 1.0 §8): made, written as an attached JWS, read and verified. Used
//! by the gateway and the client.
//!
//! Invariant: a manifest has no key and no URL of its own, so the key that it is verified by is that of the
//! `kid` in its header. PURE.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    canonical::read_strict,
    error::{UampCode, UampError},
    jws::{self, CompactJws, SignatureForm, SigningIdentity},
    schemas::UampSchema,
    trust::TrustAnchors,
};

/// The media type of signed manifests (§11).
pub const MANIFEST_TYPE: &str = "application/manifest+jws";

/// Largest manifest that is read, in bytes.
pub const MAX_MANIFEST: usize = 256 << 10;

/// What an agent says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UampManifest {
    /// The version of the protocol: `uamp/1.0`.
    pub agent: String,
    /// For people.
    pub description: String,
    /// The intents that it takes.
    pub intents: Vec<String>,
    /// The media types of bodies that it takes.
    pub body_types: Vec<String>,
    /// How callers say who they are: `oauth2`, `mtls`.
    pub auth: Vec<String>,
    /// Its limits.
    pub limits: ManifestLimits,
}

/// The limits of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestLimits {
    /// Largest body, in KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body_kb: Option<i64>,
    /// Requests an hour of one caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_lph: Option<i64>,
}

impl UampManifest {
    /// As an attached JWS.
    pub fn sign(&self, identity: &SigningIdentity) -> String {
        let payload = serde_json::to_vec(self).unwrap_or_default();
        jws::sign(identity, &payload, SignatureForm::Attached, Some("manifest+jws"))
    }

    /// Reads and verifies one; with it, the DID of the key that signed it.
    ///
    /// # Errors
    /// [`UampCode::Unauthenticated`] when it is not signed by a key that is known, [`UampError::Field`] when
    /// it does not fit the schema.
    pub fn read(text: &str, anchors: &TrustAnchors) -> Result<(Self, String), UampError> {
        let refused = |text: String| UampError::coded(UampCode::Unauthenticated, text);
        if text.len() > MAX_MANIFEST {
            let text = format!("the manifest has more than {MAX_MANIFEST} bytes");
            return Err(UampError::coded(UampCode::PayloadTooLarge, text));
        }
        let signed = CompactJws::parse(text.trim()).map_err(|error| refused(error.to_string()))?;
        let did = signed
            .key_did()
            .ok_or_else(|| refused("the manifest's signature names no key".to_owned()))?
            .to_owned();
        let mut verified = Err(refused(
            "the manifest has no signature of a key that is known".to_owned(),
        ));
        for key in anchors.keys_for(&did, &signed)? {
            verified = signed
                .verify_attached(&key)
                .map_err(|error| refused(error.to_string()));
            if verified.is_ok() {
                break;
            }
        }
        let value =
            read_strict(&verified?).map_err(|error| UampError::field("manifest", error.to_string()))?;
        UampSchema::Manifest.check(&value)?;
        let manifest =
            Self::deserialize(&value).map_err(|error| UampError::field("manifest", error.to_string()))?;
        Ok((manifest, did))
    }

    /// As JSON.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> UampManifest {
        UampManifest {
            agent: "uamp/1.0".to_owned(),
            description: "Adds".to_owned(),
            intents: vec!["ask".to_owned()],
            body_types: vec!["text/plain".to_owned()],
            auth: vec!["mtls".to_owned()],
            limits: ManifestLimits {
                max_body_kb: Some(1024),
                rate_lph: None,
            },
        }
    }

    #[test]
    fn a_manifest_is_signed_and_verified() {
        for identity in [
            SigningIdentity::from_ed25519(&[1; 32]),
            SigningIdentity::from_p256(&[1; 32]).unwrap(),
        ] {
            let text = manifest().sign(&identity);
            let (read, did) = UampManifest::read(&text, &TrustAnchors::default()).unwrap();
            assert_eq!((read, did.as_str()), (manifest(), identity.did()));
            let middle = text.find('.').unwrap() + 5;
            for at in [0, middle, text.len() - 5] {
                let mut changed = text.clone().into_bytes();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(changed).unwrap();
                assert!(
                    UampManifest::read(&changed, &TrustAnchors::default()).is_err(),
                    "byte {at}"
                );
            }
        }
        let odd = UampManifest {
            agent: "uamp/2.0".to_owned(),
            ..manifest()
        };
        let text = odd.sign(&SigningIdentity::from_ed25519(&[1; 32]));
        let refused = UampManifest::read(&text, &TrustAnchors::default()).unwrap_err();
        assert!(matches!(refused, UampError::Field { field, .. } if field == "agent"));
    }
}
