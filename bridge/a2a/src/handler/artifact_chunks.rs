//! A result that is read as it is produced: each piece is an event of its own. Text comes as text, cut only between
//! letters; everything else as bytes. The last piece says that it is the last: no empty piece follows it.

use std::{sync::Arc, time::Duration};

use agentanycast_gateway::TaskHandle;
use agentanycast_proto::v1::{self, Part, RawPart, TextPart, part::Content};
use async_stream::try_stream;
use futures::{StreamExt as _, stream::BoxStream};
use tokio::time::{Instant, sleep_until};

use crate::protocol::{diff::TaskEvent, error::A2aError};

/// How long a piece waits to be the last one. The end follows the last piece at once; a reader who watches text grow
/// does not see that it waits.
const HOLD: Duration = Duration::from_millis(50);

/// The pieces of a result that is shown by reference. When the end comes late, the last event has no part.
pub(super) fn chunk_events(
    handle: &Arc<dyn TaskHandle>,
    artifact: v1::Artifact,
) -> BoxStream<'static, Result<TaskEvent, A2aError>> {
    let mut bytes = handle.stream(&artifact.artifact_id);
    let stream = try_stream! {
        let mut pieces = ArtifactChunker::new(artifact);
        let mut held: Option<(TaskEvent, Instant)> = None;
        loop {
            let chunk = match held.take() {
                None => bytes.next().await,
                Some((piece, until)) => tokio::select! {
                    biased;
                    chunk = bytes.next() => {
                        held = Some((piece, until));
                        chunk
                    }
                    () = sleep_until(until) => {
                        yield piece;
                        continue;
                    }
                },
            };
            match chunk {
                Some(Ok(chunk)) => {
                    if let Some(piece) = pieces.take(&chunk)
                        && let Some((before, _)) = held.replace((piece, Instant::now() + HOLD))
                    {
                        yield before;
                    }
                }
                // What is missing of the result is told by the state of the task.
                Some(Err(error)) => {
                    tracing::debug!(%error, "a result broke off");
                    if let Some((piece, _)) = held {
                        yield piece;
                    }
                    return;
                }
                None => break,
            }
        }
        for piece in pieces.end(held.map(|(piece, _)| piece)) {
            yield piece;
        }
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

    /// The end, with the piece that was held and what was left.
    fn end(&mut self, held: Option<TaskEvent>) -> Vec<TaskEvent> {
        let rest = std::mem::take(&mut self.rest);
        match held {
            Some(TaskEvent::Artifact { artifact, append, .. }) if rest.is_empty() => {
                vec![TaskEvent::Artifact {
                    artifact,
                    append,
                    last: true,
                }]
            }
            held => {
                let end = match (rest.is_empty(), self.begun) {
                    (true, true) => self.event(None, true),
                    (true, false) if self.is_text => self.text(String::new(), true),
                    (true | false, _) => self.raw(rest, true),
                };
                held.into_iter().chain([end]).collect()
            }
        }
    }

    fn text(&mut self, text: String, last: bool) -> TaskEvent {
        self.event(Some(Content::TextPart(TextPart { text })), last)
    }

    fn raw(&mut self, data: Vec<u8>, last: bool) -> TaskEvent {
        let filename = self.artifact.name.clone();
        self.event(Some(Content::RawPart(RawPart { data, filename })), last)
    }

    fn event(&mut self, content: Option<Content>, last: bool) -> TaskEvent {
        let append = std::mem::replace(&mut self.begun, true);
        let part = content.map(|content| Part {
            content: Some(content),
            media_type: self.media_type.clone(),
            ..Part::default()
        });
        TaskEvent::Artifact {
            artifact: v1::Artifact {
                artifact_id: self.artifact.artifact_id.clone(),
                name: self.artifact.name.clone(),
                parts: part.into_iter().collect(),
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
        let bytes = artifact
            .parts
            .iter()
            .flat_map(|part| match part.content.clone().unwrap() {
                Content::TextPart(part) => part.text.into_bytes(),
                Content::RawPart(part) => part.data,
                other => panic!("{other:?}"),
            });
        (bytes.collect(), append, last)
    }

    fn ended(pieces: &mut ArtifactChunker, held: Option<TaskEvent>) -> Vec<(Vec<u8>, bool, bool)> {
        pieces.end(held).into_iter().map(content).collect()
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
        let held = pieces.take(b"b");
        assert_eq!(ended(&mut pieces, held), [(b"b".to_vec(), true, true)]);
    }

    #[test]
    fn the_end_alone_has_no_part() {
        let mut late = pieces("text/plain");
        late.take(b"a").unwrap();
        let [TaskEvent::Artifact { artifact, last, .. }] = &late.end(None)[..] else {
            panic!("one event ends it")
        };
        assert!(artifact.parts.is_empty() && *last);
        let mut cut = pieces("text/plain");
        let held = cut.take(b"a");
        assert!(cut.take(&[0xc3]).is_none());
        let end = [(b"a".to_vec(), false, false), (vec![0xc3], true, true)];
        assert_eq!(ended(&mut cut, held), end);
        for media_type in ["text/plain", "image/png"] {
            let mut empty = pieces(media_type);
            let [
                TaskEvent::Artifact {
                    artifact,
                    append,
                    last,
                },
            ] = &empty.end(None)[..]
            else {
                panic!("one event is all of it")
            };
            assert_eq!((artifact.parts.len(), *append, *last), (1, false, true));
        }
    }

    #[test]
    fn no_byte_is_lost_that_is_no_text() {
        let mut pieces = pieces("text/plain");
        let mut all = content(pieces.take(&[b'a', 0xc3]).unwrap()).0;
        all.extend(content(pieces.take(&[0xff, b'b']).unwrap()).0);
        all.extend(ended(&mut pieces, None).into_iter().flat_map(|piece| piece.0));
        assert_eq!(all, [b'a', 0xc3, 0xff, b'b']);
    }
}
