//! Artifacts as they come: into the output directory, if there is one; else text to standard output, and
//! other bytes counted; in JSON mode one object per event. One that broke off may come again, whole, under
//! the same name.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::Write,
    path::PathBuf,
};

use agentanycast::{ArtifactEvent, EndReason};
use serde_json::json;

use super::artifact_kind::{is_text, summary};
use crate::{
    artifact_files,
    failure::{CommandFailure, FailureCode},
    json,
    output::{self, TextPieces},
};

/// Where the bytes of one artifact go.
enum ArtifactSink {
    /// Standard output.
    Print(TextPieces),
    Save(File, PathBuf),
    Count,
}

struct OpenArtifact {
    name: String,
    media_type: String,
    bytes: u64,
    sink: ArtifactSink,
}

/// An artifact that broke off, and did not come again so far.
struct BrokenArtifact {
    id: String,
    name: String,
    reason: String,
    /// What came of it.
    part: Option<PathBuf>,
}

pub(super) struct StreamOutput {
    json: bool,
    directory: Option<PathBuf>,
    open: HashMap<String, OpenArtifact>,
    /// Artifacts that came to their end, and their bytes.
    seen: HashMap<String, u64>,
    saved: Vec<(String, PathBuf)>,
    broken: Vec<BrokenArtifact>,
}

impl StreamOutput {
    pub(super) fn new(json: bool, directory: Option<PathBuf>) -> Self {
        Self {
            json,
            directory,
            open: HashMap::new(),
            seen: HashMap::new(),
            saved: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Fails when an artifact broke off and did not come again, nor is whole in the task.
    pub(super) fn all_whole(&self, task_has: impl Fn(&str) -> bool) -> Result<(), CommandFailure> {
        let Some(broken) = self.broken.iter().find(|broken| !task_has(&broken.id)) else {
            return Ok(());
        };
        let message = format!(
            "artifact {} was not finished: {}",
            output::brief(&broken.name),
            broken.reason
        );
        Err(CommandFailure::new(
            FailureCode::General,
            "ArtifactAborted",
            message,
        ))
    }

    /// Whether the artifact came as a stream, to its end.
    pub(super) fn has(&self, artifact_id: &str) -> bool {
        self.seen.contains_key(artifact_id)
    }

    /// What of a text the stream has not shown. An agent may add to what it said is complete, or replace it.
    pub(super) fn rest<'a>(&self, artifact_id: &str, text: &'a str) -> &'a str {
        let shown = self.seen.get(artifact_id).copied().unwrap_or_default();
        match usize::try_from(shown) {
            Ok(shown) if shown <= text.len() => text.get(shown..).unwrap_or(text),
            _ => text,
        }
    }

    /// Artifact ids and the files that they were written to.
    pub(super) fn saved(&self) -> &[(String, PathBuf)] {
        &self.saved
    }

    pub(super) fn take(&mut self, task_id: &str, event: ArtifactEvent) -> Result<(), CommandFailure> {
        match event {
            ArtifactEvent::Start {
                artifact_id,
                name,
                media_type,
                ..
            } => {
                if self.json {
                    output::json(&json!({"event": "artifact-start", "task_id": task_id,
                        "artifact_id": artifact_id, "name": name, "media_type": media_type}))?;
                }
                let sink = self.sink(&name, &media_type)?;
                self.open.insert(
                    artifact_id,
                    OpenArtifact {
                        name,
                        media_type,
                        bytes: 0,
                        sink,
                    },
                );
                Ok(())
            }
            ArtifactEvent::Chunk { artifact_id, data } => self.chunk(task_id, &artifact_id, &data),
            ArtifactEvent::End {
                artifact_id,
                reason,
                error,
            } => self.end(task_id, artifact_id, reason, &error),
            _ => Ok(()),
        }
    }

    fn sink(&self, name: &str, media_type: &str) -> Result<ArtifactSink, CommandFailure> {
        if let Some(directory) = &self.directory {
            let (file, path) =
                artifact_files::create(directory, name, artifact_files::ending_type(name, media_type))?;
            return Ok(ArtifactSink::Save(file, path));
        }
        if is_text(media_type) && !self.json {
            return Ok(ArtifactSink::Print(TextPieces::default()));
        }
        Ok(ArtifactSink::Count)
    }

