//! Who a client's certificate says it is. The certificate itself was checked by TLS. PURE.

use std::{sync::Arc, time::SystemTime};

use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

use super::is_name;

/// The name on a certificate that TLS has accepted, as long as it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    name: Arc<str>,
    /// Last second, since 1970.
    until: i64,
}

impl ClientCertificate {
    /// Reads a certificate in DER: its first URI, else its first DNS name, else its common name. `None` if it has
    /// none that can be a caller's.
    pub fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.map_or(&[][..], |names| &names.value.general_names);
        let uri = names.iter().find_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
        let dns = || {
            names.iter().find_map(|name| match name {
                GeneralName::DNSName(dns) => Some(*dns),
                _ => None,
            })
        };
        let common = || certificate.subject().iter_common_name().next()?.as_str().ok();
        let name = uri.or_else(dns).or_else(common).filter(|name| is_name(name))?;
        Some(Self {
            name: name.into(),
            until: certificate.validity().not_after.timestamp(),
        })
    }

    /// The name, unless the certificate has run out while its connection stood.
    pub(super) fn name(&self, now: SystemTime) -> Option<&str> {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        (i64::try_from(now).ok()? <= self.until).then_some(&*self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

    use super::*;

    fn name(sans: Vec<SanType>, common: Option<&str>) -> Option<String> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = sans;
        params.not_after = date_time_ymd(2030, 1, 1);
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let certificate = ClientCertificate::read(made.der())?;
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(certificate.name(at(1_900_000_000)), None, "it has run out");
        certificate.name(at(1_800_000_000)).map(str::to_owned)
    }

    #[test]
    fn the_most_exact_name_counts() {
        let uri = || SanType::URI("spiffe://example.org/a".try_into().unwrap());
        let dns = || SanType::DnsName("a.example.org".try_into().unwrap());
        assert_eq!(
            name(vec![dns(), uri()], Some("A")).unwrap(),
            "spiffe://example.org/a"
        );
        assert_eq!(name(vec![dns()], Some("A")).unwrap(), "a.example.org");
        assert_eq!(name(vec![], Some("A")).unwrap(), "A");
        for common in [None, Some("anonymous"), Some("two words"), Some("")] {
            assert_eq!(name(vec![], common), None, "{common:?}");
        }
        assert_eq!(ClientCertificate::read(b"nonsense"), None);
    }
}
