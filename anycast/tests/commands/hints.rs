//! What people are told to type, out of the sources: it can be typed, and it is written in one place.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where hints are written.
const SOURCES: [&str; 2] = ["../cli/src", "src"];

fn sources(directory: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            // Long literals go on in the next line.
            let lines = fs::read_to_string(&path).unwrap();
            found.push((path, lines));
        }
    }
}

/// The words that a hint has in the source, with values for what is filled in and for its placeholders.
fn words(hint: &str) -> Vec<String> {
    let mut filled = String::new();
    let mut rest = hint;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        filled.push('x');
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    filled.push_str(rest);
    let filled = filled.replace("\\\"", "").replace('\'', "");
    let words = ["anycast"].into_iter().chain(filled.split(' '));
    words
        .map(|word| {
            let is_placeholder = word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            if is_placeholder {
                "x".to_owned()
            } else {
                word.to_owned()
            }
        })
        .collect()
}

#[test]
fn each_hint_is_a_command_line_that_is_read() {
    let mut files = Vec::new();
    for folder in SOURCES {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    }
    let mut seen = 0;
    for (path, source) in files {
        for call in ["hints::command(\"", "hints::command(&format!(\""] {
            for (at, _) in source.match_indices(call) {
                let literal = &source[at + call.len()..];
                let end = literal
                    .match_indices('"')
                    .find(|(at, _)| !literal[..*at].ends_with('\\'));
                let hint = &literal[..end.unwrap().0];
                if path.ends_with("hints.rs") {
                    continue;
                }
                let read = agentanycast_cli::command(&anycast::PARTS).try_get_matches_from(words(hint));
                assert!(read.is_ok(), "{}: {hint:?}: {:?}", path.display(), read.err());
                seen += 1;
            }
        }
    }
    assert!(seen > 25, "only {seen} were found");
}

/// What people are told to type is made here, so that it repeats the options. Help and comments name commands only.
#[test]
fn no_hint_is_written_elsewhere() {
    /// Told of a command on another host, written into a file, or of no daemon.
    const OTHERS: [&str; 11] = [
        "; the other node runs: ",
        "Written by `anycast service install`",
        "`anycast trace {}` at the node",
        "`anycast trace {remote}` at the",
        "`anycast trace` with ",
        "(`anycast id` there)",
        "`anycast id` prints",
        "`anycast --help` lists them",
        "made by `anycast bugreport`",
        "`anycast doctor` found",
        "edit this file",
    ];
    let mut files = Vec::new();
    for folder in SOURCES {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    }
    let mut found = Vec::new();
    for (path, source) in files {
        let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let is_test = path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
        for line in source
            .lines()
            .filter(|line| !is_test && line.contains("`anycast "))
        {
            let line = line.trim();
            if !line.starts_with("//") && !OTHERS.iter().any(|other| line.contains(other)) {
                found.push(format!("{}: {line}", path.display()));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}
