//! Artifacts printed as they come: text to standard output, other bytes into the output directory or
//! counted; in JSON mode one object per event.

use std::{collections::HashMap, fs::File, io::Write, path::PathBuf};

use agentanycast::{ArtifactEvent, EndReason};
use serde_json::json;

use super::artifact_kind::{is_text, summary};
use crate::{
    artifact_files,
    failure::{CommandFailure, FailureCode},
    json, output,
};

/// Where the bytes of one artifact go.
enum ArtifactSink {
    /// Standard output; whether the last byte was a newline.
    Print {
        ended_line: bool,
    },
    Save(File, PathBuf),
    Count,
}

struct OpenArtifact {
    name: String,
    media_type: String,
    bytes: u64,
    sink: ArtifactSink,
}

pub(super) struct StreamOutput {
    json: bool,
    directory: Option<PathBuf>,
    open: HashMap<String, OpenArtifact>,
    seen: Vec<String>,
    saved: Vec<(String, PathBuf)>,
}

impl StreamOutput {
    pub(super) fn new(json: bool, directory: Option<PathBuf>) -> Self {
        Self {
            json,
            directory,
            open: HashMap::new(),
            seen: Vec::new(),
            saved: Vec::new(),
        }
    }

    /// Whether the artifact came as a stream.
    pub(super) fn has(&self, artifact_id: &str) -> bool {
        self.seen.iter().any(|seen| seen == artifact_id)
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
        if is_text(media_type) && !self.json {
            return Ok(ArtifactSink::Print { ended_line: true });
        }
        let Some(directory) = &self.directory else {
            return Ok(ArtifactSink::Count);
        };
        let (file, path) = artifact_files::create(directory, name)?;
        Ok(ArtifactSink::Save(file, path))
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
            ArtifactSink::Print { ended_line } => {
                *ended_line = data.last().map_or(*ended_line, |byte| *byte == b'\n');
                output::bytes(data)?;
            }
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
        match open.sink {
            ArtifactSink::Print { ended_line: false } => output::line("")?,
            ArtifactSink::Save(_, path) => {
                if !self.json {
                    output::line(&format!("wrote {} ({} bytes)", path.display(), open.bytes))?;
                }
                self.saved.push((artifact_id.clone(), path));
            }
            ArtifactSink::Count if !self.json => {
                output::line(&summary(&open.name, &open.media_type, open.bytes))?;
            }
            ArtifactSink::Print { .. } | ArtifactSink::Count => {}
        }
        if !whole {
            let message = format!("artifact {} was not finished: {error}", output::brief(&open.name));
            return Err(CommandFailure::new(
                FailureCode::General,
                "ArtifactAborted",
                message,
            ));
        }
        self.seen.push(artifact_id);
        Ok(())
    }
}
