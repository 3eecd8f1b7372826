//! The directory of one run of a program: `in` with the files of the task, `out` for results, and a file for what it prints
//! when that is much. Removed when this is dropped. What the program adds to it on the disk is looked at while it runs.

use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File, Metadata},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use agentanycast_proto::v1::{self, part::Content};
use rustix::fs::OFlags;
use serde_json::Value;

use super::file_names::FileNames;
use crate::parts::message_json;

/// The file with all messages of a task.
const MESSAGES: &str = "messages.json";

/// Most files and directories that are looked at, besides those of the task itself.
const MOST_FILES: usize = 10_000;

/// A usual block of a disk, in bytes.
const BLOCK: u64 = 4 << 10;

/// Deepest directories that are looked into.
const DEEPEST: usize = 16;

/// See the module's text.
#[derive(Debug)]
pub(super) struct TaskDirectory {
    path: PathBuf,
    /// What the files of the task take, before the program starts.
    given: DiskUse,
}

/// Files and directories, and what they take on the disk.
#[derive(Clone, Copy, Debug, Default)]
struct DiskUse {
    count: usize,
    bytes: u64,
}

/// A result in the directory.
#[derive(Debug)]
pub(super) struct OutputFile {
    /// Its path below `out`, with slashes.
    pub(super) name: String,
    pub(super) file: File,
    /// Bytes.
    pub(super) size: u64,
}

impl TaskDirectory {
    /// A new one below `above`, with the files of the task's messages.
    pub(super) fn new(above: &Path, task: &v1::Task) -> io::Result<Self> {
        let path = above.join(uuid::Uuid::new_v4().simple().to_string());
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        let mut directory = Self {
            path,
            given: DiskUse::default(),
        };
        builder.create(directory.input())?;
        builder.create(directory.output())?;
        let messages = directory.write_files(task)?;
        let text = serde_json::to_vec_pretty(&Value::from(messages))?;
        directory.write(MESSAGES, &text)?;
        let mut given = DiskUse::default();
        let walked = walk(&directory.path, usize::MAX, &mut |_, about| {
            given.count += 1;
            // Not every file system knows yet how many blocks a new file takes.
            given.bytes += blocks(about).max(about.len().next_multiple_of(BLOCK));
            true
        });
        if let Err(WalkError::Io(error)) = walked {
            return Err(error);
        }
        directory.given = given;
        Ok(directory)
    }

    /// `ANYCAST_INPUT_DIR`.
    pub(super) fn input(&self) -> PathBuf {
        self.path.join("in")
    }

    /// `ANYCAST_OUTPUT_DIR`.
    pub(super) fn output(&self) -> PathBuf {
        self.path.join("out")
    }

    /// A new file for what does not fit into memory.
    pub(super) fn overflow_file(&self) -> io::Result<File> {
        File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.path.join("stdout"))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        File::create_new(self.input().join(name))?.write_all(bytes)
    }

    /// Writes the files, and returns the messages as JSON that names them.
    fn write_files(&self, task: &v1::Task) -> io::Result<Vec<Value>> {
        let mut names = FileNames::with(&[MESSAGES]);
        let mut count = 0;
        let mut messages = Vec::with_capacity(task.messages.len());
        for message in &task.messages {
            let mut files: HashMap<usize, String> = HashMap::new();
            for (place, part) in message.parts.iter().enumerate() {
                count += 1;
                let otherwise = format!("part-{count}");
                match &part.content {
                    Some(Content::RawPart(raw)) => {
                        let name = names.take(&raw.filename, &otherwise);
                        self.write(&name, &raw.data)?;
                        files.insert(place, name);
                    }
                    Some(Content::DataPart(_)) => {
                        let name = names.take(&format!("{otherwise}.json"), &otherwise);
                        let shown = message_json(message, |_| None);
                        let data = &shown["parts"][place]["data"];
                        self.write(&name, data.to_string().as_bytes())?;
                        files.insert(place, name);
                    }
                    Some(Content::UrlPart(url)) => {
                        let given = if url.filename.is_empty() {
                            &otherwise
                        } else {
                            &url.filename
                        };
                        let name = names.take(&format!("{given}.url"), &otherwise);
                        self.write(&name, format!("{}\n", url.url).as_bytes())?;
                        files.insert(place, name);
                    }
                    _ => {}
                }
            }
            messages.push(message_json(message, |place| files.get(&place).cloned()));
        }
        Ok(messages)
    }

    /// Fails when the program's files together take more than `most` bytes on the disk, or are too many; with the reason.
    pub(super) fn check_size(&self, most: u64) -> Result<(), String> {
        let mut bytes = 0;
        let mut over = None;
        let (most_files, most_bytes) = (
            MOST_FILES + self.given.count,
            most.saturating_add(self.given.bytes),
        );
        let counted = walk(&self.path, most_files, &mut |_, about| {
            bytes += blocks(about);
            if bytes > most_bytes {
                over = Some(format!("its files take more than {most} bytes (--max-output)"));
            }
            over.is_none()
        });
        match (counted, over) {
            (_, Some(over)) => Err(over),
            (Err(WalkError::TooMany), None) => Err(format!("it has made more than {MOST_FILES} files")),
            // Files go while they are looked at.
            (Err(WalkError::Io(_)) | Ok(()), None) => Ok(()),
        }
    }

    /// The regular files in `out`, by their names. Links are not followed, and everything else is left out.
    pub(super) fn outputs(&self) -> io::Result<Vec<OutputFile>> {
        let out = self.output();
        let mut paths = Vec::new();
        let walked = walk(&out, MOST_FILES, &mut |path, about| {
            if about.is_file() {
                paths.push(path.to_owned());
            }
            true
        });
        match walked {
            Ok(()) => {}
            Err(WalkError::Io(error)) => return Err(error),
            Err(WalkError::TooMany) => {
                return Err(io::Error::other(format!(
                    "there are more than {MOST_FILES} files"
                )));
            }
        }
        paths.sort_unstable();
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let opened = File::options()
                .read(true)
                .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
                .open(&path);
            let file = match opened {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            let about = file.metadata()?;
            if about.is_file() {
                let name = path.strip_prefix(&out).unwrap_or(&path);
                files.push(OutputFile {
                    name: name.to_string_lossy().into_owned(),
                    file,
                    size: about.len(),
                });
            }
        }
        Ok(files)
    }
}

