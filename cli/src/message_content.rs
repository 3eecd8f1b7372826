//! What is sent: texts, files, standard input and JSON, as the parts of one message.

use std::{
    io::{self, Read},
    path::Path,
};

use agentanycast::{Content, Message, Part};
use agentanycast_proto::{json::from_struct, struct_json};
use clap::Args;
use serde_json::Value;

use crate::failure::CommandFailure;

/// Largest content that is sent in one message, in bytes: a frame between nodes has 16 MiB, and some
/// of it is for the rest of the message.
const MAX_CONTENT: u64 = 15 << 20;

/// The parts of a message on a command line.
#[derive(Debug, Args)]
pub(crate) struct MessageArgs {
    /// What is sent, a part of the message each: a text, @FILE for a file, or - for standard input
    #[arg(required_unless_present = "data", value_name = "PART")]
    pub(crate) parts: Vec<String>,
    /// A part of JSON behind the others, for agents that take data: the JSON, @FILE for a file that has it,
    /// or - for standard input; can be repeated
    #[arg(long, value_name = "JSON")]
    pub(crate) data: Vec<String>,
}

impl MessageArgs {
    /// The message.
    pub(crate) fn message(&self) -> Result<Message, CommandFailure> {
        let parts = self.parts.iter().map(|part| (PartSource::parse(part), false));
        let data = self.data.iter().map(|part| (PartSource::parse(part), true));
        read_all(&parts.chain(data).collect::<Vec<_>>())
    }

    /// Whether one of the parts reads standard input.
    pub(crate) fn reads_input(&self) -> bool {
        let mut parts = self.parts.iter().chain(&self.data);
        parts.any(|part| PartSource::parse(part) == PartSource::StandardInput)
    }
}

