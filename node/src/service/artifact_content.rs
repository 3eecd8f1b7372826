//! The content of a whole artifact as the bytes of a stream: raw and text parts one after the other, any other
//! part as its protobuf encoding. The one rule: it is cut as it is read; whoever stops reading holds one piece
//! besides the artifact itself, which is shared.

use std::{mem, sync::Arc};

use agentanycast_core::{delivery::artifact::CHUNK, task::Output};
use agentanycast_proto::v1::{Artifact, Part, StreamEnd, StreamEndReason, StreamStart, part::Content};
use bytes::{Bytes, BytesMut};
use prost::Message as _;

/// Bytes of content.
pub(super) fn length(artifact: &Artifact) -> u64 {
    artifact.parts.iter().map(|part| part_length(part) as u64).sum()
}

/// Bytes of content of a result that is kept with its task.
pub(super) fn output_length(output: &Output) -> u64 {
    match output {
        Output::Whole(artifact) => length(artifact),
        Output::Streamed(_) => 0,
    }
}

/// Whether the content of one result begins with that of another.
pub(super) fn starts_with(output: &Arc<Output>, start: &Arc<Output>) -> bool {
    if Arc::ptr_eq(output, start) {
        return true;
    }
    let mut all = ArtifactPieces::new(Arc::clone(output), 0);
    ArtifactPieces::new(Arc::clone(start), 0).all(|piece| all.next().is_some_and(|of| of.starts_with(&piece)))
}

/// How the stream of an artifact begins.
pub(super) fn start(task_id: &str, artifact: &Artifact) -> StreamStart {
    let first = artifact.parts.first();
    StreamStart {
        task_id: task_id.to_owned(),
        artifact_id: artifact.artifact_id.clone(),
        artifact_name: artifact.name.clone(),
        media_type: first.map(|part| part.media_type.clone()).unwrap_or_default(),
        ..StreamStart::default()
    }
}

/// How it ends; `why` where that is an error.
pub(super) fn end(task_id: &str, artifact_id: &str, reason: StreamEndReason, why: &str) -> StreamEnd {
    StreamEnd {
        task_id: task_id.to_owned(),
        artifact_id: artifact_id.to_owned(),
        reason: reason.into(),
        error_message: why.to_owned(),
    }
}

fn part_length(part: &Part) -> usize {
    match &part.content {
        Some(Content::RawPart(raw)) => raw.data.len(),
        Some(Content::TextPart(text)) => text.text.len(),
        Some(_) => part.encoded_len(),
        None => 0,
    }
}

/// The pieces of an artifact's content, [`CHUNK`] bytes each, the last one shorter. None when it is empty.
pub(super) struct ArtifactPieces {
    output: Arc<Output>,
    /// The part that the next byte is of.
    part: usize,
    /// What is left of it, if it has to be encoded.
    encoded: Bytes,
    /// Where the next byte is in it, if it has not.
    offset: usize,
}

impl ArtifactPieces {
    /// Of this result, without its first bytes.
    pub(super) fn new(output: Arc<Output>, from: u64) -> Self {
        let mut pieces = Self {
            output,
            part: 0,
            encoded: Bytes::new(),
            offset: 0,
        };
        let mut skip = usize::try_from(from).unwrap_or(usize::MAX);
        while skip > 0 {
            let taken = pieces.with_part_bytes(skip, |_| ());
            if taken == 0 {
                break;
            }
            skip -= taken;
        }
        pieces
    }

    /// Gives the next bytes, at most `most`, to `f`; how many they were. 0 only at the end.
    fn with_part_bytes(&mut self, most: usize, f: impl FnOnce(&[u8])) -> usize {
        loop {
            if !self.encoded.is_empty() {
                let piece = self.encoded.split_to(most.min(self.encoded.len()));
                f(&piece);
                return piece.len();
            }
            let Output::Whole(artifact) = &*self.output else {
                return 0;
            };
            let Some(part) = artifact.parts.get(self.part) else {
                return 0;
            };
            let bytes = match &part.content {
                Some(Content::RawPart(raw)) => &raw.data[self.offset..],
                Some(Content::TextPart(text)) => &text.text.as_bytes()[self.offset..],
                Some(_) => {
                    self.encoded = part.encode_to_vec().into();
                    &[]
                }
                None => &[],
            };
            if bytes.is_empty() {
                self.part += 1;
                self.offset = 0;
                continue;
            }
            let count = most.min(bytes.len());
            f(&bytes[..count]);
            self.offset += count;
            return count;
        }
    }
}

impl Iterator for ArtifactPieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut piece = BytesMut::new();
        while piece.len() < CHUNK {
            let mut room = mem::take(&mut piece);
            let taken = self.with_part_bytes(CHUNK - room.len(), |bytes| room.extend_from_slice(bytes));
            piece = room;
            if taken == 0 {
                break;
            }
        }
        (!piece.is_empty()).then(|| piece.freeze())
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::{RawPart, TextPart, UrlPart};

    use super::*;

    fn part(content: Content) -> Part {
        Part {
            content: Some(content),
            ..Part::default()
        }
    }

    fn artifact(parts: Vec<Part>) -> Arc<Output> {
        Arc::new(Output::Whole(Artifact {
            parts,
            ..Artifact::default()
        }))
    }

    #[test]
    fn pieces_are_the_content_from_any_place() {
        let raw: Vec<u8> = (0..2 * CHUNK + 17).map(|n| n as u8).collect();
        let url = part(Content::UrlPart(UrlPart {
            url: "https://example.org".to_owned(),
            filename: "x".repeat(CHUNK),
        }));
        let text = "ä".repeat(100);
        let output = artifact(vec![
            part(Content::TextPart(TextPart { text: text.clone() })),
            Part::default(),
            part(Content::RawPart(RawPart {
                data: raw.clone(),
                ..RawPart::default()
            })),
            url.clone(),
            part(Content::TextPart(TextPart::default())),
        ]);
        let whole = [text.as_bytes(), &raw, &url.encode_to_vec()].concat();
        let Output::Whole(inner) = &*output else {
            unreachable!("it was made so")
        };
        assert_eq!(length(inner), whole.len() as u64);
        for from in 0..6 {
            let pieces: Vec<Bytes> =
                ArtifactPieces::new(Arc::clone(&output), (from * CHUNK) as u64).collect();
            assert_eq!(pieces.concat(), &whole[(from * CHUNK).min(whole.len())..]);
            let (last, full) = match pieces.split_last() {
                Some((last, full)) => (last.len(), full),
                None => (1, &[][..]),
            };
            assert!(full.iter().all(|piece| piece.len() == CHUNK) && (1..=CHUNK).contains(&last));
        }
        assert_eq!(ArtifactPieces::new(artifact(Vec::new()), 0).count(), 0);
    }
}
