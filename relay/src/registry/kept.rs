//! A record of this relay as it is kept on disk: what other relays would be told, and whose share it takes.
//!
//! PURE. It is encoded as the record is, with a field of its own behind it, which no relay is told; so a store of before has
//! the same form.

use std::net::IpAddr;

use agentanycast_proto::v1::FederatedRegistration;
use prost::Message;

use super::source::{Kind, Source};

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The record; its times are absolute.
    pub told: FederatedRegistration,
    pub(super) source: Option<(Source, Kind)>,
}

/// The field of its own: an address of 4 or 16 bytes, with a byte before it that says whether it has signed.
#[derive(Clone, PartialEq, Message)]
struct Payer {
    #[prost(bytes = "vec", tag = "20000")]
    source: Vec<u8>,
}

const SIGNED: u8 = 1;
const UNSIGNED: u8 = 0;

impl Kept {
    /// Its bytes on disk.
    pub fn encode(&self) -> Vec<u8> {
        let source = self.source.map(|(source, kind)| {
            let mut bytes = vec![if kind == Kind::Verified { SIGNED } else { UNSIGNED }];
            match IpAddr::from(source) {
                IpAddr::V4(ip) => bytes.extend(ip.octets()),
                IpAddr::V6(ip) => bytes.extend(ip.octets()),
            }
            bytes
        });
        let mut bytes = self.told.encode_to_vec();
        let payer = Payer {
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
        let payer = Payer::decode(bytes)?;
        Ok(Self {
            told: FederatedRegistration::decode(bytes)?,
            source: source(&payer.source),
        })
    }
}

fn source(bytes: &[u8]) -> Option<(Source, Kind)> {
    let (kind, ip) = bytes.split_first()?;
    let ip = match ip.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(ip).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(ip).ok()?),
    };
    let kind = match *kind {
        SIGNED => Kind::Verified,
        UNSIGNED => Kind::Unverified,
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
            for kind in [Kind::Verified, Kind::Unverified] {
                let kept = Kept {
                    told: told.clone(),
                    source: Some((ip.into(), kind)),
                };
                let bytes = kept.encode();
                assert_eq!(Kept::decode(&bytes).unwrap(), kept);
                assert_eq!(FederatedRegistration::decode(&*bytes).unwrap(), told);
            }
        }
        let nobodys = Kept { told, source: None };
        assert_eq!(Kept::decode(&nobodys.told.encode_to_vec()).unwrap(), nobodys);
        for odd in [&[][..], &[1], &[1, 2, 3], &[7, 192, 0, 2, 1]] {
            assert_eq!(source(odd), None);
        }
    }
}
