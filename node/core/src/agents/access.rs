//! Who may use an agent, and who has said so. PURE.
//!
//! What the owner has said of an agent stays until the owner says otherwise. Else each registration says it, for as long as
//! it stands; one that says nothing changes nothing. An agent that was registered before there was access is open, and is
//! made private by nobody but its owner, or a program that asks for it.

use crate::types::{AgentAccess, RegistrationAccess};

/// The access of a registered agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordedAccess {
    /// `None`: it was registered before there was access.
    pub access: Option<AgentAccess>,
    /// The owner has said so.
    pub is_set: bool,
}

impl RecordedAccess {
    /// Of an agent that is registered for the first time.
    pub(super) fn of_new(asked: RegistrationAccess) -> Self {
        let access = match asked {
            RegistrationAccess::AsBefore => AgentAccess::Open,
            RegistrationAccess::Is(access) | RegistrationAccess::Default(access) => access,
        };
        Self {
            access: Some(access),
            is_set: false,
        }
    }

    /// Of one that is registered again.
    pub(super) fn again(self, asked: RegistrationAccess) -> Self {
        let access = match (self.is_set, asked) {
            (true, _) | (_, RegistrationAccess::AsBefore) => self.access,
            (_, RegistrationAccess::Is(access)) => Some(access),
            (_, RegistrationAccess::Default(access)) => self.access.map(|_| access),
        };
        Self { access, ..self }
    }

    /// As the owner says.
    pub(super) fn set(access: AgentAccess) -> Self {
        Self {
            access: Some(access),
            is_set: true,
        }
    }

    pub(super) fn is_private(self) -> bool {
        self.access == Some(AgentAccess::Private)
    }
}

#[cfg(test)]
mod tests {
    use AgentAccess::{Open, Private};
    use RegistrationAccess::{AsBefore, Default, Is};

    use super::*;

    #[test]
    fn who_says_last_and_who_counts() {
        let of_new = |asked| RecordedAccess::of_new(asked).access.unwrap();
        for (asked, access) in [
            (AsBefore, Open),
            (Is(Open), Open),
            (Is(Private), Private),
            (Default(Private), Private),
            (Default(Open), Open),
        ] {
            assert_eq!(of_new(asked), access, "{asked:?}");
        }
        let before = RecordedAccess::default();
        for (record, asked, access) in [
            (before, AsBefore, None),
            (before, Default(Private), None),
            (before, Is(Private), Some(Private)),
            (RecordedAccess::of_new(Is(Private)), AsBefore, Some(Private)),
            (RecordedAccess::of_new(Is(Open)), Default(Private), Some(Private)),
            (RecordedAccess::set(Private), Is(Open), Some(Private)),
            (RecordedAccess::set(Open), Default(Private), Some(Open)),
        ] {
            let after = record.again(asked);
            assert_eq!(
                (after.access, after.is_set),
                (access, record.is_set),
                "{record:?} {asked:?}"
            );
        }
        assert!(!before.is_private() && RecordedAccess::set(Private).is_private());
    }
}
