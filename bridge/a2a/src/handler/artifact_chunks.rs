//! A result that is read as it is produced: each piece is an event of its own. Text comes as text, cut only between
//! letters; everything else as bytes.

use std::sync::Arc;

use agentanycast_gateway::TaskHandle;
use agentanycast_proto::v1::{self, Part, RawPart, TextPart, part::Content};
use async_stream::try_stream;
use futures::{StreamExt as _, stream::BoxStream};

use crate::protocol::{diff::TaskEvent, error::A2aError};

/// The pieces of a result that is shown by reference.
pub(super) fn chunk_events(
    handle: &Arc<dyn TaskHandle>,
    artifact: v1::Artifact,
) -> BoxStream<'static, Result<TaskEvent, A2aError>> {
    let mut bytes = handle.stream(&artifact.artifact_id);
    let stream = try_stream! {
        let mut pieces = ArtifactChunker::new(artifact);
        while let Some(chunk) = bytes.next().await {
            match chunk {
                Ok(chunk) => {
                    if let Some(event) = pieces.take(&chunk) {
                        yield event;
                    }
                }
                // What is missing of the result is told by the state of the task.
                Err(error) => {
                    tracing::debug!(%error, "a result broke off");
                    return;
                }
            }
        }
        yield pieces.end();
    };
    stream.boxed()
}

/// Makes events of bytes. PURE.
struct ArtifactChunker {
    artifact: v1::Artifact,
    media_type: String,
    is_text: bool,
    /// The beginning of a letter.
    rest: Vec<u8>,
    begun: bool,
}

impl ArtifactChunker {
    fn new(artifact: v1::Artifact) -> Self {
        let media_type = artifact
            .parts
            .first()
            .map(|part| part.media_type.clone())
            .unwrap_or_default();
        Self {
            is_text: media_type.starts_with("text/"),
            media_type,
            artifact,
            rest: Vec::new(),
            begun: false,
        }
    }

    /// The next piece; `None` when it is not even a letter.
    fn take(&mut self, chunk: &[u8]) -> Option<TaskEvent> {
        if !self.is_text {
            return Some(self.raw(chunk.to_vec(), false));
        }
        self.rest.extend_from_slice(chunk);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(_) => self.rest.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => {
                // It only said that it was text.
                self.is_text = false;
                let bytes = std::mem::take(&mut self.rest);
                return Some(self.raw(bytes, false));
            }
        };
        let rest = self.rest.split_off(whole);
        let text = std::mem::replace(&mut self.rest, rest);
        if text.is_empty() {
            return None;
        }
        Some(self.text(String::from_utf8_lossy(&text).into_owned(), false))
    }

    /// The end, which has what was left.
    fn end(&mut self) -> TaskEvent {
        let rest = std::mem::take(&mut self.rest);
        if self.is_text && rest.is_empty() {
            self.text(String::new(), true)
        } else {
            self.raw(rest, true)
        }
    }

    fn text(&mut self, text: String, last: bool) -> TaskEvent {
        self.event(Content::TextPart(TextPart { text }), last)
    }

    fn raw(&mut self, data: Vec<u8>, last: bool) -> TaskEvent {
        let filename = self.artifact.name.clone();
        self.event(Content::RawPart(RawPart { data, filename }), last)
    }

    fn event(&mut self, content: Content, last: bool) -> TaskEvent {
        let append = std::mem::replace(&mut self.begun, true);
        let part = Part {
            content: Some(content),
            media_type: self.media_type.clone(),
            ..Part::default()
        };
        TaskEvent::Artifact {
            artifact: v1::Artifact {
                artifact_id: self.artifact.artifact_id.clone(),
                name: self.artifact.name.clone(),
                parts: vec![part],
                size_bytes: 0,
            },
            append,
            last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(media_type: &str) -> ArtifactChunker {
        ArtifactChunker::new(v1::Artifact {
            parts: vec![Part {
                media_type: media_type.to_owned(),
                ..Part::default()
            }],
            ..v1::Artifact::default()
        })
    }

    fn content(event: TaskEvent) -> (Vec<u8>, bool, bool) {
        let TaskEvent::Artifact {
            artifact,
            append,
            last,
        } = event
        else {
            panic!("{event:?}")
        };
        let bytes = match artifact.parts[0].content.clone().unwrap() {
            Content::TextPart(part) => part.text.into_bytes(),
            Content::RawPart(part) => part.data,
            other => panic!("{other:?}"),
        };
        (bytes, append, last)
    }

    #[test]
    fn text_is_cut_between_letters() {
        let mut pieces = pieces("text/plain");
        let umlaut = "ä".as_bytes();
        assert_eq!(
            content(pieces.take(&[b'a', umlaut[0]]).unwrap()),
            (b"a".to_vec(), false, false)
        );
        assert!(pieces.take(&[]).is_none());
        assert_eq!(
            content(pieces.take(&umlaut[1..]).unwrap()),
            (umlaut.to_vec(), true, false)
        );
        assert_eq!(content(pieces.end()), (Vec::new(), true, true));
    }

    #[test]
    fn no_byte_is_lost_that_is_no_text() {
        let mut pieces = pieces("text/plain");
        let mut all = content(pieces.take(&[b'a', 0xc3]).unwrap()).0;
        all.extend(content(pieces.take(&[0xff, b'b']).unwrap()).0);
        all.extend(content(pieces.end()).0);
        assert_eq!(all, [b'a', 0xc3, 0xff, b'b']);
    }
}
