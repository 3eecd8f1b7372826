//! Why a name led nowhere, in words: the resolver's own texts show its questions as they are in memory. PURE.

use std::error::Error;

use hickory_resolver::{
    net::{DnsError, NetError},
    proto::rr::RecordType,
};

/// What an error of the resolver means; none where it is none of its errors.
pub(super) fn resolve_error_text(error: &(dyn Error + 'static)) -> Option<String> {
    let failed = |error: &dyn Error| format!("its name could not be looked up: {error}");
    let of_dns = match error.downcast_ref::<NetError>() {
        Some(NetError::Dns(of_dns)) => of_dns,
        Some(other) => return Some(failed(other)),
        None => error.downcast_ref::<DnsError>()?,
    };
    let DnsError::NoRecordsFound(nothing) = of_dns else {
        return Some(failed(of_dns));
    };
    let name = nothing.query.name().to_ascii();
    let name = name.trim_end_matches('.');
    Some(match nothing.query.query_type() {
        RecordType::A | RecordType::AAAA => format!("{name} has no address in the DNS"),
        other => format!("{name} has no {other} record in the DNS"),
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use hickory_resolver::{
        net::NoRecords,
        proto::{
            op::{Query, ResponseCode},
            rr::Name,
        },
    };
    use libp2p::dns;

    use super::{super::dialing::innermost, *};

    /// As a dial says it.
    fn said(error: NetError) -> String {
        let failed = dns::Error::<io::Error>::Dial(vec![dns::Error::ResolveError(error)]);
        innermost(&io::Error::other(failed))
    }

    #[test]
    fn a_name_that_leads_nowhere_is_named() {
        let nothing = |name: &str, of: RecordType| {
            let query = Query::query(Name::from_ascii(name).unwrap(), of);
            said(NetError::from(NoRecords::new(query, ResponseCode::NXDomain)))
        };
        for of in [RecordType::A, RecordType::AAAA] {
            assert_eq!(
                nothing("nonexistent.invalid.", of),
                "nonexistent.invalid has no address in the DNS"
            );
        }
        assert_eq!(
            nothing("_dnsaddr.relay.example.", RecordType::TXT),
            "_dnsaddr.relay.example has no TXT record in the DNS"
        );
    }

    #[test]
    fn a_dns_that_fails_is_told_from_a_peer_that_does() {
        assert_eq!(
            said(NetError::Timeout),
            "its name could not be looked up: request timed out"
        );
        let refused = said(NetError::Dns(DnsError::ResponseCode(ResponseCode::Refused)));
        assert!(
            refused.starts_with("its name could not be looked up: "),
            "{refused}"
        );
        assert_eq!(resolve_error_text(&io::Error::other("reset")), None);
    }
}
