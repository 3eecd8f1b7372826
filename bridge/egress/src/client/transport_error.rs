//! What a failure of the connection means.

use std::{error::Error, io};

use tokio_rustls::rustls::{self, CertificateError};

use crate::{
    egress_filter::ConnectError,
    error::{Kind, OutboundError, PRIVATE_SETTING, ROOTS_SETTING},
};

/// Of a request that was not answered.
pub(super) fn from_request_error(error: &hyper_util::client::legacy::Error) -> OutboundError {
    let is_connect = error.is_connect();
    from_error(error, is_connect)
}

/// Of an error, with those that caused it. `before`: nothing was sent yet.
pub fn from_error(error: &(dyn Error + 'static), before: bool) -> OutboundError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    let mut last = error.to_string();
    while let Some(error) = cause {
        if let Some(fault) = known(error) {
            return fault;
        }
        last = error.to_string();
        cause = error.source();
    }
    if before {
        OutboundError::new(Kind::Unreached, format!("it cannot be reached: {last}"))
    } else {
        OutboundError::new(Kind::Broken, format!("the connection broke off: {last}"))
    }
}

fn known(error: &(dyn Error + 'static)) -> Option<OutboundError> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        // The cause of an error of this kind is that of what is inside.
        let inside: &(dyn Error + 'static) = error.get_ref()?;
        return known(inside);
    }
    if let Some(error) = error.downcast_ref::<ConnectError>() {
        return Some(match error {
            ConnectError::Refused { .. } => OutboundError::permanent(format!(
                "{error}; where that is meant, send with --allow-private, or {PRIVATE_SETTING}"
            )),
            ConnectError::NoHost => OutboundError::permanent(error.to_string()),
            error => OutboundError::new(Kind::Unreached, error.to_string()),
        });
    }
    let tls = error.downcast_ref::<rustls::Error>()?;
    let said = match tls {
        rustls::Error::InvalidCertificate(error) => certificate_words(error),
        rustls::Error::InvalidMessage(_) => format!("{tls}; what is there may be without TLS: try http://"),
        rustls::Error::General(reason) => reason.clone(),
        _ => tls.to_string(),
    };
    Some(OutboundError::permanent(format!("TLS with it failed: {said}")))
}

/// What is wrong with a certificate, and what helps.
fn certificate_words(error: &CertificateError) -> String {
    let hint = format!("roots besides the usual ones are {ROOTS_SETTING}");
    // Errors of the library below have no names here.
    let inner = format!("{error:?}");
    if inner.contains("CaUsedAsEndEntity") {
        return "its certificate is that of an authority (CA:TRUE), as openssl req -x509 makes it by default, and a \
                server may not show such a one; make it again with -addext basicConstraints=critical,CA:FALSE"
            .to_owned();
    }
    if inner.contains("UnsupportedCertVersion") {
        return "its certificate is not of X.509 version 3; make it again with -addext subjectAltName=DNS:HOST"
            .to_owned();
    }
    match error {
        CertificateError::UnknownIssuer => {
            format!("its certificate leads to no root that is known (UnknownIssuer); {hint}")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its certificate has expired: {error}")
        }
        error => format!("its certificate is not taken: {error}; {hint}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_refused_in_words() {
        let words = certificate_words(&CertificateError::UnknownIssuer);
        assert!(
            words.contains("no root") && words.contains(ROOTS_SETTING),
            "{words}"
        );
        let words = certificate_words(&CertificateError::Expired);
        assert!(words.starts_with("its certificate has expired"), "{words}");
    }
}
