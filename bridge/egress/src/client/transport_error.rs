//! What a failure of the connection means.

use std::{error::Error, io};

use tokio_rustls::rustls;

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
    let hint = match tls {
        rustls::Error::InvalidCertificate(_) => {
            format!("; roots besides the usual ones are {ROOTS_SETTING}")
        }
        rustls::Error::InvalidMessage(_) => "; what is there may be without TLS: try http://".to_owned(),
        _ => String::new(),
    };
    Some(OutboundError::permanent(format!(
        "TLS with it failed: {tls}{hint}"
    )))
}
