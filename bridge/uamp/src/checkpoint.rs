//! What is noted of a stream with its first task, so that a gateway that starts again goes on with the same
//! numbers: the frames that are not acknowledged, and how far each task was told. Used by `stream` and
//! `restore`.
//!
//! Invariant: a chunk is noted by its place in its result, not by its bytes; a note has at most 8 KiB. PURE.

use agentanycast_uamp::{
    delta::DeltaType,
    window::{FrameContent, StreamLog},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::task_events::TaskPosition;

/// The name of the note.
pub(super) const NOTE: &str = "uamp.stream";

/// What is noted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StreamCheckpoint {
    /// The window.
    #[serde(rename = "w")]
    pub(super) window: u64,
    /// How many frames are acknowledged.
    #[serde(rename = "a")]
    pub(super) acked: u64,
    /// The frames behind those.
    #[serde(rename = "f")]
    pub(super) frames: Vec<NotedFrame>,
    /// How far each task was told.
    #[serde(rename = "p")]
    pub(super) positions: Vec<NotedPosition>,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum NotedFrame {
    /// A chunk: task, result, offset, length.
    #[serde(rename = "c")]
    Chunk(u16, String, u64, usize),
    /// Another one: task, type, payload.
    #[serde(rename = "o")]
    Other(u16, String, Map<String, Value>),
    /// The terminal one, which is made of the tasks again.
    #[serde(rename = "e")]
    End,
}

/// How far a task was told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct NotedPosition {
    #[serde(rename = "r", default)]
    artifacts: std::collections::BTreeMap<String, u64>,
    #[serde(rename = "s", default)]
    progress: Map<String, Value>,
}

impl From<&TaskPosition> for NotedPosition {
    fn from(position: &TaskPosition) -> Self {
        Self {
            artifacts: position.artifacts.clone(),
            progress: position.progress.clone(),
        }
    }
}

impl From<NotedPosition> for TaskPosition {
    fn from(noted: NotedPosition) -> Self {
        Self {
            artifacts: noted.artifacts,
            progress: noted.progress,
        }
    }
}

impl StreamCheckpoint {
    /// Of a stream; `None`: there is nothing that its tasks do not tell.
    pub(super) fn of(log: &StreamLog, positions: &[TaskPosition]) -> Option<Self> {
        let frames: Vec<NotedFrame> = log.unacked().map(|frame| noted(&frame.content)).collect();
        if log.acked() == 0 && frames.iter().all(|frame| *frame == NotedFrame::End) {
            return None;
        }
        Some(Self {
            window: log.window(),
            acked: log.acked(),
            frames,
            positions: positions.iter().map(NotedPosition::from).collect(),
        })
    }

    /// Which bytes of which results its chunks have: task, result, first byte, byte after the last.
    pub(super) fn ranges(&self) -> Vec<(u16, String, u64, u64)> {
        let mut ranges: Vec<(u16, String, u64, u64)> = Vec::new();
        for frame in &self.frames {
            let NotedFrame::Chunk(task, artifact, offset, length) = frame else {
                continue;
            };
            let end = offset + *length as u64;
            match ranges
                .iter_mut()
                .find(|known| known.0 == *task && known.1 == *artifact)
            {
                Some(known) => {
                    known.2 = known.2.min(*offset);
                    known.3 = known.3.max(end);
                }
                None => ranges.push((*task, artifact.clone(), *offset, end)),
            }
        }
        ranges
    }

    /// The contents of its frames; `piece` gives the bytes of a chunk with their media type, `end` the
    /// terminal frame.
    pub(super) fn contents(
        &self,
        piece: impl Fn(u16, &str, u64, usize) -> Option<(String, Bytes)>,
        end: impl Fn() -> Option<(DeltaType, Map<String, Value>)>,
    ) -> Option<Vec<FrameContent>> {
        let content = |frame: &NotedFrame| match frame {
            NotedFrame::Chunk(task, artifact, offset, length) => {
                let (mime, bytes) = piece(*task, artifact, *offset, *length)?;
                Some(FrameContent::Chunk {
                    task: *task,
                    artifact: artifact.clone(),
                    mime,
                    offset: *offset,
                    bytes,
                })
            }
            NotedFrame::Other(task, kind, payload) => Some(FrameContent::Other {
                task: *task,
                kind: DeltaType::parse(kind)?,
                payload: payload.clone(),
            }),
            NotedFrame::End => {
                let (kind, payload) = end()?;
                Some(FrameContent::Other {
                    task: 0,
                    kind,
                    payload,
                })
            }
        };
        self.frames.iter().map(content).collect()
    }
}

fn noted(content: &FrameContent) -> NotedFrame {
    match content {
        FrameContent::Chunk {
            task,
            artifact,
            offset,
            bytes,
            ..
        } => NotedFrame::Chunk(*task, artifact.clone(), *offset, bytes.len()),
        // The end without an acknowledgement is the gateway's own; what the tasks say would be another end.
        FrameContent::Other { task, kind, payload }
            if !kind.is_terminal() || payload.contains_key("code") =>
        {
            NotedFrame::Other(*task, kind.as_str().to_owned(), payload.clone())
        }
        FrameContent::Other { .. } => NotedFrame::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentanycast_uamp::window::delta_of;

    #[test]
    fn a_stream_goes_on_from_its_note() {
        let mut log = StreamLog::new(8);
        let bytes = Bytes::from_static(b"0123456789");
        log.push(
            0,
            DeltaType::Progress,
            Map::from_iter([("state".to_owned(), "working".into())]),
        );
        log.push_chunk(1, "a", "t/t", 0, bytes.slice(..4));
        log.release(5);
        log.push_chunk(1, "a", "t/t", 4, bytes.slice(4..));
        log.push_end(DeltaType::Done, Map::new());
        log.release(5);
        log.publish();
        log.acknowledge(1, 5).unwrap();
        let mut position = TaskPosition::default();
        position.artifacts.insert("a".to_owned(), 10);
        let checkpoint = StreamCheckpoint::of(&log, &[TaskPosition::default(), position.clone()]).unwrap();
        let text = serde_json::to_vec(&checkpoint).unwrap();
        assert!(text.len() < 200, "{}", String::from_utf8_lossy(&text));
        let read: StreamCheckpoint = serde_json::from_slice(&text).unwrap();
        assert_eq!(read, checkpoint);
        assert_eq!(read.ranges(), [(1, "a".to_owned(), 4, 10)]);
        assert_eq!(TaskPosition::from(read.positions[1].clone()), position);
        let contents = read
            .contents(
                |_, _, offset, length| {
                    let at = usize::try_from(offset).unwrap();
                    Some(("t/t".to_owned(), bytes.slice(at..at + length)))
                },
                || Some((DeltaType::Done, Map::new())),
            )
            .unwrap();
        let mut again = StreamLog::resumed(read.window, read.acked);
        for content in contents {
            again.restore(content, 5);
        }
        again.publish();
        let deltas = |log: &StreamLog| {
            log.unacked()
                .map(|frame| delta_of(frame, "s", None))
                .collect::<Vec<_>>()
        };
        assert_eq!(deltas(&again), deltas(&log));
        assert!(again.is_over());
    }

    #[test]
    fn a_single_end_needs_no_note() {
        let mut log = StreamLog::new(8);
        log.push_end(DeltaType::Done, Map::new());
        log.release(5);
        assert_eq!(StreamCheckpoint::of(&log, &[]), None);
    }
}
