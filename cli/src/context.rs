//! What all commands share: the home, the daemon's address, the way to reach or start a daemon.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast::{AgentCard, ErrorKind, Node, NodeBuilder};
use agentanycast_identity::{self as identity, Keypair};

use crate::{
    args::{Global, PolicyFile},
    failure::{Code, Failure},
};

/// How long a call waits for a daemon that is being restarted. A person is waiting too.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where a user's daemon lives.
const DEFAULT_HOME: &str = "~/.agentanycast";

/// The daemon's settings inside a home.
const CONFIG_FILE: &str = "config.toml";

/// Names the daemon's settings where no flag does.
pub(crate) const CONFIG_VARIABLE: &str = "AGENTANYCAST_CONFIG";

#[derive(Debug)]
pub(crate) struct Context {
    /// As given; the default home otherwise.
    pub(crate) home: PathBuf,
    /// Whether the home was given.
    pub(crate) home_given: bool,
    daemon: Option<String>,
    pub(crate) json: bool,
}

impl Context {
    pub(crate) fn new(global: Global) -> Self {
        Self {
            home_given: global.home.is_some(),
            home: global.home.unwrap_or_else(|| DEFAULT_HOME.into()),
            daemon: global.daemon,
            json: global.json,
        }
    }

    fn builder(&self) -> NodeBuilder {
        Node::builder().home(&self.home).patience(PATIENCE)
    }

    /// Whether a daemon was named by its address.
    pub(crate) fn daemon_given(&self) -> bool {
        self.daemon.is_some()
    }

    /// The home as a full path.
    pub(crate) fn directory(&self) -> Result<PathBuf, Failure> {
        let home = match self.home.strip_prefix("~") {
            Ok(rest) => std::env::home_dir()
                .ok_or_else(|| Failure::usage("there is no home directory; give one with --home"))?
                .join(rest),
            Err(_) => self.home.clone(),
        };
        Ok(std::path::absolute(home)?)
    }

    /// The daemon's settings that were given, or those of the home.
    pub(crate) fn settings(&self, given: &PolicyFile) -> Result<Option<PathBuf>, Failure> {
        match &given.config {
            Some(path) => Ok(Some(path.clone())),
            None => self.settings_of_home(),
        }
    }

    /// The settings in the home that was given; `None` if there are none, or the environment names others: then it is the
    /// daemon's own rule that counts.
    pub(crate) fn settings_of_home(&self) -> Result<Option<PathBuf>, Failure> {
        let elsewhere = std::env::var_os(CONFIG_VARIABLE).is_some_and(|path| !path.is_empty());
        if elsewhere || !self.home_given {
            return Ok(None);
        }
        // A link that leads nowhere is there, too: its daemon does not start without the rules.
        Ok(Some(self.directory()?.join(CONFIG_FILE)).filter(|path| path.symlink_metadata().is_ok()))
    }

    /// The key file that was given, or the home's.
    pub(crate) fn key_path(&self, given: Option<&Path>) -> Result<PathBuf, Failure> {
        match given {
            Some(path) => Ok(path.to_owned()),
            None => Ok(self.directory()?.join("key")),
        }
    }

    /// The key in a file, or the home's.
    pub(crate) fn key(&self, given: Option<&Path>) -> Result<Keypair, Failure> {
        let path = self.key_path(given)?;
        let failed = |text: String| Failure::new(Code::General, "Key", text);
        let key = identity::load(&path).map_err(|error| failed(error.to_string()))?;
        key.ok_or_else(|| failed(format!("there is no key {}; give one with --key", path.display())))
    }

    /// The daemon that runs; it is an error if none does.
    pub(crate) async fn connect(&self) -> Result<Node, Failure> {
        let address = self.daemon.as_deref().unwrap_or_default();
        self.builder()
            .connect(address)
            .await
            .map_err(|error| match error.kind() {
                ErrorKind::DaemonUnavailable => {
                    let message = self.nobody_there();
                    Failure::new(Code::Daemon, "DaemonUnavailable", message)
                }
                _ => error.into(),
            })
    }

    fn nobody_there(&self) -> String {
        if let Some(why) = self.of_another_user() {
            return why;
        }
        if let Some(address) = &self.daemon {
            return format!("no daemon is running at {address}");
        }
        let home = self.home.display();
        let option = if self.home_given {
            format!("--home {home} ")
        } else {
            String::new()
        };
        format!("no daemon is running at {home}; start one with `anycast {option}daemon`")
    }

    /// Why a daemon that may be running does not answer this user: it takes calls of its own alone.
    fn of_another_user(&self) -> Option<String> {
        let socket = match &self.daemon {
            Some(address) => PathBuf::from(address.strip_prefix("unix://")?),
            None => self.directory().ok()?.join("daemon.sock"),
        };
        let shown = socket.display();
        match std::fs::metadata(&socket) {
            Ok(about) if about.uid() != rustix::process::geteuid().as_raw() => Some(format!(
                "the daemon at {shown} answers its own user alone, who has the number {uid}; run this as that user, as with \
                 `sudo -u '#{uid}'`",
                uid = about.uid()
            )),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Some(format!(
                "this user may not look for a daemon at {shown}; run this as the user whose daemon it is"
            )),
            _ => None,
        }
    }

    /// The daemon that runs, or one that is started for as long as the node is kept.
    pub(crate) async fn connect_or_start(&self, card: Option<AgentCard>) -> Result<Node, Failure> {
        let node = if self.daemon.is_some() {
            self.connect().await?
        } else {
            self.builder()
                .daemon_command(own_program()?, ["daemon"])
                .start()
                .await?
        };
        if let Some(card) = card {
            node.set_card(card).await?;
        }
        Ok(node)
    }
}

/// This program, which is the daemon too.
pub(crate) fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::new(
            Code::General,
            "Io",
            format!("cannot find this program to start it as the daemon: {error}"),
        )
    })
}
