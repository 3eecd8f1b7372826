//! Names for the files of a task: what a sender calls a file, made safe, each once; and media types by their endings. PURE.

use std::collections::HashSet;

/// Longest name of a file, in bytes; most file systems take 255.
const LONGEST: usize = 200;

/// The names of a directory.
#[derive(Debug, Default)]
pub(super) struct FileNames(HashSet<String>);

impl FileNames {
    /// With these names taken.
    pub(super) fn with(taken: &[&str]) -> Self {
        Self(taken.iter().map(|name| (*name).to_owned()).collect())
    }

    /// A name that is safe, and not taken yet: the last piece of a path, without control characters, not beginning with a
    /// dot or a dash. An empty one is `otherwise`. A number is put before the ending of one that is taken.
    pub(super) fn take(&mut self, given: &str, otherwise: &str) -> String {
        let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
        let safe: String = last
            .chars()
            .map(|letter| if letter.is_control() { '_' } else { letter })
            .collect();
        let leading = |letter: char| letter.is_whitespace() || matches!(letter, '.' | '-');
        let safe = safe.trim_start_matches(leading).trim_end();
        let safe = if safe.is_empty() { otherwise } else { safe };
        let (stem, ending) = match safe.rsplit_once('.') {
            Some((stem, ending)) if !stem.is_empty() && ending.len() <= 16 => (stem, format!(".{ending}")),
            _ => (safe, String::new()),
        };
        let stem = &stem[..stem.floor_char_boundary(LONGEST)];
        let mut name = format!("{stem}{ending}");
        let mut number = 1;
        while !self.0.insert(name.to_lowercase()) {
            number += 1;
            name = format!("{stem}-{number}{ending}");
        }
        name
    }
}

/// Endings and media types.
const MEDIA_TYPES: &[(&str, &str)] = &[
    ("aac", "audio/aac"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ics", "text/calendar"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("log", "text/plain"),
    ("m4a", "audio/mp4"),
    ("md", "text/markdown"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("ogg", "audio/ogg"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    ("py", "text/x-python"),
    ("rs", "text/x-rust"),
    ("rtf", "application/rtf"),
    ("sh", "application/x-sh"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("tsv", "text/tab-separated-values"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The media type of a file by its ending; `application/octet-stream` where that says nothing.
pub(super) fn media_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase());
    let known = ending.and_then(|ending| {
        let place = MEDIA_TYPES.binary_search_by(|(known, _)| (*known).cmp(&ending));
        place.ok()
    });
    known.map_or("application/octet-stream", |place| MEDIA_TYPES[place].1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_made_safe() {
        let mut names = FileNames::with(&["messages.json"]);
        for (given, name) in [
            ("report.pdf", "report.pdf"),
            ("report.pdf", "report-2.pdf"),
            ("REPORT.pdf", "REPORT-3.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\a\\b.txt", "b.txt"),
            (".bashrc", "bashrc"),
            ("--help", "help"),
            ("..", "part-1"),
            ("", "part-1-2"),
            ("a\nb\0c", "a_b_c"),
            ("messages.json", "messages-2.json"),
        ] {
            assert_eq!(names.take(given, "part-1"), name, "{given:?}");
        }
    }

    #[test]
    fn endings_are_sorted_and_found() {
        assert!(MEDIA_TYPES.is_sorted_by_key(|(ending, _)| *ending));
        assert_eq!(media_type("a/b.PNG"), "image/png");
        assert_eq!(media_type("b.unheard"), "application/octet-stream");
        assert_eq!(media_type("png"), "application/octet-stream");
    }

    proptest! {
        #[test]
        fn every_name_is_one_safe_piece_of_a_path(given in any::<String>()) {
            let mut names = FileNames::default();
            for _ in 0..2 {
                let name = names.take(&given, "part-1");
                prop_assert!(!name.is_empty() && name.len() <= 255, "{name:?}");
                prop_assert!(!name.contains(['/', '\\', '\0']) && !name.starts_with(['.', '-']), "{name:?}");
            }
        }
    }
}
