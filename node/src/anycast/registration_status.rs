//! Whether the local agent is registered at each registry, and why not, as operators see it.
//!
//! PURE. The keeper of a registry notes each answer; `status`, `relays` and `/health` show the last state.

use super::registration_state::RegistryAnswer;

/// How it stands at one registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistrationStatus {
    /// The registry has the local agent, as far as is known.
    pub registered: bool,
    /// Why it does not, or what is wrong with it; empty if nothing is.
    pub reason: String,
    /// The last request to the registry failed.
    failed: bool,
}

/// One registry, and how it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryStatus {
    /// As configured.
    pub address: String,
    /// Its peer id; empty until it has said so.
    pub relay: String,
    /// How it stands there.
    pub status: RegistrationStatus,
}

impl RegistrationStatus {
    /// Not registered, for this reason.
    pub(super) fn unregistered(reason: String) -> Self {
        Self {
            registered: false,
            reason,
            failed: false,
        }
    }

    /// Whether the last request to the registry failed.
    pub(super) const fn has_failed(&self) -> bool {
        self.failed
    }

    /// The registry answered, or failed for this reason; `left_out` is what of the card it was not told, a sentence each.
    pub(super) fn note(&mut self, answer: RegistryAnswer, failure: Option<String>, left_out: &[String]) {
        self.failed = false;
        match answer {
            RegistryAnswer::Done(_) => {
                self.registered = true;
                self.reason = failure.unwrap_or_else(|| left_out.join("; "));
            }
            // It is registered anew at once.
            RegistryAnswer::Unknown => self.registered = false,
            RegistryAnswer::Failed | RegistryAnswer::Refused => {
                *self = Self::unregistered(failure.unwrap_or_default());
                self.failed = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_answer_says_whether_it_is_registered_and_why_not() {
        let mut status = RegistrationStatus::default();
        let failed = || Some("no answer".to_owned());
        status.note(RegistryAnswer::Failed, failed(), &[]);
        assert!(status.has_failed() && !status.registered && status.reason == "no answer");
        status.note(RegistryAnswer::Unknown, Some("not here".to_owned()), &[]);
        assert_eq!(status.reason, "no answer");
        status.note(RegistryAnswer::Done(Duration::from_secs(30)), None, &[]);
        assert!(status.registered && status.reason.is_empty());
        let left_out = ["one is missing".to_owned(), "two are".to_owned()];
        status.note(RegistryAnswer::Done(Duration::from_secs(30)), None, &left_out);
        assert!(status.registered && status.reason == "one is missing; two are");
        status.note(RegistryAnswer::Refused, failed(), &[]);
        assert!(!status.registered);
    }
}
