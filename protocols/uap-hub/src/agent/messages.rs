//! Short ways to make the protocol's messages, for programs that are execution agents. PURE.

use bytes::Bytes;

use crate::v1::{Attachment, Payload, PayloadRequirement, Severity, StepReport, StepStatus, Telemetry};

impl PayloadRequirement {
    /// A session has a payload of the type `kind`.
    pub fn required(kind: impl Into<String>) -> Self {
        Self {
            r#type: kind.into(),
            is_required: true,
            ..Self::default()
        }
    }

    /// A session may have a payload of the type `kind`.
    pub fn optional(kind: impl Into<String>) -> Self {
        Self {
            is_required: false,
            ..Self::required(kind)
        }
    }

    /// It may have several of them.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// The attachment may have this media type, besides others that are given so. Without any: all.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.accepted_mime_types.push(mime_type.into());
        self
    }
}

impl Attachment {
    /// A file.
    pub fn new(name: impl Into<String>, mime_type: impl Into<String>, data: impl Into<Bytes>) -> Self {
        Self {
            name: name.into(),
            mime_type: mime_type.into(),
            data: data.into(),
        }
    }
}

impl Payload {
    /// A payload of the type `kind` whose content is a file.
    pub fn of_file(kind: impl Into<String>, attachment: Attachment) -> Self {
        Self {
            r#type: kind.into(),
            attachment: Some(attachment),
            metadata: None,
        }
    }
}

impl StepReport {
    /// A step that passed.
    pub fn passed(name: impl Into<String>) -> Self {
        Self::with_status(name.into(), StepStatus::Passed)
    }

    /// A step that failed.
    pub fn failed(name: impl Into<String>) -> Self {
        Self::with_status(name.into(), StepStatus::Failed)
    }

    /// A step that was not run.
    pub fn skipped(name: impl Into<String>) -> Self {
        Self::with_status(name.into(), StepStatus::Skipped)
    }

    /// A step that the given ones make up: it failed if one of them failed, is skipped if all of them are,
    /// and passed otherwise.
    pub fn from_steps(name: impl Into<String>, steps: Vec<Self>) -> Self {
        let status = if steps.iter().any(|step| step.status() == StepStatus::Failed) {
            StepStatus::Failed
        } else if !steps.is_empty() && steps.iter().all(|step| step.status() == StepStatus::Skipped) {
            StepStatus::Skipped
        } else {
            StepStatus::Passed
        };
        Self {
            steps,
            ..Self::with_status(name.into(), status)
        }
    }

    fn with_status(name: String, status: StepStatus) -> Self {
        Self {
            name,
            status: status.into(),
            ..Self::default()
        }
    }
}

impl Telemetry {
    /// Something to know of. Its time is that of sending, unless one is given.
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            severity: severity.into(),
            ..Self::default()
        }
    }

    /// From this part of the agent or of the test.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// With one more file.
    #[must_use]
    pub fn with_attachment(mut self, attachment: Attachment) -> Self {
        self.attachments.push(attachment);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_what_its_steps_are() {
        let of = |steps: &[StepReport]| StepReport::from_steps("all", steps.to_vec()).status();
        let (passed, failed, skipped) = (
            StepReport::passed("a"),
            StepReport::failed("b"),
            StepReport::skipped("c"),
        );
        assert_eq!(of(&[]), StepStatus::Passed);
        assert_eq!(of(&[passed.clone(), skipped.clone()]), StepStatus::Passed);
        assert_eq!(of(&[skipped.clone(), skipped.clone()]), StepStatus::Skipped);
        assert_eq!(of(&[passed, skipped, failed]), StepStatus::Failed);
    }
}
