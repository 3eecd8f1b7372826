//! What all commands share: the home, the daemon's address, the way to reach or start a daemon.

use std::{
    ffi::OsString,
    net::TcpStream,
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agentanycast::{Error, ErrorKind, Node, NodeBuilder};
use agentanycast_identity::{self as identity, Keypair};
use agentanycast_node::load_config::{self, LoadedConfig};

use crate::{
    aliases::{self, alias_table::AliasTable},
    background_daemon::BackgroundDaemon,
    failure::{CommandFailure, FailureCode},
    hints,
    home::{CONFIG_VARIABLE, Home},
    output,
    settings_file::SettingsFile,
    shared_args::{Global, PolicyFile},
    system_daemon::{self, SystemDaemon},
};

/// How long a call waits for a daemon that is being restarted. A person is waiting too.
const CALL_PATIENCE: Duration = Duration::from_secs(15);

/// How long a daemon that has just taken its socket may take to answer there.
const FIRST_ANSWER: Duration = Duration::from_secs(15);

/// How long a TCP connection to a daemon of this host may take.
const PROBE_TIMEOUT: Duration = Duration::from_millis(300);

/// Says where the store is instead.
const STORE_VARIABLE: &str = "AGENTANYCAST_STORE_PATH";

#[derive(Clone, Debug)]
/// What a command is given: where its daemon is, and how it says what it has to say.
pub struct Context {
    /// The home of its daemon.
    pub home: Home,
    daemon: Option<String>,
    /// Whether it speaks JSON.
    pub json: bool,
    /// Whether it starts no daemon.
    pub no_start: bool,
    /// To be kept in the settings of the home.
    relays: Vec<String>,
}

impl Context {
    pub(crate) fn new(global: Global) -> Self {
        Self {
            home: Home::new(global.home),
            daemon: global.daemon,
            json: global.json,
            no_start: global.no_start,
            relays: global.relays,
        }
    }

    /// Refuses relays that a command would do nothing with.
    pub(crate) fn check_relays(&self, starts_daemon: bool) -> Result<(), CommandFailure> {
        if self.relays.is_empty() || starts_daemon {
            return Ok(());
        }
        Err(CommandFailure::usage(format!(
            "--relay goes with commands that start a daemon; `{}` keeps the relay",
            hints::command("up --relay ADDR")
        )))
    }

    fn builder(&self) -> NodeBuilder {
        Node::builder().home(self.home.path()).patience(CALL_PATIENCE)
    }

    /// Whether a daemon was named by its address.
    pub fn daemon_given(&self) -> bool {
        self.daemon.is_some()
    }

    /// The argument that names the daemon to a program beside it, if one was named: by its address, or by its
    /// home.
    pub(crate) fn daemon_argument(&self) -> Result<Option<OsString>, CommandFailure> {
        let mut argument = OsString::from("--daemon=");
        match &self.daemon {
            Some(address) => argument.push(address),
            None if self.home.is_given() => {
                argument.push("unix://");
                argument.push(self.home.socket()?);
            }
            None => return Ok(None),
        }
        Ok(Some(argument))
    }

    /// The daemon's settings that were given, or those of the home.
    pub(crate) fn settings(&self, given: &PolicyFile) -> Result<Option<PathBuf>, CommandFailure> {
        match &given.config {
            Some(path) => Ok(Some(path.clone())),
            None => self.home.own_settings(),
        }
    }

    /// The names that the user has given to peers; none where there is no home.
    pub(crate) fn aliases(&self) -> Result<AliasTable, CommandFailure> {
        match self.home.directory() {
            Ok(home) => aliases::load(&home),
            Err(_) if !self.home.is_given() => Ok(AliasTable::default()),
            Err(failure) => Err(failure),
        }
    }

    /// The id of the peer that the user has given this name; `None` if it is no alias.
    pub(crate) fn alias(&self, name: &str) -> Result<Option<String>, CommandFailure> {
        let book = self.aliases()?;
        Ok(book.get(name).map(|alias| alias.peer.to_string()))
    }

    /// Whether no daemon can know anything here: none was named, and the home has none of a daemon's files.
    pub(crate) fn is_unused(&self) -> bool {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if self.daemon.is_some()
            || self.system_daemon() == SystemDaemon::Usable
            || [CONFIG_VARIABLE, STORE_VARIABLE].into_iter().any(is_set)
        {
            return false;
        }
        self.home.is_unused()
    }

    /// The key file that was given, or the home's.
    pub(crate) fn key_path(&self, given: Option<&Path>) -> Result<PathBuf, CommandFailure> {
        match given {
            Some(path) => Ok(path.to_owned()),
            None => Ok(self.home.directory()?.join("key")),
        }
    }

    /// The key in a file, or the home's.
    pub fn key(&self, given: Option<&Path>) -> Result<Keypair, CommandFailure> {
        let path = self.key_path(given)?;
        let failed = |text: String| CommandFailure::new(FailureCode::General, "Key", text);
        let key = identity::load(&path).map_err(|error| failed(error.to_string()))?;
        key.ok_or_else(|| failed(format!("there is no key {}; give one with --key", path.display())))
    }

    /// The daemon that runs; it is an error if none does.
    pub(crate) async fn connect(&self) -> Result<Node, CommandFailure> {
        self.reach().await.map_err(|error| match error.kind() {
            ErrorKind::DaemonUnavailable => none_runs(&self.no_daemon_text()),
            _ => error.into(),
        })
    }

    /// The daemon that was named, or else the home's, or else the package's where this user may use it.
    async fn reach(&self) -> Result<Node, Error> {
        let address = self.daemon.as_deref().unwrap_or_default();
        match self.builder().connect(address).await {
            Err(error)
                if error.kind() == ErrorKind::DaemonUnavailable
                    && self.system_daemon() == SystemDaemon::Usable =>
            {
                let address = unix_address(Path::new(system_daemon::SOCKET));
                self.builder().connect(address).await
            }
            outcome => outcome,
        }
    }

    /// The package's daemon, which stands in for that of the default home.
    fn system_daemon(&self) -> SystemDaemon {
        if self.daemon.is_some() || self.home.is_given() {
            return SystemDaemon::Absent;
        }
        let me = rustix::process::geteuid().as_raw();
        SystemDaemon::find(Path::new(system_daemon::SOCKET), me)
    }

    /// The daemon that runs, or the home's, which is started in the background and stays. Relays that were given are kept
    /// first.
    pub async fn connect_or_start(&self) -> Result<Node, CommandFailure> {
        let are_relays_new = self.keep_relays()?;
        match self.reach().await {
            Ok(node) => {
                if are_relays_new {
                    self.say_restart_is_needed()?;
                }
                return Ok(node);
            }
            Err(error) if error.kind() != ErrorKind::DaemonUnavailable => return Err(error.into()),
            Err(_) => self.check_may_start()?,
        }
        self.start().await?;
        self.first_answer().await
    }

    /// Starts the home's daemon, unless it runs, and says so.
    pub async fn start(&self) -> Result<(), CommandFailure> {
        let running = BackgroundDaemon::new(&self.home)?.start().await?;
        if running.is_new {
            output::warn(&format!(
                "started the daemon (pid {}); {} stops it",
                running.pid.as_raw_nonzero(),
                hints::command("down")
            ));
        }
        Ok(())
    }

    /// Refuses to start a daemon where the user does not want one, or has another one.
    fn check_may_start(&self) -> Result<(), CommandFailure> {
        if self.daemon.is_some() || self.of_another_user().is_some() {
            return Err(none_runs(&self.no_daemon_text()));
        }
        if self.no_start {
            let why = self.no_daemon_text();
            return Err(none_runs(&format!(
                "{why}; --no-start or ANYCAST_NO_START keeps this command from it"
            )));
        }
        // Who has had a node of their own goes on with it.
        let is_fresh = !self.home.directory()?.join("key").exists();
        match self.system_daemon() {
            SystemDaemon::OfUser(owner) if is_fresh => Err(none_runs(&format!(
                "this host has a daemon for all, of the user with the number {owner}, who alone may use it: run this as that \
                 user, as with `sudo -u '#{owner}'`, or start one of your own with `{}`",
                hints::command("up")
            ))),
            _ => Ok(()),
        }
    }

    /// The home's daemon, whose socket is there.
    pub(crate) async fn first_answer(&self) -> Result<Node, CommandFailure> {
        let until = Instant::now() + FIRST_ANSWER;
        loop {
            match self.builder().connect("").await {
                Err(error)
                    if matches!(error.kind(), ErrorKind::DaemonUnavailable | ErrorKind::Timeout)
                        && Instant::now() < until =>
                {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Keeps the relays that were given in the settings of the home; whether one of them is new there.
    pub(crate) fn keep_relays(&self) -> Result<bool, CommandFailure> {
        if self.relays.is_empty() {
            return Ok(false);
        }
        for relay in &self.relays {
            let is_peer = relay.rsplit_once("/p2p/").is_some_and(|(address, peer)| {
                !address.is_empty() && !peer.contains('/') && !peer.is_empty()
            });
            if !is_peer {
                return Err(CommandFailure::usage(format!(
                    "--relay {relay:?}: expected a multiaddr that ends in /p2p/PEER_ID, as the relay prints it behind RELAY_ADDR="
                )));
            }
        }
        SettingsFile::from_home(&self.home)?.add_to_list("bootstrap_peers", &self.relays)
    }

    /// Says that what was kept waits for the next start of the daemon that runs.
    pub(crate) fn say_restart_is_needed(&self) -> Result<(), CommandFailure> {
        output::warn(&format!(
            "kept in {}; `{}` makes the daemon that runs use it",
            self.home.settings_path()?.display(),
            hints::command("restart")
        ));
        Ok(())
    }

    /// Refuses the address of a daemon where a command is about the home's.
    pub(crate) fn refuse_address(&self) -> Result<(), CommandFailure> {
        if self.daemon.is_none() {
            return Ok(());
        }
        Err(CommandFailure::usage(
            "this command is about the daemon of a home, which --home names; leave --daemon out",
        ))
    }

    /// That the home has no daemon that runs, and where it was looked for.
    pub(crate) fn no_daemon_failure(&self) -> CommandFailure {
        none_runs(&self.no_daemon_text())
    }

    fn no_daemon_text(&self) -> String {
        if let Some(why) = self.of_another_user() {
            return why;
        }
        let (tried, source, advice) = self.tried();
        let elsewhere = match (self.elsewhere(&tried), self.system_daemon()) {
            (_, SystemDaemon::OfUser(owner)) => format!(
                "; the daemon of this host is that of the user with the number {owner}, who alone may use it, as with \
                 `sudo -u '#{owner}'`"
            ),
            (Some(other), _) => format!(", or use the daemon that runs at {other} with `--daemon {other}`"),
            (None, _) => String::new(),
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
        let home = self.home.path().display();
        let tried = unix_address(&self.home.shown_socket());
        let source = if self.home.is_given() {
            format!("from --home {home}")
        } else {
            format!("from the default home {home}")
        };
        (
            tried,
            source,
            format!("start one with `{}`", hints::command("up")),
        )
    }

    /// The address of a daemon that runs at one of the usual places, but for the one that was tried: where
    /// the settings have it, in the default home, and as the package's service.
    fn elsewhere(&self, tried: &str) -> Option<String> {
        let mut args: Vec<OsString> = vec!["agentanycastd".into()];
        if let Ok(Some(path)) = self.home.own_settings() {
            args.extend(["--config".into(), path.into()]);
        }
        let set = match load_config::reload(&args).1 {
            Ok(LoadedConfig::Run { config, .. }) => Some(config.grpc_listen.to_string()),
            _ => None,
        };
        let usual = Home::default_socket()
            .into_iter()
            .chain([PathBuf::from(system_daemon::SOCKET)]);
        let mut places = set.into_iter().chain(usual.map(|path| unix_address(&path)));
        places.find(|address| address != tried && is_listened_on(address))
    }

    /// Why a daemon that may be running does not answer this user: it takes calls of its own alone.
    fn of_another_user(&self) -> Option<String> {
        let socket = match &self.daemon {
            Some(address) => PathBuf::from(address.strip_prefix("unix://")?),
            None => self.home.socket().ok()?,
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
}

fn none_runs(message: &str) -> CommandFailure {
    CommandFailure::new(FailureCode::Daemon, "DaemonUnavailable", message)
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
    socket.is_some_and(|socket| TcpStream::connect_timeout(&socket, PROBE_TIMEOUT).is_ok())
}
