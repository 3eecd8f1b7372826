//! How far an errand has got: the note that is kept with the task, so that after a restart it goes on from there. PURE.

use serde_json::{Value, json};

use super::interface::{Binding, InterfaceChoice, RemoteInterface};
use crate::protocol::version::Version;

/// How far an errand has got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeliveryCheckpoint {
    /// How the agent is spoken to; what was begun one way goes on so.
    pub(crate) choice: Option<InterfaceChoice>,
    /// The agent's id of the task; empty: none is known.
    pub(crate) task: String,
    /// The agent's id of the conversation; empty: none is known.
    pub(crate) context: String,
    /// Messages that the agent has taken.
    pub(crate) taken: usize,
    /// The next one is on its way: the agent may have it.
    pub(crate) sending: bool,
    /// The agent answered the last one by a message, and no task was seen since.
    pub(crate) answered: bool,
}

impl DeliveryCheckpoint {
    /// As it is kept.
    pub(crate) fn write(&self) -> Vec<u8> {
        let choice = self.choice.as_ref().map(|choice| {
            json!({
                "url": choice.interface.url,
                "binding": choice.interface.binding.word(),
                "version": choice.interface.version.as_str(),
                "tenant": choice.interface.tenant,
                "streaming": choice.streaming,
            })
        });
        let place = json!({
            "choice": choice, "task": self.task, "context": self.context, "taken": self.taken, "sending": self.sending,
            "answered": self.answered,
        });
        place.to_string().into_bytes()
    }

    /// As it was kept; `None` when that cannot be read. Nothing is the beginning.
    pub(crate) fn read(kept: &[u8]) -> Option<Self> {
        if kept.is_empty() {
            return Some(Self::default());
        }
        let place: Value = serde_json::from_slice(kept).ok()?;
        let text = |value: &Value, name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let choice = match place.get("choice")? {
            Value::Null => None,
            choice => Some(InterfaceChoice {
                interface: RemoteInterface {
                    url: text(choice, "url")?,
                    binding: Binding::parse(&text(choice, "binding")?)?,
                    version: Version::from_header(choice.get("version")?.as_str()).ok()?,
                    tenant: text(choice, "tenant")?,
                },
                streaming: choice.get("streaming")?.as_bool()?,
            }),
        };
        Some(Self {
            choice,
            task: text(&place, "task")?,
            context: text(&place, "context")?,
            taken: usize::try_from(place.get("taken")?.as_u64()?).ok()?,
            sending: place.get("sending")?.as_bool()?,
            // Older versions do not write it.
            answered: place.get("answered").and_then(Value::as_bool).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::{option, prelude::*};

    use super::*;

    fn any_choice() -> impl Strategy<Value = InterfaceChoice> {
        let binding = prop_oneof![Just(Binding::JsonRpc), Just(Binding::Rest), Just(Binding::Grpc)];
        let version = prop_oneof![Just(Version::V03), Just(Version::V10)];
        ("\\PC{0,9}", binding, version, "\\PC{0,9}", any::<bool>()).prop_map(
            |(url, binding, version, tenant, streaming)| InterfaceChoice {
                interface: RemoteInterface {
                    url,
                    binding,
                    version,
                    tenant,
                },
                streaming,
            },
        )
    }

    proptest! {
        #[test]
        fn it_is_read_as_it_was_written(
            choice in option::of(any_choice()), task in "\\PC{0,9}", context in "\\PC{0,9}", taken in 0..9_usize, sending: bool,
            answered: bool,
        ) {
            let place = DeliveryCheckpoint { choice, task, context, taken, sending, answered };
            prop_assert_eq!(DeliveryCheckpoint::read(&place.write()), Some(place));
        }

        #[test]
        fn whatever_is_kept_does_no_harm(kept in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = DeliveryCheckpoint::read(&kept);
        }
    }

    #[test]
    fn nothing_is_the_beginning() {
        assert_eq!(DeliveryCheckpoint::read(b""), Some(DeliveryCheckpoint::default()));
        assert_eq!(DeliveryCheckpoint::read(b"{}"), None);
    }
}
