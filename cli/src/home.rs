//! The home of a user's daemon: its directory, the daemon's socket in it, and where its settings are.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::failure::CommandFailure;

/// Where a user's daemon lives.
const DEFAULT_HOME: &str = "~/.agentanycast";

/// The daemon's socket inside a home.
const SOCKET: &str = "daemon.sock";

/// The daemon's settings inside a home.
const CONFIG_FILE: &str = "config.toml";

/// The daemon's store inside a home.
const STORE: &str = "data";

/// Names the daemon's settings where no flag does.
pub(crate) const CONFIG_VARIABLE: &str = "AGENTANYCAST_CONFIG";

/// The home that a command is about.
#[derive(Clone, Debug)]
pub struct Home {
    /// As given; the default home otherwise.
    path: PathBuf,
    is_given: bool,
}

impl Home {
    /// The home that was given, or else the default one.
    pub(crate) fn new(given: Option<PathBuf>) -> Self {
        Self {
            is_given: given.is_some(),
            path: given.unwrap_or_else(|| DEFAULT_HOME.into()),
        }
    }

    /// As it was given; the default home otherwise.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was given.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given
    }

    /// The full path.
    pub fn directory(&self) -> Result<PathBuf, CommandFailure> {
        Ok(std::path::absolute(expand(&self.path)?)?)
    }

    /// The socket of its daemon.
    pub(crate) fn socket(&self) -> Result<PathBuf, CommandFailure> {
        Ok(self.directory()?.join(SOCKET))
    }

    /// The socket of its daemon, to be shown: where there is no full path, in the home as it was given.
    pub(crate) fn shown_socket(&self) -> PathBuf {
        self.socket().unwrap_or_else(|_| self.path.join(SOCKET))
    }

    /// The socket of the default home's daemon.
    pub(crate) fn default_socket() -> Option<PathBuf> {
        default_directory().map(|home| home.join(SOCKET))
    }

    /// The file that its daemon has its settings from; it may be missing.
    pub(crate) fn settings_path(&self) -> Result<PathBuf, CommandFailure> {
        match std::env::var_os(CONFIG_VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Ok(std::path::absolute(expand(Path::new(&path))?)?),
            None => Ok(self.directory()?.join(CONFIG_FILE)),
        }
    }

    /// The file that counts as long as a home that was given has none.
    pub(crate) fn default_settings(&self) -> Option<PathBuf> {
        let home = default_directory().filter(|_| self.is_given)?;
        Some(home.join(CONFIG_FILE))
    }

    /// The argument that names the settings to its daemon, if there are some. A link that leads nowhere is there,
    /// too: its daemon does not start without the rules.
    pub(crate) fn settings_arguments(&self) -> Result<Vec<OsString>, CommandFailure> {
        let path = self.settings_path()?;
        let is_named = std::env::var_os(CONFIG_VARIABLE).is_some_and(|path| !path.is_empty());
        if !is_named && path.symlink_metadata().is_err() {
            return Ok(Vec::new());
        }
        let mut argument = OsString::from("--config=");
        argument.push(path);
        Ok(vec![argument])
    }

    /// The settings in it, if it was given; `None` if there are none, or the environment names others: then it is the
    /// daemon's own rule that counts.
    pub(crate) fn own_settings(&self) -> Result<Option<PathBuf>, CommandFailure> {
        let elsewhere = std::env::var_os(CONFIG_VARIABLE).is_some_and(|path| !path.is_empty());
        if elsewhere || !self.is_given {
            return Ok(None);
        }
        // A link that leads nowhere is there, too: its daemon does not start without the rules.
        Ok(Some(self.directory()?.join(CONFIG_FILE)).filter(|path| path.symlink_metadata().is_ok()))
    }

    /// Whether it has none of a daemon's files. False where that cannot be told.
    pub(crate) fn is_unused(&self) -> bool {
        let Ok(home) = self.directory() else { return false };
        let is_there = |name: &str| home.join(name).symlink_metadata().is_ok();
        ![STORE, SOCKET, CONFIG_FILE].into_iter().any(is_there)
    }
}

/// The default home as a full path.
fn default_directory() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".agentanycast"))
}

/// Replaces a leading `~` by the user's home directory.
fn expand(path: &Path) -> Result<PathBuf, CommandFailure> {
    let Ok(rest) = path.strip_prefix("~") else {
        return Ok(path.to_owned());
    };
    let home = std::env::home_dir();
    let home =
        home.ok_or_else(|| CommandFailure::usage("there is no home directory; give one with --home"))?;
    Ok(home.join(rest))
}