    fn chunk(&mut self, task_id: &str, artifact_id: &str, data: &[u8]) -> Result<(), CommandFailure> {
        if self.json {
            output::json(&json::chunk(task_id, artifact_id, data))?;
        }
        let Some(open) = self.open.get_mut(artifact_id) else {
            return Ok(());
        };
        open.bytes += data.len() as u64;
        match &mut open.sink {
            ArtifactSink::Print(text) => text.print(data)?,
            ArtifactSink::Save(file, _) => file.write_all(data)?,
            ArtifactSink::Count => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        task_id: &str,
        artifact_id: String,
        reason: EndReason,
        error: &str,
    ) -> Result<(), CommandFailure> {
        let whole = reason == EndReason::Complete;
        let Some(open) = self.open.remove(&artifact_id) else {
            return Ok(());
        };
        if self.json {
            output::json(
                &json!({"event": "artifact-end", "task_id": task_id, "artifact_id": artifact_id,
                "complete": whole, "error": error, "bytes": open.bytes}),
            )?;
        }
        if !whole {
            let part = match open.sink {
                ArtifactSink::Save(_, path) => Some(path),
                ArtifactSink::Print(text) => {
                    text.end()?;
                    None
                }
                ArtifactSink::Count => None,
            };
            let said = output::brief(&open.name);
            output::warn(&format!(
                "artifact {said} broke off after {} bytes: {}",
                open.bytes,
                output::flat(error)
            ));
            self.broken.push(BrokenArtifact {
                id: artifact_id,
                name: open.name,
                reason: error.to_owned(),
                part,
            });
            return Ok(());
        }
        let before = self.broken.iter().position(|broken| broken.name == open.name);
        let part = before.and_then(|at| self.broken.remove(at).part);
        match open.sink {
            ArtifactSink::Print(text) => text.end()?,
            ArtifactSink::Save(_, written) => {
                let path = match part {
                    Some(part) => fs::rename(&written, &part).map(|()| part)?,
                    None => written,
                };
                if !self.json {
                    output::line(&format!("wrote {} ({} bytes)", path.display(), open.bytes))?;
                }
                self.saved.push((artifact_id.clone(), path));
            }
            ArtifactSink::Count if !self.json => {
                output::line(&summary(&open.name, &open.media_type, open.bytes))?;
            }
            ArtifactSink::Count => {}
        }
        self.seen.insert(artifact_id, open.bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn come(live: &mut StreamOutput, id: &str, bytes: &[u8], reason: EndReason) {
        let artifact_id = || id.to_owned();
        let events = [
            ArtifactEvent::Start {
                artifact_id: artifact_id(),
                name: "zeros.bin".to_owned(),
                media_type: "application/octet-stream".to_owned(),
                metadata: [].into(),
            },
            ArtifactEvent::Chunk {
                artifact_id: artifact_id(),
                data: bytes.to_vec().into(),
            },
            ArtifactEvent::End {
                artifact_id: artifact_id(),
                reason,
                error: "the sending daemon was restarted".to_owned(),
            },
        ];
        for event in events {
            live.take("t", event).unwrap();
        }
    }

    #[test]
    fn an_artifact_that_came_again_replaces_what_broke_off() {
        let directory = tempfile::tempdir().unwrap();
        let mut live = StreamOutput::new(false, Some(directory.path().to_owned()));
        come(&mut live, "1", b"part", EndReason::Error);
        let failure = format!("{:?}", live.all_whole(|_| false).unwrap_err());
        assert!(
            failure.contains("zeros.bin was not finished: the sending daemon was restarted"),
            "{failure}"
        );
        live.all_whole(|id| id == "1").unwrap();
        come(&mut live, "2", b"part and rest", EndReason::Complete);
        live.all_whole(|_| false).unwrap();
        let path = directory.path().join("zeros.bin");
        assert_eq!(live.saved(), [("2".to_owned(), path.clone())]);
        assert_eq!(fs::read(path).unwrap(), b"part and rest");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(live.has("2") && !live.has("1"));
    }

    #[test]
    fn what_the_stream_has_not_shown_of_a_text_is_known() {
        let mut live = StreamOutput::new(true, None);
        come(&mut live, "1", "äb".as_bytes(), EndReason::Complete);
        for (text, rest) in [("äb", ""), ("äbc", "c"), ("new", ""), ("xyä", "xyä"), ("z", "z")] {
            assert_eq!(live.rest("1", text), rest);
        }
        assert_eq!(live.rest("2", "all"), "all");
    }
}
