//! Artifacts of a finished task: saved where a directory was given, else texts are printed and bytes
//! summarised.

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
    output::{self, TextPieces},
};

/// The label of a part with the name of the file that it was.
const FILENAME: &str = "filename";

/// Prints an artifact; all that it holds goes into the directory, if there is one.
pub(in crate::cmd) async fn print(
    handle: &TaskHandle,
    artifact: &Artifact,
    directory: Option<&Path>,
) -> Result<(), CommandFailure> {
    for part in &artifact.parts {
        if let Some(directory) = directory
            && let Some(path) = save_part(handle, artifact, part, directory).await?
        {
            output::line(&format!("wrote {}", path.display()))?;
        } else {
            print_part(handle, artifact, part, directory.is_some()).await?;
        }
    }
    Ok(())
}

/// `is_saved`: what can be in a file is in one, or is nothing.
async fn print_part(
    handle: &TaskHandle,
    artifact: &Artifact,
    part: &Part,
    is_saved: bool,
) -> Result<(), CommandFailure> {
    match &part.content {
        Content::Url { url, .. } if part.streamed_artifact().is_none() => output::line(url)?,
        _ if is_saved => {}
        Content::Text(text) => output::untrusted_text(text)?,
        Content::Data(_) => output::untrusted_text(&sanitize::json(&json_text(part)))?,
        Content::Url { .. } if is_text(&part.media_type) => {
            let mut text = TextPieces::default();
            copy(handle, part, &mut |data| text.print(data)).await?;
            text.end()?;
        }
        // A result that was streamed is bytes also where it is text: the report of a test, an answer in pieces.
        Content::Raw { data, .. } => match text_in(&part.media_type, data) {
            Some(text) => output::untrusted_text(text)?,
            None => output::line(&summary(&artifact.name, &part.media_type, data.len() as u64))?,
        },
        _ => output::line(&summary(&artifact.name, &part.media_type, artifact.size))?,
    }
    Ok(())
}

/// Bytes that say that they are text, and are.
fn text_in<'a>(media_type: &str, data: &'a [u8]) -> Option<&'a str> {
    let is_said = !media_type.is_empty() && is_text(media_type);
    is_said.then(|| std::str::from_utf8(data).ok()).flatten()
}

/// JSON as people read it.
fn json_text(part: &Part) -> String {
    format!("{:#}", part.to_json().unwrap_or_default())
}

/// Saves an artifact; returns its id with each file.
pub(in crate::cmd) async fn save(
    handle: &TaskHandle,
    artifact: &Artifact,
    directory: &Path,
) -> Result<Vec<(String, PathBuf)>, CommandFailure> {
    let mut files = Vec::new();
    for part in &artifact.parts {
        if let Some(path) = save_part(handle, artifact, part, directory).await? {
            files.push((artifact.id.clone(), path));
        }
    }
    Ok(files)
}

/// `None`: there is nothing to save, as of a link.
async fn save_part(
    handle: &TaskHandle,
    artifact: &Artifact,
    part: &Part,
    directory: &Path,
) -> Result<Option<PathBuf>, CommandFailure> {
    let label = part.metadata.get(FILENAME).map_or("", String::as_str);
    let (filename, usual, text) = match &part.content {
        Content::Text(text) if text.is_empty() && label.is_empty() => return Ok(None),
        Content::Text(text) => (label, "text/plain", Some(text.clone())),
        Content::Data(_) => (label, "application/json", Some(json_text(part) + "\n")),
        Content::Raw { filename, .. } => (filename.as_str(), "", None),
        Content::Url { filename, .. } if part.streamed_artifact().is_some() => (filename.as_str(), "", None),
        _ => return Ok(None),
    };
    // A file keeps its name; the name of an artifact is that of no file yet.
    let (name, media_type) = match (filename, part.media_type.as_str()) {
        ("", "") => (artifact.name.as_str(), usual),
        ("", media_type) => (artifact.name.as_str(), media_type),
        // A streamed result has its own name as that of its file.
        (filename, media_type) if filename == artifact.name => {
            (filename, artifact_files::ending_type(filename, media_type))
        }
        (filename, _) => (filename, ""),
    };
    let (mut file, path) = artifact_files::create(directory, name, media_type)?;
    match (text, part.as_raw()) {
        (Some(text), _) => file.write_all(text.as_bytes())?,
        (None, Some(data)) => file.write_all(data)?,
        (None, None) => copy(handle, part, &mut |data| file.write_all(data)).await?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_where_they_say_that_they_are_text_and_are() {
        assert_eq!(text_in("application/json", b"{}"), Some("{}"));
        assert_eq!(text_in("text/plain; charset=utf-8", b"4"), Some("4"));
        assert_eq!(text_in("text/plain", b"caf\xe9"), None);
        assert_eq!(text_in("", b"4"), None, "no type is bytes of no known type");
        assert_eq!(text_in("image/png", b"4"), None);
    }
}
