//! What is done to run an errand, until it is told with the next report. PURE.

use std::time::Duration;

use agentanycast_daemon_kit::address::bare_url;
use agentanycast_gateway::DeliveryEvent;
use agentanycast_proto::v1::{ExternalAction, ExternalFailure};

use crate::outbound::{error::OutboundError, interface::InterfaceChoice};

/// Deeds that wait to be told; each step does fewer.
const MOST: usize = 8;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct StepLog {
    url: String,
    binding: String,
    events: Vec<DeliveryEvent>,
}

impl StepLog {
    /// What is done from now on is about this interface, or while there is none about where the errand leads.
    pub(super) fn about(&mut self, url: &str, choice: Option<&InterfaceChoice>) {
        let interface = choice.map(|choice| &choice.interface);
        self.url = bare_url(interface.map_or(url, |interface| &interface.url));
        self.binding = interface.map_or_else(String::new, |interface| {
            format!("{} {}", interface.binding.word(), interface.version.as_str())
        });
    }

    /// Something was done.
    pub(super) fn record(&mut self, what: ExternalAction, detail: &str) {
        self.put(what, detail.to_owned(), ExternalFailure::Unspecified, None);
    }

    /// The agent answered otherwise than A2A says: what it said, and how that is taken.
    pub(super) fn record_violation(&mut self, detail: &str) {
        self.record(ExternalAction::ProtocolBreach, detail);
    }

    /// Something failed, and what that means.
    pub(super) fn record_failure(
        &mut self,
        what: ExternalAction,
        fault: &OutboundError,
        again_in: Option<Duration>,
    ) {
        let failure = fault.kind().wire_code();
        self.put(what, fault.to_string(), failure, again_in);
    }

    fn put(
        &mut self,
        what: ExternalAction,
        detail: String,
        failure: ExternalFailure,
        again_in: Option<Duration>,
    ) {
        if self.events.len() >= MOST {
            self.events.remove(0);
        }
        self.events.push(DeliveryEvent {
            action: what,
            url: self.url.clone(),
            binding: self.binding.clone(),
            detail,
            failure,
            retry_in: again_in,
        });
    }

    /// What is to be told.
    pub(super) fn take(&mut self) -> Vec<DeliveryEvent> {
        std::mem::take(&mut self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        outbound::{
            error::Kind,
            interface::{Binding, RemoteInterface},
        },
        protocol::version::Version,
    };

    #[test]
    fn whom_it_was_about_is_told_without_secrets() {
        let mut told = StepLog::default();
        told.about("https://user:secret@host/agent?key=secret", None);
        let fault = OutboundError::new(Kind::Busy, "it answered HTTP 503");
        told.record_failure(ExternalAction::Failed, &fault, Some(Duration::from_secs(1)));
        let choice = InterfaceChoice {
            interface: RemoteInterface {
                url: "https://host/rpc?key=secret".to_owned(),
                binding: Binding::JsonRpc,
                version: Version::V10,
                tenant: String::new(),
            },
            streaming: false,
        };
        told.about("https://host/agent", Some(&choice));
        told.record(ExternalAction::Accepted, "r1");
        let events = told.take();
        let about: Vec<_> = events
            .iter()
            .map(|event| (event.url.as_str(), event.binding.as_str()))
            .collect();
        assert_eq!(
            about,
            [("https://host/agent", ""), ("https://host/rpc", "JSONRPC 1.0")]
        );
        assert_eq!(
            (events[0].failure, events[0].retry_in),
            (ExternalFailure::Busy, Some(Duration::from_secs(1)))
        );
        assert!(told.take().is_empty());
    }

    #[test]
    fn a_breach_is_told_as_no_failure() {
        let mut told = StepLog::default();
        told.record_violation("it said 3 messages");
        let event = told.take().remove(0);
        assert_eq!(
            (event.action, event.failure, event.detail.as_str()),
            (
                ExternalAction::ProtocolBreach,
                ExternalFailure::Unspecified,
                "it said 3 messages"
            )
        );
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut told = StepLog::default();
        for n in 0..100 {
            told.record(ExternalAction::Accepted, &n.to_string());
        }
        let events = told.take();
        assert_eq!((events.len(), events[MOST - 1].detail.as_str()), (MOST, "99"));
    }
}
