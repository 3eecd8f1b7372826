//! Why a hub cannot be reached, or a connection to it ended. Settings are refused before the first
//! connection; all else is tried again.

use std::{convert::Infallible, error::Error as StdError, path::PathBuf};

use tonic::Status;

/// Why there is no connection to a hub.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The hub's URL cannot be used.
    #[error("hub URL {url:?}: {reason}; give it as http://HOST:PORT or https://HOST:PORT")]
    InvalidUrl {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The token cannot be sent.
    #[error("the hub's token has a character that no header may have; give visible ASCII characters only")]
    InvalidToken,
    /// A file of a certificate or a key cannot be read.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificates cannot be used.
    #[error("TLS for the hub {url}: {reason}")]
    Tls {
        /// The hub.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// Nothing that speaks the protocol's transport answers.
    #[error("cannot connect to the hub {url}: {reason}")]
    Connect {
        /// The hub.
        url: String,
        /// Why.
        reason: String,
    },
    /// The hub did not answer in time.
    #[error("the hub does not answer {call} within {seconds} s")]
    Timeout {
        /// The call.
        call: &'static str,
        /// The time that it had.
        seconds: u64,
    },
    /// The hub ended a call with an error.
    #[error("the hub ended {call}: {:?}: {}", status.code(), status.message())]
    Ended {
        /// The call.
        call: &'static str,
        /// How.
        status: Box<Status>,
    },
    /// The hub closed the Listen stream without an error.
    #[error("the hub closed the Listen stream")]
    Closed,
    /// The identity that the hub gave cannot be sent.
    #[error("the hub gave a client id that no header can carry: {id:?}")]
    InvalidClientId {
        /// The identity, shortened.
        id: String,
    },
}

impl HubError {
    pub(super) fn ended(call: &'static str, status: Status) -> Self {
        Self::Ended {
            call,
            status: Box::new(status),
        }
    }
}

impl From<Infallible> for HubError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// `error` and what it comes from, in one line.
pub(super) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
