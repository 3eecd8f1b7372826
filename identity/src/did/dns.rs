//! `did:dns` names: a domain whose owner names keys in TXT records at `_did.<domain>`, each `did=did:key:…`. PURE.

use std::{fmt, str::FromStr};

use super::{domain, peer_of_did_key, web::InvalidDid};
use crate::PeerId;

/// What a did:dns begins with, where it is not written as the domain alone.
const SCHEME: &str = "did:dns:";

/// What the records of a domain are at.
const LABEL: &str = "_did.";

/// Records that are looked at; a domain with more has said nothing that can be relied on.
pub const MAX_TXT: usize = 64;

/// A did:dns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DidDns(String);

impl DidDns {
    /// Where its records are: a full name of the DNS, with the dot at its end.
    pub fn record_name(&self) -> String {
        format!("{LABEL}{}.", self.0)
    }

    /// The domain.
    pub fn domain(&self) -> &str {
        &self.0
    }

    /// The peers that TXT records of this content name; what is no such record is left out.
    pub fn peers_named<'a>(records: impl IntoIterator<Item = &'a [u8]>) -> Vec<PeerId> {
        let named = records.into_iter().take(MAX_TXT).filter_map(|record| {
            let text = std::str::from_utf8(record).ok()?;
            peer_of_did_key(text.trim().strip_prefix("did=")?.trim())
        });
        named.collect()
    }
}

impl FromStr for DidDns {
    type Err = InvalidDid;

    /// Reads `did:dns:<domain>` or the domain alone, as cards have it.
    fn from_str(text: &str) -> Result<Self, InvalidDid> {
        let name = domain(text.strip_prefix(SCHEME).unwrap_or(text));
        // With `_did.` in front it has to be a name too.
        name.filter(|name| name.len() <= 253 - LABEL.len())
            .map(Self)
            .ok_or_else(|| InvalidDid {
                given: text.chars().take(80).collect(),
                kind: "did:dns",
                cause: "it names no domain",
                example: "example.org",
            })
    }
}

impl fmt::Display for DidDns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DID: &str = "did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH";

    #[test]
    fn a_domain_names_its_keys() {
        let name: DidDns = "Example.ORG".parse().unwrap();
        assert_eq!(name, "did:dns:example.org".parse().unwrap());
        assert_eq!(name.record_name(), "_did.example.org.");
        assert_eq!(name.to_string(), "did:dns:example.org");
        let right = format!("did={DID}");
        let spaced = format!(" did= {DID} ");
        let others = [
            "v=spf1 -all",
            DID,
            "did=did:web:example.org",
            "did=did:key:z6Mk",
            "did=",
        ];
        let records = [right.as_bytes(), b"\xff\xfe", spaced.as_bytes()];
        let records = records.into_iter().chain(others.map(str::as_bytes));
        let peer = peer_of_did_key(DID).unwrap();
        assert_eq!(DidDns::peers_named(records), [peer, peer]);
        let hidden = vec![b"x".as_slice(); MAX_TXT];
        let hidden = hidden.into_iter().chain([right.as_bytes()]);
        assert_eq!(DidDns::peers_named(hidden), []);
    }

    #[test]
    fn what_is_no_domain_is_refused() {
        let long = "a.".repeat(126) + "a";
        for bad in [
            "",
            "did:dns:",
            "127.0.0.1",
            "a b",
            "_did.example.org",
            "a/b",
            "ä.org",
            &long,
        ] {
            assert!(bad.parse::<DidDns>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_records_are_read(records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..5)) {
            let _ = DidDns::peers_named(records.iter().map(Vec::as_slice));
        }

        #[test]
        fn a_name_is_read_as_it_is_written(text in "(did:dns:)?\\PC{0,40}|[a-z]{1,9}(\\.[a-z]{1,9}){0,3}") {
            if let Ok(name) = text.parse::<DidDns>() {
                prop_assert_eq!(name.to_string().parse::<DidDns>().unwrap(), name);
            }
        }
    }
}
