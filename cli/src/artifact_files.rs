//! Writing artifacts into a directory. Names come from another host: only their last component counts,
//! nothing hidden, nothing strange, and no file that exists is touched.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use crate::failure::{CommandFailure, FailureCode};

/// Longest file name made from a foreign name, in bytes.
const MAX_NAME: usize = 120;

/// How many names are tried before giving up.
const MAX_TRIES: u32 = 1000;

/// Opens a new file for a foreign name and type.
pub(crate) fn create(
    directory: &Path,
    foreign_name: &str,
    media_type: &str,
) -> Result<(File, PathBuf), CommandFailure> {
    let wrong = |error: &io::Error| {
        let message = format!("cannot write into {}: {error}", directory.display());
        CommandFailure::new(FailureCode::General, "Io", message)
    };
    fs::create_dir_all(directory).map_err(|error| wrong(&error))?;
    let name = with_ending(safe_name(foreign_name), media_type);
    for number in 0..MAX_TRIES {
        let path = directory.join(numbered(&name, number));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(wrong(&error)),
        }
    }
    Err(wrong(&io::Error::other(format!(
        "{name} exists {MAX_TRIES} times already"
    ))))
}

/// The type that gives the file of a streamed artifact its ending. Its name may be that of a file, which stays; JSON and what has no
/// name get an ending.
pub(crate) fn ending_type<'a>(name: &str, media_type: &'a str) -> &'a str {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let is_json = essence.to_ascii_lowercase().ends_with("json");
    if name.is_empty() || is_json {
        media_type
    } else {
        ""
    }
}

fn safe_name(foreign: &str) -> String {
    let last = foreign.rsplit(['/', '\\']).next().unwrap_or_default();
    let fine = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ' | '(' | ')');
    let name: String = last.chars().map(|c| if fine(c) { c } else { '_' }).collect();
    let mut name = name.trim_start_matches(['.', ' ', '-']).trim_end().to_owned();
    while name.len() > MAX_NAME {
        name.pop();
    }
    if name.is_empty() {
        "artifact".to_owned()
    } else {
        name
    }
}

/// A name without an ending gets that of its type, by which other programs know it.
fn with_ending(name: String, media_type: &str) -> String {
    if name.contains('.') {
        return name;
    }
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    let ending = match media_type.to_ascii_lowercase().as_str() {
        "text/markdown" => "md",
        "text/html" => "html",
        "text/csv" => "csv",
        media_type if media_type.ends_with("json") => "json",
        media_type if media_type.starts_with("text/") => "txt",
        _ => return name,
    };
    format!("{name}.{ending}")
}

fn numbered(name: &str, number: u32) -> String {
    match (number, name.rsplit_once('.')) {
        (0, _) => name.to_owned(),
        (_, Some((stem, extension))) if !stem.is_empty() => format!("{stem}-{number}.{extension}"),
        _ => format!("{name}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_name_stays_in_the_directory() {
        assert_eq!(safe_name("../../etc/passwd"), "passwd");
        assert_eq!(safe_name("..\\x"), "x");
        assert_eq!(safe_name("..."), "artifact");
        assert_eq!(safe_name("a\u{1b}b.png"), "a_b.png");
        assert!(safe_name(&"ü".repeat(500)).len() <= MAX_NAME);
    }

    #[test]
    fn a_name_has_an_ending() {
        let named = |name: &str, media_type: &str| with_ending(name.to_owned(), media_type);
        assert_eq!(named("echo", "text/plain; charset=utf-8"), "echo.txt");
        assert_eq!(named("notes", "text/markdown"), "notes.md");
        assert_eq!(named("result", "application/a2a+json"), "result.json");
        assert_eq!(named("a.tar", "text/plain"), "a.tar");
        assert_eq!(named("image", "image/png"), "image");
    }

    #[test]
    fn the_name_of_a_streamed_artifact_may_be_that_of_a_file() {
        let json = "application/json; charset=utf-8";
        assert_eq!(ending_type("report", json), json);
        assert_eq!(ending_type("", "text/plain"), "text/plain");
        assert_eq!(ending_type("Makefile", "text/plain"), "");
    }

    #[test]
    fn a_file_that_exists_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let first = create(directory.path(), "a.png", "text/plain").unwrap().1;
        let second = create(directory.path(), "a.png", "").unwrap().1;
        assert_eq!(first.file_name().unwrap(), "a.png");
        assert_eq!(second.file_name().unwrap(), "a-1.png");
    }
}
