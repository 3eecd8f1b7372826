//! A result whose length is not known before its end: short ones become an artifact of the last report, long ones are
//! streamed as they come. Backends use it for the body of an answer and for the text of an agent. What was streamed is
//! kept until the end, to be sent again when the daemon goes away.
//!
//! Invariant: at most [`INLINE_LIMIT`] bytes are in memory, and never more than the limit that the operator set are taken.

use std::io::{Seek as _, SeekFrom, Write as _};

use agentanycast_gateway::{
    GatewayError,
    agents::{AgentTask, ResendingStream, stream_whole},
};
use agentanycast_proto::v1;
use tempfile::SpooledTempFile;

use crate::{
    RunError,
    task_content::{OCTETS, artifact, essence, part_of_bytes},
};

/// Largest result that is part of the last report, in bytes. One report is one gRPC message, whose limit is 4 MiB by
/// default.
pub(crate) const INLINE_LIMIT: usize = 256 << 10;

/// A result that grows.
pub(crate) struct ResultStream<'a> {
    task: &'a dyn AgentTask,
    name: &'a str,
    media_type: String,
    /// Most bytes that are taken.
    limit: usize,
    taken: usize,
    held: Vec<u8>,
    sent: Option<ResendingStream<'a, SpooledTempFile>>,
}

impl<'a> ResultStream<'a> {
    /// An empty result with this name and media type, of at most `limit` bytes.
    pub(crate) fn new(task: &'a dyn AgentTask, name: &'a str, media_type: &str, limit: usize) -> Self {
        Self {
            task,
            name,
            media_type: media_type.to_owned(),
            limit,
            taken: 0,
            held: Vec::new(),
            sent: None,
        }
    }

    /// Adds bytes. They are held until there are too many.
    pub(crate) async fn hold(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.count(bytes)?;
        if self.sent.is_none() && self.held.len() + bytes.len() <= INLINE_LIMIT {
            self.held.extend_from_slice(bytes);
            return Ok(());
        }
        self.write(bytes).await
    }

    /// Adds bytes and sends them at once: they may be read as they come.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.count(bytes)?;
        self.write(bytes).await
    }

    fn count(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.taken += bytes.len();
        if self.taken > self.limit {
            return Err(too_large(self.limit));
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        let (task, name, media_type) = (self.task, self.name, &self.media_type);
        let sent = self.sent.get_or_insert_with(|| {
            let kept = SpooledTempFile::new(INLINE_LIMIT);
            ResendingStream::new(task, name, &streamed_type(media_type), kept)
        });
        let held = std::mem::take(&mut self.held);
        keep(sent.content(), &held)
            .and_then(|()| keep(sent.content(), bytes))
            .map_err(|error| {
                RunError::new(format!(
                    "its output cannot be kept in {}: {error}",
                    std::env::temp_dir().display()
                ))
            })?;
        sent.send().await.map_err(|error| refused(&error))
    }

    /// Whether nothing has come.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Ends the result; the artifact that is left to be reported, if it was not streamed.
    pub(crate) async fn finish(self) -> Result<Option<v1::Artifact>, RunError> {
        match self.sent {
            Some(sent) => {
                sent.finish().await.map_err(|error| refused(&error))?;
                Ok(None)
            }
            None if self.held.is_empty() => Ok(None),
            None => Ok(Some(artifact(
                self.name,
                vec![part_of_bytes(self.held, &self.media_type)],
            ))),
        }
    }
}

/// The error of a result that is larger than the operator allows.
pub(crate) fn too_large(limit: usize) -> RunError {
    RunError::new(format!(
        "its output has more than {limit} bytes, the limit of --max-output"
    ))
}

/// Streams those artifacts that are too large for one report, and returns the others.
pub(crate) async fn stream_large(
    task: &dyn AgentTask,
    artifacts: Vec<v1::Artifact>,
    limit: usize,
) -> Result<Vec<v1::Artifact>, RunError> {
    let mut small = Vec::new();
    let mut room = INLINE_LIMIT;
    let mut taken = 0;
    for artifact in artifacts {
        let size: usize = artifact.parts.iter().map(part_size).sum();
        taken += size;
        if taken > limit {
            return Err(too_large(limit));
        }
        if size <= room {
            room -= size;
            small.push(artifact);
            continue;
        }
        for (at, part) in artifact.parts.into_iter().enumerate() {
            let name = match (at, part_filename(&part)) {
                (_, Some(filename)) => filename,
                (0, None) => artifact.name.clone(),
                (at, None) => format!("{}-{}", artifact.name, at + 1),
            };
            match part.content {
                Some(v1::part::Content::RawPart(raw)) => {
                    stream(task, &name, &part.media_type, &raw.data).await?;
                }
                Some(v1::part::Content::TextPart(text)) => {
                    let media_type = match part.media_type.as_str() {
                        "" => crate::task_content::PLAIN_TEXT,
                        media_type => media_type,
                    };
                    stream(task, &name, media_type, text.text.as_bytes()).await?;
                }
                Some(v1::part::Content::DataPart(_)) => {
                    let json = crate::task_content::json_of(&part)
                        .unwrap_or_default()
                        .to_string();
                    stream(task, &name, crate::parts::JSON, json.as_bytes()).await?;
                }
                content => small.push(v1::Artifact {
                    artifact_id: String::new(),
                    parts: vec![v1::Part { content, ..part }],
                    ..crate::task_content::artifact(&name, Vec::new())
                }),
            }
        }
    }
    Ok(small)
}

async fn stream(task: &dyn AgentTask, name: &str, media_type: &str, bytes: &[u8]) -> Result<(), RunError> {
    let sent = stream_whole(task, name, &streamed_type(media_type), bytes).await;
    sent.map_err(|error| refused(&error))
}

fn keep(kept: &mut SpooledTempFile, bytes: &[u8]) -> std::io::Result<()> {
    kept.seek(SeekFrom::End(0))?;
    kept.write_all(bytes)
}

/// The media type of a streamed result.
fn streamed_type(media_type: &str) -> String {
    match essence(media_type) {
        essence if essence.is_empty() => OCTETS.to_owned(),
        essence => essence,
    }
}

fn refused(error: &GatewayError) -> RunError {
    RunError::new(error.to_string())
}

/// The bytes of a part's content, nearly.
fn part_size(part: &v1::Part) -> usize {
    use prost::Message as _;
    part.encoded_len()
}

fn part_filename(part: &v1::Part) -> Option<String> {
    match &part.content {
        Some(v1::part::Content::RawPart(raw)) if !raw.filename.is_empty() => Some(raw.filename.clone()),
        _ => None,
    }
}
