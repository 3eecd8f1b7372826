//! What is made of files, and made anew when they change, so that a renewal needs no restart.
//!
//! The one rule: what is of no use is not used; then the old goes on being used, and a warning says so.
//!
//! Who knows that files have changed need not wait until they are looked at: [`request_reload`], by SIGHUP.

use std::{
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::file_version::FileVersion;

/// How often the files are looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How often it was asked that all files be read again. Of the process, as the signal is that asks.
static RELOAD_REQUESTS: AtomicU64 = AtomicU64::new(0);

/// Whatever is made of files is made anew when it is used next, also if they look as before.
pub fn request_reload() {
    RELOAD_REQUESTS.fetch_add(1, Relaxed);
}

type Make<T> = Box<dyn Fn() -> anyhow::Result<T> + Send + Sync>;

/// Something made of files.
pub struct HotReload<T> {
    /// What it is, for the log.
    what: String,
    files: Vec<PathBuf>,
    make: Make<T>,
    every: Duration,
    current: Mutex<LoadedValue<T>>,
}

struct LoadedValue<T> {
    value: T,
    versions: Vec<OptionalVersion>,
    looked: Instant,
    /// [`RELOAD_REQUESTS`], when it was made.
    requests: u64,
}

/// The version of a file. `None`: it is not there.
type OptionalVersion = Option<FileVersion>;

impl<T> std::fmt::Debug for HotReload<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HotReload").field(&self.what).finish()
    }
}

impl<T: Clone> HotReload<T> {
    /// Made of these files.
    ///
    /// # Errors
    /// When it cannot be made now.
    pub fn new(
        what: impl Into<String>,
        files: Vec<PathBuf>,
        make: impl Fn() -> anyhow::Result<T> + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let seen = file_versions(&files);
        let current = LoadedValue {
            value: make()?,
            versions: seen,
            looked: Instant::now(),
            requests: RELOAD_REQUESTS.load(Relaxed),
        };
        Ok(Self {
            what: what.into(),
            files,
            make: Box::new(make),
            every: LOOK_EVERY,
            current: Mutex::new(current),
        })
    }

    /// It, made anew if the files have changed.
    pub fn get(&self) -> T {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = RELOAD_REQUESTS.load(Relaxed);
        let is_asked = asked != current.requests;
        if !self.files.is_empty() && (is_asked || current.looked.elapsed() >= self.every) {
            current.looked = Instant::now();
            current.requests = asked;
            // Before they are read: what is written meanwhile is seen the next time.
            let seen = file_versions(&self.files);
            if is_asked || seen != current.versions {
                current.versions = seen;
                match (self.make)() {
                    Ok(made) => {
                        current.value = made;
                        tracing::info!(what = self.what, "read again");
                    }
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::warn!(
                            what = self.what,
                            error,
                            "it has changed and cannot be used; the old goes on"
                        );
                    }
                }
            }
        }
        current.value.clone()
    }

    /// The same, looked at whenever it is used.
    #[must_use]
    pub fn without_interval(mut self) -> Self {
        self.every = Duration::ZERO;
        self
    }
}

fn file_versions(files: &[PathBuf]) -> Vec<OptionalVersion> {
    files.iter().map(|path| FileVersion::of(path)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, FileTimes};

    use anyhow::ensure;

    use super::*;

    #[test]
    fn what_has_changed_is_read_again_and_what_is_of_no_use_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = path.clone();
        let make = move || {
            let text = fs::read_to_string(&file)?;
            ensure!(text != "nonsense", "it is nonsense");
            Ok(text)
        };
        let missing = HotReload::new("a file", vec![path.clone()], make.clone());
        assert!(missing.is_err());
        fs::write(&path, "one").unwrap();
        let reloaded = HotReload::new("a file", vec![path.clone()], make)
            .unwrap()
            .without_interval();
        assert_eq!(reloaded.get(), "one");
        for (content, expected) in [
            ("one and more", "one and more"),
            ("nonsense", "one and more"),
            ("3", "3"),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(reloaded.get(), expected);
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(reloaded.get(), "3");
        fs::write(&path, "again").unwrap();
        assert_eq!(reloaded.get(), "again");
    }

    #[test]
    fn another_content_of_the_same_length_and_date_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "one").unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        let file = path.clone();
        let make = move || Ok(fs::read_to_string(&file)?);
        let reloaded = HotReload::new("a file", vec![path.clone()], make)
            .unwrap()
            .without_interval();
        fs::write(&path, "two").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_times(FileTimes::new().set_modified(written)).unwrap();
        assert_eq!(reloaded.get(), "two");
    }

    #[test]
    fn who_asks_does_not_wait_until_the_files_are_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "one").unwrap();
        let file = path.clone();
        let make = move || Ok(fs::read_to_string(&file)?);
        let reloaded = HotReload::new("a file", vec![path.clone()], make).unwrap();
        fs::write(&path, "two").unwrap();
        request_reload();
        assert_eq!(reloaded.get(), "two");
    }
}
