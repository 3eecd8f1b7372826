//! Files of the working directory, as an agent reads and writes them through the runner.
//!
//! Invariant: a file is touched only when its path, with all links resolved, is inside the directory, and it is a
//! regular file. Agents also have the rights of their process: this bounds what goes through the runner, nothing else.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
};

/// Largest file that is read or written, in bytes.
const FILE_LIMIT: u64 = 16 << 20;

/// The files of one directory.
#[derive(Debug, Clone)]
pub(super) struct ConfinedFiles {
    /// Absolute, with its links resolved.
    root: PathBuf,
}

impl ConfinedFiles {
    /// The files of this directory.
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        Ok(Self {
            root: fs::canonicalize(root)?,
        })
    }

    /// The directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The text of a file: `limit` lines of it from the line `line` on, which counts from 1.
    ///
    /// # Errors
    /// The reason for people.
    pub(super) fn read(&self, path: &Path, line: Option<u32>, limit: Option<u32>) -> Result<String, String> {
        let real = self.existing(path)?;
        let failed = |error: io::Error| format!("{} cannot be read: {error}", path.display());
        let mut text = String::new();
        let mut file = File::open(&real).map_err(failed)?.take(FILE_LIMIT + 1);
        file.read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > FILE_LIMIT {
            return Err(too_large(path));
        }
        if line.is_none() && limit.is_none() {
            return Ok(text);
        }
        let before = line.unwrap_or(1).saturating_sub(1) as usize;
        let most = limit.map_or(usize::MAX, |limit| limit as usize);
        Ok(text.split_inclusive('\n').skip(before).take(most).collect())
    }

    /// Writes a file, with the directories that it needs.
    ///
    /// # Errors
    /// The reason for people.
    pub(super) fn write(&self, path: &Path, content: &str) -> Result<(), String> {
        if content.len() as u64 > FILE_LIMIT {
            return Err(too_large(path));
        }
        let failed = |error: io::Error| format!("{} cannot be written: {error}", path.display());
        let real = match fs::symlink_metadata(path) {
            Ok(_) => self.existing(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let real = self.to_be_made(path)?;
                if let Some(folder) = real.parent() {
                    fs::create_dir_all(folder).map_err(failed)?;
                }
                real
            }
            Err(error) => return Err(failed(error)),
        };
        fs::write(real, content).map_err(failed)
    }

    /// A directory for a command: the one that is named, or the root.
    ///
    /// # Errors
    /// The reason for people.
    pub(super) fn folder(&self, path: Option<&Path>) -> Result<PathBuf, String> {
        let Some(path) = path else {
            return Ok(self.root.clone());
        };
        let real = fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))?;
        self.check(path, real)
    }

    /// The real path of a regular file.
    fn existing(&self, path: &Path) -> Result<PathBuf, String> {
        check_absolute(path)?;
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let real = self.check(path, fs::canonicalize(path).map_err(failed)?)?;
        let about = fs::metadata(&real).map_err(failed)?;
        if !about.is_file() {
            return Err(format!("{} is no regular file", path.display()));
        }
        if about.len() > FILE_LIMIT {
            return Err(too_large(path));
        }
        Ok(real)
    }

    /// The real path of a file that is not there: that of the nearest directory that is, with the rest.
    fn to_be_made(&self, path: &Path) -> Result<PathBuf, String> {
        check_absolute(path)?;
        let mut missing = Vec::new();
        let mut folder = path;
        loop {
            let (Some(name), Some(parent)) = (folder.file_name(), folder.parent()) else {
                return Err(self.outside(path));
            };
            missing.push(name);
            folder = parent;
            match fs::symlink_metadata(folder) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{}: {error}", path.display())),
            }
        }
        let real = fs::canonicalize(folder).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut real = self.check(path, real)?;
        real.extend(missing.iter().rev());
        Ok(real)
    }

    fn check(&self, path: &Path, real: PathBuf) -> Result<PathBuf, String> {
        if real.starts_with(&self.root) {
            Ok(real)
        } else {
            Err(self.outside(path))
        }
    }

    fn outside(&self, path: &Path) -> String {
        format!("{} is outside of {}", path.display(), self.root.display())
    }
}

fn check_absolute(path: &Path) -> Result<(), String> {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    if !path.is_absolute() || climbs {
        return Err(format!("{} is no absolute path without ..", path.display()));
    }
    Ok(())
}

fn too_large(path: &Path) -> String {
    format!("{} has more than {} MiB", path.display(), FILE_LIMIT >> 20)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folders() -> (tempfile::TempDir, ConfinedFiles, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(folder.path().join("secret"), "s").unwrap();
        let files = ConfinedFiles::new(&root).unwrap();
        let root = files.root().to_owned();
        (folder, files, root)
    }

    #[test]
    fn files_inside_are_read_and_written() {
        let (_folder, files, root) = folders();
        let path = root.join("a/b/c.txt");
        files.write(&path, "1\n2\n3").unwrap();
        assert_eq!(files.read(&path, None, None).unwrap(), "1\n2\n3");
        assert_eq!(files.read(&path, Some(2), Some(1)).unwrap(), "2\n");
        assert_eq!(files.read(&path, Some(3), None).unwrap(), "3");
        assert_eq!(files.read(&path, Some(9), None).unwrap(), "");
        files.write(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        symlink(&path, root.join("inside")).unwrap();
        assert_eq!(files.read(&root.join("inside"), None, None).unwrap(), "new");
    }

    #[test]
    fn nothing_outside_is_read_or_written() {
        let (folder, files, root) = folders();
        symlink(folder.path(), root.join("out")).unwrap();
        symlink(folder.path().join("new"), root.join("dangling")).unwrap();
        for path in [
            folder.path().join("secret"),
            root.join("../secret"),
            root.join("out/secret"),
            root.join("out/new/file"),
            root.join("dangling"),
            PathBuf::from("secret"),
            PathBuf::from("/"),
        ] {
            assert!(files.read(&path, None, None).is_err(), "{}", path.display());
            assert!(files.write(&path, "x").is_err(), "{}", path.display());
        }
        assert_eq!(fs::read_to_string(folder.path().join("secret")).unwrap(), "s");
        assert!(!folder.path().join("new").exists());
        assert!(files.folder(Some(&root.join("out"))).is_err());
        assert_eq!(files.folder(None).unwrap(), root);
    }

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let (_folder, files, root) = folders();
        assert!(
            files
                .read(&root, None, None)
                .unwrap_err()
                .contains("no regular file")
        );
        let fifo = root.join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        assert!(
            files
                .read(&fifo, None, None)
                .unwrap_err()
                .contains("no regular file")
        );
        let large = root.join("large");
        File::create(&large).unwrap().set_len(FILE_LIMIT + 1).unwrap();
        assert!(
            files
                .read(&large, None, None)
                .unwrap_err()
                .contains("more than 16 MiB")
        );
        assert!(files.write(&large, &"x".repeat(FILE_LIMIT as usize + 1)).is_err());
    }
}
