//! A record of this relay as it is kept on disk: what other relays would be told, and whose share it takes.
//!
//! PURE. It is encoded as the record is, with a field of its own behind it, which no relay is told; so a store of before has
//! the same form.

use std::net::IpAddr;

use agentanycast_proto::v1::FederatedRegistration;
use prost::Message;

use super::usage::{ShareKind, Source};

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRecord {
    /// The record; its times are absolute.
    pub registration: FederatedRegistration,
    pub(super) source: Option<(Source, ShareKind)>,
}

/// The field of its own: an address of 4 or 16 bytes, with a byte before it that says whether it has signed.
#[derive(Clone, PartialEq, Message)]
struct StoredSource {
    #[prost(bytes = "vec", tag = "20000")]
    source: Vec<u8>,
}

const SIGNED: u8 = 1;
const UNSIGNED: u8 = 0;

impl StoredRecord {
    /// Its bytes on disk.
    pub fn encode(&self) -> Vec<u8> {
        let source = self.source.map(|(source, kind)| {
            let mut bytes = vec![if kind == ShareKind::Verified {
                SIGNED
            } else {
                UNSIGNED
            }];
            match IpAddr::from(source) {
                IpAddr::V4(ip) => bytes.extend(ip.octets()),
                IpAddr::V6(ip) => bytes.extend(ip.octets()),
            }
            bytes
        });
        let mut bytes = self.registration.encode_to_vec();
        let payer = StoredSource {
            source: source.unwrap_or_default(),
        };
        bytes.extend(payer.encode_to_vec());
        bytes
    }

    /// Reads it. A share that cannot be read is nobody's.
    ///
    /// # Errors
    /// When it is no record.
    pub fn decode(bytes: &[u8]) -> Result<Self, prost::DecodeError> {
        let payer = StoredSource::decode(bytes)?;
        Ok(Self {
            registration: FederatedRegistration::decode(bytes)?,
            source: source(&payer.source),
        })
    }
}

fn source(bytes: &[u8]) -> Option<(Source, ShareKind)> {
    let (kind, ip) = bytes.split_first()?;
    let ip = match ip.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(ip).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(ip).ok()?),
    };
    let kind = match *kind {
        SIGNED => ShareKind::Verified,
        UNSIGNED => ShareKind::Unverified,
        _ => return None,
    };
    Some((ip.into(), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_comes_back_and_a_store_of_before_is_read() {
        let told = FederatedRegistration {
            peer_id: "p".into(),
            ..FederatedRegistration::default()
        };
        for ip in ["192.0.2.1", "2001:db8::"] {
            let ip: IpAddr = ip.parse().unwrap();
            for kind in [ShareKind::Verified, ShareKind::Unverified] {
                let kept = StoredRecord {
                    registration: told.clone(),
                    source: Some((ip.into(), kind)),
                };
                let bytes = kept.encode();
                assert_eq!(StoredRecord::decode(&bytes).unwrap(), kept);
                assert_eq!(FederatedRegistration::decode(&*bytes).unwrap(), told);
            }
        }
        let nobodys = StoredRecord {
            registration: told,
            source: None,
        };
        assert_eq!(
            StoredRecord::decode(&nobodys.registration.encode_to_vec()).unwrap(),
            nobodys
        );
        for odd in [&[][..], &[1], &[1, 2, 3], &[7, 192, 0, 2, 1]] {
            assert_eq!(source(odd), None);
        }
    }
}
