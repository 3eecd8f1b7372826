//! An artifact of an agent beyond this network that is read while it grows: what is new of it, piece by piece, and how
//! it ends. PURE.
//!
//! Used by `artifact_reading`. Invariant: what was sent is the beginning of what is kept; it ends as complete only
//! when nothing follows.

use std::sync::Arc;

use agentanycast_core::{
    delivery::artifact::CHUNK,
    task::{ArtifactGrowth, Output},
};
use agentanycast_proto::v1::{Artifact, StreamChunk, StreamEndReason, subscribe_task_stream_response::Event};

use super::artifact_content::{self, ArtifactPieces};

/// Why a reader cannot go on where it was: pieces are cut as they come, so their numbers differ from reader to reader.
const NOT_RESUMED: &str = "it comes in pieces and cannot be read from the middle on; read the task";

const REPLACED: &str = "its agent replaced what came of it; read the task";

const UNFINISHED: &str = "the task ended before its agent said that the artifact is complete";

/// See the module's text.
pub(super) struct GrowingArtifact {
    task_id: String,
    /// What was sent.
    sent: Arc<Output>,
    bytes: u64,
    sequence: i32,
    is_over: bool,
}

impl GrowingArtifact {
    /// Before anything of it is sent, with its first event.
    pub(super) fn new(task_id: &str, artifact: &Artifact) -> (Self, Event) {
        let nothing = Artifact {
            artifact_id: artifact.artifact_id.clone(),
            ..Artifact::default()
        };
        let growing = Self {
            task_id: task_id.to_owned(),
            sent: Arc::new(Output::Whole(nothing)),
            bytes: 0,
            sequence: 0,
            is_over: false,
        };
        (
            growing,
            Event::StreamStart(artifact_content::start(task_id, artifact)),
        )
    }

    /// Whether its end was sent.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// What is to be sent of it as it is now.
    pub(super) fn grow(
        &mut self,
        now: &Arc<Output>,
        growth: ArtifactGrowth,
    ) -> impl Iterator<Item = Event> + use<> {
        let is_kept = artifact_content::starts_with(now, &self.sent);
        let length = artifact_content::output_length(now);
        let first = self.sequence;
        let end = match growth {
            _ if !is_kept => Some((StreamEndReason::Error, REPLACED)),
            ArtifactGrowth::Open => None,
            ArtifactGrowth::Complete => Some((StreamEndReason::Complete, "")),
            ArtifactGrowth::Unfinished => Some((StreamEndReason::Error, UNFINISHED)),
        };
        self.is_over = end.is_some();
        let is_complete = matches!(end, Some((StreamEndReason::Complete, _)));
        let (task_id, artifact_id) = (self.task_id.clone(), now.id().to_owned());
        let end = end.map(|(reason, why)| {
            Event::StreamEnd(artifact_content::end(&task_id, &artifact_id, reason, why))
        });
        let pieces = is_kept.then(|| ArtifactPieces::new(Arc::clone(now), self.bytes));
        if is_kept {
            self.sequence += (length - self.bytes).div_ceil(CHUNK as u64) as i32;
            self.bytes = length;
            self.sent = Arc::clone(now);
        }
        let after = self.sequence;
        let chunks = (first..)
            .zip(pieces.into_iter().flatten())
            .map(move |(sequence, data)| {
                Event::StreamChunk(StreamChunk {
                    task_id: task_id.clone(),
                    artifact_id: artifact_id.clone(),
                    sequence,
                    data,
                    is_last: is_complete && sequence + 1 == after,
                })
            });
        chunks.chain(end)
    }
}

/// What a reader is told that wants to go on in the middle of such an artifact.
pub(super) fn not_resumed(task_id: &str, artifact: &Artifact) -> [Event; 2] {
    [
        Event::StreamStart(artifact_content::start(task_id, artifact)),
        Event::StreamEnd(artifact_content::end(
            task_id,
            &artifact.artifact_id,
            StreamEndReason::Error,
            NOT_RESUMED,
        )),
    ]
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::{Part, TextPart, part::Content};

    use super::*;

    fn output(texts: &[&str]) -> Arc<Output> {
        let parts = texts.iter().map(|text| Part {
            content: Some(Content::TextPart(TextPart {
                text: (*text).to_owned(),
            })),
            ..Part::default()
        });
        Arc::new(Output::Whole(Artifact {
            artifact_id: "a".to_owned(),
            parts: parts.collect(),
            ..Artifact::default()
        }))
    }

    fn told(events: impl Iterator<Item = Event>) -> Vec<String> {
        let told = events.map(|event| match event {
            Event::StreamStart(_) => "start".to_owned(),
            Event::StreamChunk(chunk) => {
                let text = String::from_utf8(chunk.data.to_vec()).unwrap();
                format!(
                    "{} {text}{}",
                    chunk.sequence,
                    if chunk.is_last { " last" } else { "" }
                )
            }
            Event::StreamEnd(end) => format!("{:?}", end.reason()),
        });
        told.collect()
    }

    fn beginning() -> GrowingArtifact {
        GrowingArtifact::new("t", &Artifact::default()).0
    }

    #[test]
    fn each_byte_is_sent_once_and_the_end_is_the_end() {
        let mut growing = beginning();
        let long = "x".repeat(CHUNK);
        for (texts, growth, expected) in [
            (&["ab"][..], ArtifactGrowth::Open, &["0 ab"][..]),
            (&["ab"], ArtifactGrowth::Open, &[]),
            (&["abc", "d"], ArtifactGrowth::Open, &["1 cd"]),
            (
                &["abcd", &long, "e"],
                ArtifactGrowth::Complete,
                &[&format!("2 {long}"), "3 e last", "Complete"],
            ),
        ] {
            assert!(!growing.is_over());
            assert_eq!(told(growing.grow(&output(texts), growth)), expected);
        }
        assert!(growing.is_over());
        let mut growing = beginning();
        assert_eq!(told(growing.grow(&output(&["a"]), ArtifactGrowth::Open)), ["0 a"]);
        let end = told(growing.grow(&output(&["a"]), ArtifactGrowth::Complete));
        assert_eq!(end, ["Complete"]);
    }

    #[test]
    fn what_is_not_all_of_it_is_not_complete() {
        let mut growing = beginning();
        let end = told(growing.grow(&output(&["ab"]), ArtifactGrowth::Unfinished));
        assert_eq!(end, ["0 ab", "Error"]);
        for growth in [ArtifactGrowth::Open, ArtifactGrowth::Complete] {
            let mut growing = beginning();
            assert_eq!(
                told(growing.grow(&output(&["ab"]), ArtifactGrowth::Open)),
                ["0 ab"]
            );
            assert_eq!(told(growing.grow(&output(&["ba"]), growth)), ["Error"]);
            assert!(growing.is_over());
        }
        assert_eq!(
            told(not_resumed("t", &Artifact::default()).into_iter()),
            ["start", "Error"]
        );
    }
}
