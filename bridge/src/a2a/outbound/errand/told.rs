//! What is done to run an errand, until it is told with the next report. PURE.

use std::time::Duration;

use agentanycast_program::address::bare_url;
use agentanycast_proto::v1::{OutsideDeed, OutsideFailure};

use crate::{
    a2a::outbound::{choice::Choice, fault::Fault},
    gateway::Deed,
};

/// Deeds that wait to be told; each step does fewer.
const MOST: usize = 8;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Told {
    url: String,
    binding: String,
    deeds: Vec<Deed>,
}

impl Told {
    /// What is done from now on is about this interface, or while there is none about where the errand leads.
    pub(super) fn about(&mut self, url: &str, choice: Option<&Choice>) {
        let interface = choice.map(|choice| &choice.interface);
        self.url = bare_url(interface.map_or(url, |interface| &interface.url));
        self.binding = interface.map_or_else(String::new, |interface| {
            format!("{} {}", interface.binding.word(), interface.version.as_str())
        });
    }

    /// Something was done.
    pub(super) fn did(&mut self, what: OutsideDeed, detail: &str) {
        self.put(what, detail.to_owned(), OutsideFailure::Unspecified, None);
    }

    /// The agent answered otherwise than A2A says: what it said, and how that is taken.
    pub(super) fn breach(&mut self, detail: &str) {
        self.did(OutsideDeed::ProtocolBreach, detail);
    }

    /// Something failed, and what that means.
    pub(super) fn failed(&mut self, what: OutsideDeed, fault: &Fault, again_in: Option<Duration>) {
        let failure = fault.kind().told();
        self.put(what, fault.to_string(), failure, again_in);
    }

    fn put(
        &mut self,
        what: OutsideDeed,
        detail: String,
        failure: OutsideFailure,
        again_in: Option<Duration>,
    ) {
        if self.deeds.len() >= MOST {
            self.deeds.remove(0);
        }
        self.deeds.push(Deed {
            what,
            url: self.url.clone(),
            binding: self.binding.clone(),
            detail,
            failure,
            again_in,
        });
    }

    /// What is to be told.
    pub(super) fn take(&mut self) -> Vec<Deed> {
        std::mem::take(&mut self.deeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::{
        outbound::{
            choice::{Binding, Interface},
            fault::Kind,
        },
        version::Version,
    };

    #[test]
    fn whom_it_was_about_is_told_without_secrets() {
        let mut told = Told::default();
        told.about("https://user:secret@host/agent?key=secret", None);
        let fault = Fault::new(Kind::Busy, "it answered HTTP 503");
        told.failed(OutsideDeed::Failed, &fault, Some(Duration::from_secs(1)));
        let choice = Choice {
            interface: Interface {
                url: "https://host/rpc?key=secret".to_owned(),
                binding: Binding::JsonRpc,
                version: Version::V10,
                tenant: String::new(),
            },
            streaming: false,
        };
        told.about("https://host/agent", Some(&choice));
        told.did(OutsideDeed::Given, "r1");
        let deeds = told.take();
        let about: Vec<_> = deeds
            .iter()
            .map(|deed| (deed.url.as_str(), deed.binding.as_str()))
            .collect();
        assert_eq!(
            about,
            [("https://host/agent", ""), ("https://host/rpc", "JSONRPC 1.0")]
        );
        assert_eq!(
            (deeds[0].failure, deeds[0].again_in),
            (OutsideFailure::Busy, Some(Duration::from_secs(1)))
        );
        assert!(told.take().is_empty());
    }

    #[test]
    fn a_breach_is_told_as_no_failure() {
        let mut told = Told::default();
        told.breach("it said 3 messages");
        let deed = told.take().remove(0);
        assert_eq!(
            (deed.what, deed.failure, deed.detail.as_str()),
            (
                OutsideDeed::ProtocolBreach,
                OutsideFailure::Unspecified,
                "it said 3 messages"
            )
        );
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut told = Told::default();
        for n in 0..100 {
            told.did(OutsideDeed::Given, &n.to_string());
        }
        let deeds = told.take();
        assert_eq!((deeds.len(), deeds[MOST - 1].detail.as_str()), (MOST, "99"));
    }
}
