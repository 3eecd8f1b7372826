//! A session as the agent that carries it out has it: what is to be done, how to say how far it is, and
//! whether it is still wanted. The connection makes it; a [`SessionRunner`] uses it.
//!
//! [`SessionRunner`]: super::SessionRunner

use std::time::SystemTime;

use prost::Message as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    endpoint::MAX_MESSAGE,
    outgoing::{Event, Outgoing},
    proposal::Domain,
};
use crate::v1::{Payload, Severity, Telemetry};

/// What a message has besides its telemetry, at most, in bytes.
const ENVELOPE: usize = 64;

/// A session under way.
#[derive(Debug)]
pub struct AgentSession {
    /// The hub's name for the session.
    pub session_id: String,
    /// What it is.
    pub domain: Domain,
    /// The type of the test, or the format to translate to.
    pub kind: String,
    /// What the test is made of, or what is translated.
    pub payloads: Vec<Payload>,
    /// Tells the hub how far the session is.
    pub progress: SessionProgress,
    /// Fires when the session is no longer wanted: the hub ended it, the connection is lost, or the agent
    /// stops. What carries the session out is dropped 10 s later, if it has not returned by then.
    pub cancelled: CancellationToken,
}

/// The session has ended: the hub is told nothing more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SessionOver;

/// Tells the hub how far a session is. Cheap to clone. Each call waits while the hub reads more slowly than
/// the agent tells.
#[derive(Clone, Debug)]
pub struct SessionProgress {
    domain: Domain,
    /// Weak: the session's end closes the stream also when this is still held.
    events: mpsc::WeakSender<Outgoing>,
    cancelled: CancellationToken,
}

impl SessionProgress {
    pub(super) fn new(domain: Domain, events: &mpsc::Sender<Outgoing>, cancelled: CancellationToken) -> Self {
        Self {
            domain,
            events: events.downgrade(),
            cancelled,
        }
    }

    /// The test is RUNNING, or the translation PROCESSING; `message` says how far.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn running(&self, message: impl Into<String>) -> Result<(), SessionOver> {
        self.send(Event::Running(message.into())).await
    }

    /// Something to know of: a line of a log, a picture, a file. Without a timestamp it gets that of now.
    /// What exceeds [`MAX_MESSAGE`] goes without its attachments, and the message says so.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn telemetry(&self, mut telemetry: Telemetry) -> Result<(), SessionOver> {
        telemetry
            .timestamp
            .get_or_insert_with(|| SystemTime::now().into());
        self.send(Event::Telemetry(fitting(telemetry, MAX_MESSAGE - ENVELOPE)))
            .await
    }

    /// A line of a log.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn log(&self, severity: Severity, message: impl Into<String>) -> Result<(), SessionOver> {
        self.telemetry(Telemetry {
            message: message.into(),
            severity: severity.into(),
            ..Telemetry::default()
        })
        .await
    }

    async fn send(&self, event: Event) -> Result<(), SessionOver> {
        let events = self.events.upgrade().ok_or(SessionOver)?;
        let message = Outgoing::new(self.domain, event, SystemTime::now());
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(SessionOver),
            sent = events.send(message) => sent.map_err(|_| SessionOver),
        }
    }
}

/// `telemetry` with at most `limit` bytes: without its attachments, and in the end without the end of its
/// texts.
fn fitting(mut telemetry: Telemetry, limit: usize) -> Telemetry {
    let size = telemetry.encoded_len();
    if size <= limit {
        return telemetry;
    }
    let left_out = format!(" (left out: {size} bytes exceed the limit of {limit})");
    telemetry.attachments.clear();
    let mut rest = limit.saturating_sub(left_out.len() + ENVELOPE);
    for text in [&mut telemetry.source, &mut telemetry.message] {
        text.truncate(text.floor_char_boundary(rest));
        rest -= text.len();
    }
    telemetry.message.push_str(&left_out);
    telemetry
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::v1::Attachment;

    proptest! {
        #[test]
        fn telemetry_fits(message in ".{0,300}", source in ".{0,300}", size in 0_usize..600, limit in 200_usize..800) {
            let telemetry = Telemetry {
                message: message.clone(),
                source,
                attachments: vec![Attachment { data: vec![1; size].into(), ..Attachment::default() }],
                timestamp: Some(SystemTime::now().into()),
                severity: Severity::Warn.into(),
            };
            let sent = fitting(telemetry.clone(), limit);
            prop_assert!(sent.encoded_len() <= limit);
            if telemetry.encoded_len() <= limit {
                prop_assert_eq!(sent, telemetry);
            } else {
                prop_assert!(sent.attachments.is_empty());
                prop_assert!(sent.message.contains("left out"));
                prop_assert_eq!(sent.severity, telemetry.severity);
            }
        }
    }
}
