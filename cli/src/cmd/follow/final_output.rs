//! Artifacts of a finished task: texts are printed, bytes are saved or summarised.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use agentanycast::{Artifact, ArtifactEvent, Content, EndReason, Part, TaskHandle};
use agentanycast_daemon_kit::sanitize;
use futures::StreamExt;

use super::artifact_kind::{is_text, summary};
use crate::{
    artifact_files,
    failure::{CommandFailure, FailureCode},
    output,
};

/// Prints an artifact; bytes go into the directory, if there is one.
pub(in crate::cmd) async fn print(
    handle: &TaskHandle,
    artifact: &Artifact,
    directory: Option<&Path>,
) -> Result<(), CommandFailure> {
    for part in &artifact.parts {
        match &part.content {
            Content::Text(text) => output::untrusted_text(text)?,
            Content::Data(_) => {
                let document = format!("{:#}", part.to_json().unwrap_or_default());
                output::untrusted_text(&sanitize::json(&document))?;
            }
            Content::Url { url, .. } if part.streamed_artifact().is_none() => output::line(url)?,
            Content::Url { .. } if is_text(&part.media_type) && directory.is_none() => {
                copy(handle, part, &mut |data| output::bytes(data)).await?;
                output::line("")?;
            }
            Content::Raw { data, .. } if directory.is_none() => {
                output::line(&summary(&artifact.name, &part.media_type, data.len() as u64))?;
            }
            Content::Url { .. } if directory.is_none() => {
                output::line(&summary(&artifact.name, &part.media_type, artifact.size))?;
            }
            _ => {
                if let Some(path) = save_part(handle, artifact, part, directory).await? {
                    output::line(&format!("wrote {}", path.display()))?;
                }
            }
        }
    }
    Ok(())
}

/// Saves the bytes of an artifact; returns its id with each file.
pub(in crate::cmd) async fn save(
    handle: &TaskHandle,
    artifact: &Artifact,
    directory: &Path,
) -> Result<Vec<(String, PathBuf)>, CommandFailure> {
    let mut files = Vec::new();
    for part in &artifact.parts {
        if let Some(path) = save_part(handle, artifact, part, Some(directory)).await? {
            files.push((artifact.id.clone(), path));
        }
    }
    Ok(files)
}

async fn save_part(
    handle: &TaskHandle,
    artifact: &Artifact,
    part: &Part,
    directory: Option<&Path>,
) -> Result<Option<PathBuf>, CommandFailure> {
    let Some(directory) = directory else {
        return Ok(None);
    };
    let (Content::Raw { filename, .. } | Content::Url { filename, .. }) = &part.content else {
        return Ok(None);
    };
    if part.as_raw().is_none() && part.streamed_artifact().is_none() {
        return Ok(None);
    }
    let name = if filename.is_empty() {
        &artifact.name
    } else {
        filename
    };
    let (mut file, path) = artifact_files::create(directory, name)?;
    match part.as_raw() {
        Some(data) => file.write_all(data)?,
        None => copy(handle, part, &mut |data| file.write_all(data)).await?,
    }
    Ok(Some(path))
}

/// Reads a left-out artifact piece by piece.
async fn copy(
    handle: &TaskHandle,
    part: &Part,
    write: &mut (dyn FnMut(&[u8]) -> std::io::Result<()> + Send),
) -> Result<(), CommandFailure> {
    let mut events = handle.artifact(part.streamed_artifact().unwrap_or_default());
    while let Some(event) = events.next().await {
        match event? {
            ArtifactEvent::Chunk { data, .. } => write(&data)?,
            ArtifactEvent::End { reason, error, .. } if reason != EndReason::Complete => {
                let message = format!("the artifact was not finished: {error}");
                return Err(CommandFailure::new(
                    FailureCode::General,
                    "ArtifactAborted",
                    message,
                ));
            }
            _ => {}
        }
    }
    Ok(())
}
