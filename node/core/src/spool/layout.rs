//! Where artifacts lie: `<hash of the task's id>/<hash of the artifact's id>.part`, and `.done` once ended.
//!
//! Ids come from other machines and are never used as text of a path; the file's START tells them. The
//! rule: a `.done` file was synced as a whole before it got its name.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use agentanycast_proto::v1::StreamStart;
use sha2::{Digest, Sha256};

const UNFINISHED: &str = "part";
const FINISHED: &str = "done";

/// Length of a SHA-256 in hexadecimal digits.
const HEX: usize = 64;

/// One artifact's place in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ArtifactPath {
    task_dir: PathBuf,
    name: String,
}

impl ArtifactPath {
    /// The place of the artifact with these ids below `root`.
    pub(super) fn new(root: &Path, task: &str, artifact: &str) -> Self {
        Self {
            task_dir: task_dir(root, task),
            name: hash(artifact),
        }
    }

    /// The place that the file at `path` takes, and whether it has ended; none for a foreign file.
    pub(super) fn from_path(path: &Path) -> Option<(Self, bool)> {
        let name = path
            .file_stem()?
            .to_str()
            .filter(|name| is_hash(name))?
            .to_owned();
        let finished = match path.extension()?.to_str()? {
            FINISHED => true,
            UNFINISHED => false,
            _ => return None,
        };
        Some((
            Self {
                task_dir: path.parent()?.to_owned(),
                name,
            },
            finished,
        ))
    }

    /// Whether the file here may say that it holds this artifact.
    pub(super) fn matches(&self, start: &StreamStart) -> bool {
        self.name == hash(&start.artifact_id)
            && self
                .task_dir
                .file_name()
                .is_some_and(|dir| dir == hash(&start.task_id).as_str())
    }

    pub(super) fn task_dir(&self) -> &Path {
        &self.task_dir
    }

    pub(super) fn unfinished(&self) -> PathBuf {
        self.task_dir.join(format!("{}.{UNFINISHED}", self.name))
    }

    pub(super) fn finished(&self) -> PathBuf {
        self.task_dir.join(format!("{}.{FINISHED}", self.name))
    }
}

/// The directory of a task's artifacts.
pub(super) fn task_dir(root: &Path, task: &str) -> PathBuf {
    root.join(hash(task))
}

/// The paths of all artifacts of the task at `task_dir`; none when there is no such directory.
pub(super) fn artifacts(task_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = match fs::read_dir(task_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?.map(|entry| entry.map(|entry| entry.path())),
    };
    paths
        .filter(|path| {
            path.as_ref()
                .map_or(true, |path| ArtifactPath::from_path(path).is_some())
        })
        .collect()
}

/// The directories of all tasks below `root`.
pub(super) fn tasks(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut tasks = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_hash) && entry.file_type()?.is_dir() {
            tasks.push(entry.path());
        }
    }
    Ok(tasks)
}

/// Makes `dir` and what is above it, for this user only.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Makes a file that must not exist, for this user only.
pub(super) fn make_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Size in bytes of the file at `path`; 0 when there is none.
pub(super) fn size_of(path: &Path) -> io::Result<u64> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        metadata => Ok(metadata?.len()),
    }
}

/// Makes the entries of a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn hash(id: &str) -> String {
    Sha256::digest(id.as_bytes())
        .iter()
        .fold(String::with_capacity(HEX), |mut hex, byte| {
            for nibble in [byte >> 4, byte & 15] {
                hex.push(char::from_digit(nibble.into(), 16).unwrap_or_default());
            }
            hex
        })
}

fn is_hash(name: &str) -> bool {
    name.len() == HEX && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
