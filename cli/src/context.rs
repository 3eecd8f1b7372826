//! What all commands share: the home, the daemon's address, the way to reach or start a daemon.

use std::{
    ffi::OsString,
    net::TcpStream,
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast::{AgentCard, ErrorKind, Node, NodeBuilder};
use agentanycast_identity::{self as identity, Keypair};
use agentanycast_node::config::{self, Loaded};

use crate::{
    args::{Global, PolicyFile},
    failure::{Code, Failure},
    output,
};

/// How long a call waits for a daemon that is being restarted. A person is waiting too.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where a user's daemon lives.
const DEFAULT_HOME: &str = "~/.agentanycast";

/// The daemon's socket inside a home.
const SOCKET: &str = "daemon.sock";

/// The socket of the daemon that the package's service runs.
const SERVICE_SOCKET: &str = "/run/agentanycast/daemon.sock";

/// How long a TCP connection to a daemon of this host may take.
const PROBE: Duration = Duration::from_millis(300);

/// The daemon's settings inside a home.
const CONFIG_FILE: &str = "config.toml";

/// Names the daemon's settings where no flag does.
pub(crate) const CONFIG_VARIABLE: &str = "AGENTANYCAST_CONFIG";

#[derive(Clone, Debug)]
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
        let (tried, source, advice) = self.tried();
        let elsewhere = match self.elsewhere(&tried) {
            Some(other) => format!(", or use the daemon that runs at {other} with `--daemon {other}`"),
            None => String::new(),
        };
        format!("no daemon is running at {tried} ({source}); {advice}{elsewhere}")
    }

    /// The address where a daemon was looked for, which option or default gave it, and how there comes to be
    /// a daemon.
    fn tried(&self) -> (String, String, String) {
        if let Some(address) = &self.daemon {
            let advice = "start one that listens there";
            return (address.clone(), "from --daemon".to_owned(), advice.to_owned());
        }
        let home = self.home.display();
        let directory = self.directory().unwrap_or_else(|_| self.home.clone());
        let tried = unix_address(&directory.join(SOCKET));
        if self.home_given {
            let advice = format!("start one with `anycast --home {home} daemon`");
            return (tried, format!("from --home {home}"), advice);
        }
        let advice = "start one with `anycast daemon`".to_owned();
        (tried, format!("from the default home {home}"), advice)
    }

    /// The address of a daemon that runs at one of the usual places, but for the one that was tried: where
    /// the settings have it, in the default home, and as the package's service.
    fn elsewhere(&self, tried: &str) -> Option<String> {
        let mut args: Vec<OsString> = vec!["agentanycastd".into()];
        if let Ok(Some(path)) = self.settings_of_home() {
            args.extend(["--config".into(), path.into()]);
        }
        let set = match config::load_again(&args).1 {
            Ok(Loaded::Run { config, .. }) => Some(config.grpc_listen.to_string()),
            _ => None,
        };
        let default = std::env::home_dir().map(|home| home.join(".agentanycast").join(SOCKET));
        let usual = default.into_iter().chain([PathBuf::from(SERVICE_SOCKET)]);
        let mut places = set.into_iter().chain(usual.map(|path| unix_address(&path)));
        places.find(|address| address != tried && is_listened_on(address))
    }

    /// Why a daemon that may be running does not answer this user: it takes calls of its own alone.
    fn of_another_user(&self) -> Option<String> {
        let socket = match &self.daemon {
            Some(address) => PathBuf::from(address.strip_prefix("unix://")?),
            None => self.directory().ok()?.join(SOCKET),
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
            for warning in node.set_card(card).await? {
                output::complain(&format!("anycast: {warning}"));
            }
        }
        Ok(node)
    }
}

fn unix_address(socket: &Path) -> String {
    format!("unix://{}", socket.display())
}

/// Whether connections to an address are taken: `unix://PATH`, or `tcp://IP:PORT`.
fn is_listened_on(address: &str) -> bool {
    if let Some(path) = address.strip_prefix("unix://") {
        return UnixStream::connect(path).is_ok();
    }
    let socket = address
        .strip_prefix("tcp://")
        .and_then(|socket| socket.parse().ok());
    socket.is_some_and(|socket| TcpStream::connect_timeout(&socket, PROBE).is_ok())
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