/// Where the content of a part comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartSource<'a> {
    /// It is this text.
    Text(&'a str),
    /// A file.
    File(&'a Path),
    /// Standard input.
    StandardInput,
}

impl<'a> PartSource<'a> {
    /// `@FILE`, `-`, `@@` for a text that begins with `@`, or the text itself.
    pub fn parse(text: &'a str) -> Self {
        match (text, text.strip_prefix('@')) {
            ("-", _) => Self::StandardInput,
            (_, Some(escaped)) if escaped.starts_with('@') => Self::Text(escaped),
            (_, Some(path)) => Self::File(Path::new(path)),
            (_, None) => Self::Text(text),
        }
    }

    /// Reads it whole, at most that many bytes: the part, and how many they were. UTF-8 becomes a text part, anything
    /// else a raw part; as data it has to be JSON.
    fn read(&self, most: u64, as_data: bool) -> Result<(Part, u64), CommandFailure> {
        let (bytes, name) = match self {
            Self::Text(text) if as_data => (text.as_bytes().to_vec(), String::new()),
            Self::Text(text) => return Ok((Part::text(*text), text.len() as u64)),
            Self::StandardInput => (read(io::stdin().lock(), "standard input", most)?, String::new()),
            Self::File(path) if path.as_os_str().is_empty() => {
                return Err(CommandFailure::usage(
                    "a part is @ without the name of a file; @FILE sends a file, @@TEXT a text that begins with @",
                ));
            }
            Self::File(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                (open(path, most)?, name.into_owned())
            }
        };
        let size = bytes.len() as u64;
        if as_data {
            return Ok((data_part(&bytes, &name)?, size));
        }
        Ok((part(bytes, &name), size))
    }
}

/// A message of these parts.
pub fn message_from(sources: &[PartSource<'_>]) -> Result<Message, CommandFailure> {
    read_all(&sources.iter().map(|source| (*source, false)).collect::<Vec<_>>())
}

/// A message of these parts, each of them as JSON or not.
fn read_all(sources: &[(PartSource<'_>, bool)]) -> Result<Message, CommandFailure> {
    let from_input = sources
        .iter()
        .filter(|(source, _)| *source == PartSource::StandardInput);
    if from_input.count() > 1 {
        return Err(CommandFailure::usage(
            "- is given twice; standard input can be read once",
        ));
    }
    let (mut read, mut room) = (Vec::new(), MAX_CONTENT);
    for (source, as_data) in sources {
        let (part, size) = source.read(room, *as_data)?;
        room = room
            .checked_sub(size)
            .ok_or_else(|| too_large("the message", MAX_CONTENT))?;
        read.push(part);
    }
    Ok(Message::new(read))
}

/// What is in a file, or on standard input for `-`: at most that many bytes.
pub fn read_limited(path: &Path, most: u64) -> Result<Vec<u8>, CommandFailure> {
    if path == Path::new("-") {
        read(io::stdin().lock(), "standard input", most)
    } else {
        open(path, most)
    }
}

fn open(path: &Path, most: u64) -> Result<Vec<u8>, CommandFailure> {
    let shown = path.display().to_string();
    let file = std::fs::File::open(path)
        .map_err(|error| CommandFailure::usage(format!("cannot read {shown}: {error}")))?;
    read(file, &shown, most)
}

fn read(source: impl Read, name: &str, most: u64) -> Result<Vec<u8>, CommandFailure> {
    let mut bytes = Vec::new();
    source
        .take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CommandFailure::usage(format!("cannot read {name}: {error}")))?;
    if bytes.len() as u64 > most {
        return Err(too_large(name, most));
    }
    Ok(bytes)
}

fn too_large(what: &str, most: u64) -> CommandFailure {
    CommandFailure::usage(format!(
        "{what} has more than {}, the most that is taken; give less, or where the agent can fetch it",
        mebibytes(most)
    ))
}

/// A number of bytes for people: whole mebibytes as such.
fn mebibytes(bytes: u64) -> String {
    match (bytes >> 20, bytes % (1 << 20)) {
        (whole @ 1.., 0) => format!("{whole} MiB"),
        _ => format!("{bytes} bytes"),
    }
}

fn part(bytes: Vec<u8>, filename: &str) -> Part {
    match String::from_utf8(bytes) {
        Ok(text) if filename.is_empty() => Part::text(text),
        Ok(text) => Part::text(text).with_metadata("filename", filename),
        Err(binary) => Part::raw(binary.into_bytes(), "application/octet-stream").with_filename(filename),
    }
}

/// A part of JSON, whole: also a list, and an integer that a double cannot hold.
fn data_part(json: &[u8], filename: &str) -> Result<Part, CommandFailure> {
    let refused = |reason: String| {
        let from = if filename.is_empty() {
            String::new()
        } else {
            format!(" {filename}")
        };
        CommandFailure::usage(format!("--data{from}: {reason}"))
    };
    let json = json.strip_prefix("\u{feff}".as_bytes()).unwrap_or(json);
    let value: Value =
        serde_json::from_slice(json).map_err(|error| refused(format!("it is not JSON: {error}")))?;
    let (data, exact) = struct_json::carry(&value).map_err(|error| refused(format!("it {error}")))?;
    let mut part = Part::text("");
    part.content = Content::Data(from_struct(&data));
    let part = match exact {
        Some(exact) => part.with_metadata(struct_json::EXACT, exact),
        None => part,
    };
    Ok(match filename {
        "" => part,
        name => part.with_metadata("filename", name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(parts: &[&str]) -> Result<Message, CommandFailure> {
        let parts = parts.iter().map(|part| (*part).to_owned()).collect();
        MessageArgs {
            parts,
            data: Vec::new(),
        }
        .message()
    }

    #[test]
    fn json_is_a_part_of_data_whole() {
        let data = |json: &str| {
            let args = MessageArgs {
                parts: Vec::new(),
                data: vec![json.to_owned()],
            };
            args.message().map(|message| message.parts[0].to_json().unwrap())
        };
        for json in [
            r#"{"a": [1, null, "ü"]}"#,
            "[1, 2]",
            r#"{"id": 9007199254740993}"#,
            "7",
            "{}",
        ] {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(data(json).unwrap(), value, "{json}");
        }
        for broken in ["{'a': 1}", "", "{\"a\": 1} x", &"[".repeat(100), "NaN"] {
            let failure = data(broken).unwrap_err();
            assert!(failure.message().starts_with("--data: it "), "{failure:?}");
        }
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        std::fs::write(file.path(), "\u{feff}{\"a\": 1}").unwrap();
        assert_eq!(data(&format!("@{}", file.path().display())).unwrap()["a"], 1);
    }

    #[test]
    fn sources_are_told_apart() {
        assert_eq!(PartSource::parse("hello"), PartSource::Text("hello"));
        assert_eq!(PartSource::parse("-"), PartSource::StandardInput);
        assert_eq!(PartSource::parse("@a/b"), PartSource::File(Path::new("a/b")));
        assert_eq!(PartSource::parse("@@a"), PartSource::Text("@a"));
        assert!(message(&["@"]).is_err(), "a file without a name");
        let reads_input = |parts: &[&str], data: &[&str]| {
            let owned = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
            let (parts, data) = (owned(parts), owned(data));
            MessageArgs { parts, data }.reads_input()
        };
        assert!(reads_input(&["a", "-"], &[]) && !reads_input(&["a", "@-"], &[]));
        assert!(reads_input(&[], &["-"]));
        assert!(message(&["-", "-"]).is_err(), "it can be read once");
    }

    #[test]
    fn a_binary_file_keeps_its_name() {
        let file = tempfile::Builder::new().suffix(".bin").tempfile().unwrap();
        let at = format!("@{}", file.path().display());
        std::fs::write(file.path(), [0xff, 0x00]).unwrap();
        let sent = message(&["look:", &at]).unwrap();
        assert_eq!(sent.parts[0].as_text(), Some("look:"));
        assert_eq!(sent.parts[1].as_raw(), Some([0xff, 0x00].as_slice()));
        std::fs::write(file.path(), "ü").unwrap();
        assert_eq!(message(&[&at]).unwrap().text_content(), "ü");
        assert!(message(&["@/nowhere"]).is_err());
    }

    #[test]
    fn parts_are_bounded_together() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8 << 20).unwrap();
        let at = format!("@{}", file.path().display());
        assert!(message(&[&at]).is_ok());
        assert!(message(&[&at, &at]).is_err());
        let text = "x".repeat((MAX_CONTENT + 1) as usize);
        assert!(message(&[&text]).is_err());
    }
}
