//! What is sent: a text, a file, or standard input, as a message.

use std::{
    io::{self, Read},
    path::Path,
};

use agentanycast::{Message, Part};

use crate::failure::Failure;

/// Largest content that is sent in one message, in bytes: a frame between nodes has 16 MiB, and some
/// of it is for the rest of the message.
const MAX_CONTENT: u64 = 15 << 20;

/// Where the content comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source<'a> {
    Text(&'a str),
    File(&'a Path),
    StandardInput,
}

impl<'a> Source<'a> {
    /// `@FILE`, `-`, or the text itself.
    pub(crate) fn parse(text: &'a str) -> Self {
        match text {
            "-" => Self::StandardInput,
            _ => text
                .strip_prefix('@')
                .map_or(Self::Text(text), |path| Self::File(Path::new(path))),
        }
    }

    /// Reads it whole. UTF-8 becomes a text part, anything else a raw part.
    pub(crate) fn message(&self) -> Result<Message, Failure> {
        match self {
            Self::Text(text) => Ok(Message::text(*text)),
            Self::StandardInput => {
                let bytes = read(io::stdin().lock(), "standard input", MAX_CONTENT)?;
                Ok(Message::new([part(bytes, "")]))
            }
            Self::File(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                Ok(Message::new([part(open(path, MAX_CONTENT)?, &name)]))
            }
        }
    }
}

/// What is in a file, or on standard input for `-`: at most that many bytes.
pub(crate) fn whole(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    if path == Path::new("-") {
        read(io::stdin().lock(), "standard input", most)
    } else {
        open(path, most)
    }
}

fn open(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let shown = path.display().to_string();
    let file =
        std::fs::File::open(path).map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
    read(file, &shown, most)
}

fn read(source: impl Read, name: &str, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    source
        .take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    if bytes.len() as u64 > most {
        return Err(Failure::usage(format!("{name} has more than {most} bytes")));
    }
    Ok(bytes)
}

fn part(bytes: Vec<u8>, filename: &str) -> Part {
    match String::from_utf8(bytes) {
        Ok(text) if filename.is_empty() => Part::text(text),
        Ok(text) => Part::text(text).with_metadata("filename", filename),
        Err(binary) => Part::raw(binary.into_bytes(), "application/octet-stream").with_filename(filename),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_apart() {
        assert_eq!(Source::parse("hello"), Source::Text("hello"));
        assert_eq!(Source::parse("-"), Source::StandardInput);
        assert_eq!(Source::parse("@a/b"), Source::File(Path::new("a/b")));
    }

    #[test]
    fn a_binary_file_keeps_its_name() {
        let file = tempfile::Builder::new().suffix(".bin").tempfile().unwrap();
        std::fs::write(file.path(), [0xff, 0x00]).unwrap();
        let message = Source::File(file.path()).message().unwrap();
        assert_eq!(message.parts[0].as_raw(), Some([0xff, 0x00].as_slice()));
        std::fs::write(file.path(), "ü").unwrap();
        assert_eq!(Source::File(file.path()).message().unwrap().text_content(), "ü");
        assert!(Source::File(Path::new("/nowhere")).message().is_err());
    }
}
