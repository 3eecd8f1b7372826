//! What an audit log says of one task.
//!
//! The rule: it costs a bounded amount, however long the log is. Only its end is read, and only whole lines.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom},
    path::Path,
};

/// Bytes of the log's end that are read: some 200 000 lines.
const MAX_SEARCHED: u64 = 64 << 20;

/// Longest line that is looked at, in bytes: many times what is ever written.
const MAX_LINE: u64 = 64 << 10;

/// Lines that are found: a task is decided on once, each time that it is sent.
const MAX_LINES: usize = 64;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The lines about the task, oldest first, at most the last 64.
    pub lines: Vec<String>,
    /// Bytes that were read.
    pub searched: u64,
    /// All of the log was read.
    pub whole: bool,
}

/// Which lines are about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskIdMatch {
    /// Those of the task that has this id here.
    Id,
    /// Those of sealed ones too that have it where they were sealed, as was told beside their boxes.
    EitherId,
}

/// The lines about a task in the log at `path`.
///
/// # Errors
/// It cannot be read.
pub fn search(path: &Path, task: &str, by: TaskIdMatch) -> io::Result<SearchResult> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(MAX_SEARCHED);
    file.seek(SeekFrom::Start(from))?;
    let mut lines = BufReader::with_capacity(1 << 16, file.take(MAX_SEARCHED));
    if from > 0 {
        skip_line(&mut lines)?; // It began before.
    }
    Ok(SearchResult {
        lines: about(&mut lines, task, by)?,
        searched: length - from,
        whole: from == 0,
    })
}

/// The lines of a log about a task, oldest first.
fn about(log: &mut impl BufRead, task: &str, by: TaskIdMatch) -> io::Result<Vec<String>> {
    let mut found = std::collections::VecDeque::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = log.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(found.into());
        }
        if line.last() != Some(&b'\n') && read as u64 == MAX_LINE {
            skip_line(log)?;
            continue;
        }
        if let Ok(text) = std::str::from_utf8(&line)
            && is_about(text, task, by)
        {
            found.push_back(text.trim_end().to_owned());
            if found.len() > MAX_LINES {
                found.pop_front();
            }
        }
    }
}

fn is_about(line: &str, task: &str, by: TaskIdMatch) -> bool {
    // Most lines are about others: those are not even parsed. An id with signs that JSON escapes is looked at anyway.
    let is_plain = !task.contains(['"', '\\', '\u{2028}', '\u{2029}']) && !task.contains(char::is_control);
    if is_plain && !line.contains(task) {
        return false;
    }
    let entry: Result<serde_json::Value, _> = serde_json::from_str(line);
    entry.is_ok_and(|entry| {
        entry["task"] == task || by == TaskIdMatch::EitherId && entry["sealed_task"] == task
    })
}

fn skip_line(log: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = log.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        log.consume(used);
        if end.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn line(task: &str, number: usize) -> String {
        let line = serde_json::json!({"task": task, "number": number, "reason": "not t1"});
        agentanycast_daemon_kit::json_lines::to_line(&line)
    }

    proptest! {
        /// Whatever is around them: the lines about a task, in order, the last ones if there are many.
        #[test]
        fn the_lines_of_a_task_are_found(
            written in prop::collection::vec(prop_oneof![
                (0..4_u8).prop_map(|task| Ok(format!("t{task}"))),
                Just(Ok("a\"b\\\n".to_owned())),
                Just(Ok("a\u{2028}b".to_owned())),
                prop::collection::vec(any::<u8>().prop_filter("one line", |byte| *byte != b'\n'), 0..40).prop_map(Err),
                Just(Err(vec![b'x'; MAX_LINE as usize + 10])),
            ], 0..150),
        ) {
            let mut log = Vec::new();
            let mut expected = std::collections::HashMap::<String, Vec<String>>::new();
            for (number, what) in written.iter().enumerate() {
                match what {
                    Ok(task) => {
                        let text = line(task, number);
                        log.extend_from_slice(text.as_bytes());
                        expected.entry(task.clone()).or_default().push(text);
                    }
                    Err(bytes) => log.extend_from_slice(bytes),
                }
                log.push(b'\n');
            }
            for task in ["t0", "t1", "t2", "a\"b\\\n", "a\u{2028}b", "none"] {
                let mut all = expected.remove(task).unwrap_or_default();
                let last = all.split_off(all.len().saturating_sub(MAX_LINES));
                prop_assert_eq!(about(&mut log.as_slice(), task, TaskIdMatch::Id).unwrap(), last);
            }
        }
    }

    /// What is told beside a box does not get into what is said of the task that has this id here.
    #[test]
    fn a_sealed_task_is_found_by_either_id() {
        let log = concat!(
            r#"{"task": "own", "sealed_task": "sender's"}"#,
            "\n",
            r#"{"task": "sender's"}"#,
            "\n"
        );
        let lines = |task, by| about(&mut log.as_bytes(), task, by).unwrap().len();
        assert_eq!(
            (
                lines("sender's", TaskIdMatch::EitherId),
                lines("sender's", TaskIdMatch::Id)
            ),
            (2, 1)
        );
        assert_eq!(lines("own", TaskIdMatch::Id), 1);
    }

    #[test]
    fn only_the_end_of_a_long_log_is_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{}", line("t", 0)).unwrap();
        file.as_file().set_len(MAX_SEARCHED + 1000).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        writeln!(file, "\n{}", line("t", 1)).unwrap();
        let found = search(file.path(), "t", TaskIdMatch::Id).unwrap();
        assert_eq!((found.lines, found.whole), (vec![line("t", 1)], false));
        assert!(search(Path::new("/nowhere"), "t", TaskIdMatch::Id).is_err());
    }
}