impl OutputFile {
    /// All of it, at most `most` bytes.
    pub(super) fn read(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&mut self.file).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Drop for TaskDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, directory = %self.path.display(), "the files of a task could not be removed");
        }
    }
}

enum WalkError {
    TooMany,
    Io(io::Error),
}

/// What a file takes on the disk, not what it claims: it may be sparse, or smaller than a block.
fn blocks(about: &Metadata) -> u64 {
    about.blocks().saturating_mul(512)
}

/// Shows every entry below a directory, links as such; until `show` is false. More than `most` are an error.
fn walk(top: &Path, most: usize, show: &mut dyn FnMut(&Path, &Metadata) -> bool) -> Result<(), WalkError> {
    let mut count = 0;
    let mut open = vec![(top.to_owned(), 0)];
    while let Some((directory, depth)) = open.pop() {
        for entry in fs::read_dir(&directory).map_err(WalkError::Io)? {
            count += 1;
            if count > most {
                return Err(WalkError::TooMany);
            }
            let entry = entry.map_err(WalkError::Io)?;
            // Of the entry itself, not of what a link leads to.
            let about = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                about => about.map_err(WalkError::Io)?,
            };
            let path = entry.path();
            if !show(&path, &about) {
                return Ok(());
            }
            if about.is_dir() && depth < DEEPEST {
                open.push((path, depth + 1));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::parts::{data_part, raw_part, text_part};

    fn task(parts: Vec<v1::Part>) -> v1::Task {
        v1::Task {
            messages: vec![v1::Message {
                parts,
                ..v1::Message::default()
            }],
            ..v1::Task::default()
        }
    }

    #[test]
    fn files_of_a_task_are_there_by_safe_names() {
        let above = tempfile::tempdir().unwrap();
        let task = task(vec![
            text_part("look"),
            raw_part(b"one".to_vec(), "../../a.txt", ""),
            raw_part(b"two".to_vec(), "a.txt", ""),
            data_part(&serde_json::json!([1])),
        ]);
        let directory = TaskDirectory::new(above.path(), &task).unwrap();
        let read = |name: &str| fs::read_to_string(directory.input().join(name)).unwrap();
        assert_eq!(
            (read("a.txt"), read("a-2.txt"), read("part-4.json")),
            ("one".into(), "two".into(), "[1]".into())
        );
        let messages: Value = serde_json::from_str(&read(MESSAGES)).unwrap();
        assert_eq!(messages[0]["parts"][0]["text"], "look");
        assert_eq!(messages[0]["parts"][2]["file"], "a-2.txt");
        assert_eq!(messages[0]["parts"][3]["data"], serde_json::json!([1]));
        drop(directory);
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_the_task_brings_is_no_output() {
        let above = tempfile::tempdir().unwrap();
        let parts = vec![raw_part(vec![7; 300 << 10], "large", "")];
        let directory = TaskDirectory::new(above.path(), &task(parts)).unwrap();
        assert_eq!(directory.check_size(64 << 10), Ok(()));
        assert_eq!(directory.check_size(0), Ok(()));
        let added = directory.input().join("added");
        fs::write(&added, vec![7; 80 << 10]).unwrap();
        File::open(&added).unwrap().sync_all().unwrap();
        assert!(directory.check_size(64 << 10).is_err());
    }

    #[test]
    fn only_regular_files_are_results() {
        let above = tempfile::tempdir().unwrap();
        let directory = TaskDirectory::new(above.path(), &task(Vec::new())).unwrap();
        let out = directory.output();
        fs::create_dir(out.join("b")).unwrap();
        fs::write(out.join("b/c.txt"), "c").unwrap();
        fs::write(out.join("a.bin"), "aa").unwrap();
        symlink("/etc/passwd", out.join("link")).unwrap();
        symlink("/etc", out.join("linked")).unwrap();
        let names: Vec<(String, u64)> = directory
            .outputs()
            .unwrap()
            .into_iter()
            .map(|file| (file.name, file.size))
            .collect();
        assert_eq!(names, [("a.bin".to_owned(), 2), ("b/c.txt".to_owned(), 1)]);
        assert_eq!(directory.check_size(1 << 20), Ok(()));
        fs::write(out.join("large"), vec![1; 2 << 20]).unwrap();
        assert!(directory.check_size(1 << 20).is_err());
    }
}
