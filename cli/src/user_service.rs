//! The home's daemon as a service of its user, which the system starts at login: a user unit of systemd, or an agent of
//! launchd on macOS. Used by `anycast service`, and by commands that start the daemon of a home that has one.

mod launchd;
mod systemd;

use std::{
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::process::Command;

use crate::{
    failure::{CommandFailure, FailureCode},
    hints, kept_file,
};

/// A program of the service manager that was run.
#[derive(Debug)]
pub(crate) struct ToolOutput {
    pub(crate) is_success: bool,
    /// Standard output.
    pub(crate) text: String,
    /// Standard error, on one line.
    pub(crate) complaint: String,
}

/// The service of a home.
#[derive(Debug)]
pub(crate) struct UserService {
    manager: ServiceManager,
    home: PathBuf,
    /// What is added to names for a home that is not the default one.
    suffix: String,
    user_home: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServiceManager {
    Systemd,
    Launchd,
}

/// Whether the service goes on without a login of its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lingering {
    /// It starts with the system.
    On,
    /// It starts at login, and ends with the last session; this command changes that.
    Off(String),
    /// The service manager has no such thing, or does not say.
    Unknown,
}

impl UserService {
    /// That of a home; `is_default` is the home without a name.
    pub(crate) fn from_home(home: &Path, is_default: bool) -> Result<Self, CommandFailure> {
        let user_home = std::env::home_dir();
        Ok(Self {
            manager: if cfg!(target_os = "macos") {
                ServiceManager::Launchd
            } else {
                ServiceManager::Systemd
            },
            home: home.to_owned(),
            suffix: if is_default { String::new() } else { suffix(home) },
            user_home: user_home
                .ok_or_else(|| CommandFailure::usage("there is no home directory; set HOME"))?,
        })
    }

    /// Its name for the service manager.
    pub(crate) fn name(&self) -> String {
        match self.manager {
            ServiceManager::Systemd => format!("agentanycast{}.service", self.suffix),
            ServiceManager::Launchd => format!("io.agentanycast.daemon{}", self.suffix),
        }
    }

    /// The file that describes it to the service manager.
    pub(crate) fn path(&self) -> PathBuf {
        match self.manager {
            ServiceManager::Systemd => {
                let given = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
                let config = given
                    .filter(|path| path.is_absolute())
                    .unwrap_or_else(|| self.user_home.join(".config"));
                config.join("systemd/user").join(self.name())
            }
            ServiceManager::Launchd => {
                let name = format!("{}.plist", self.name());
                self.user_home.join("Library/LaunchAgents").join(name)
            }
        }
    }

    /// Whether it is installed.
    pub(crate) fn is_installed(&self) -> bool {
        self.path().symlink_metadata().is_ok()
    }

    /// Describes it to the service manager, which starts it at each login from now on; it does not start it now.
    pub(crate) async fn install(&self, program: &Path, arguments: &[OsString]) -> Result<(), CommandFailure> {
        let words = words(program, arguments)?;
        let text = match self.manager {
            ServiceManager::Systemd => systemd::unit(&words),
            ServiceManager::Launchd => launchd::plist(&self.name(), &words),
        };
        let path = self.path();
        let was_installed = self.is_installed();
        write(&path, &text).map_err(|error| general(format!("cannot write {}: {error}", path.display())))?;
        let done = match self.manager {
            ServiceManager::Systemd => match systemctl(&["daemon-reload"]).await {
                Ok(()) => systemctl(&["enable", &self.name()]).await,
                failed => failed,
            },
            ServiceManager::Launchd => Ok(()),
        };
        if done.is_err() && !was_installed {
            // Half of a service is none.
            let _ = fs::remove_file(&path);
        }
        done
    }

    /// Starts it, or starts it again as it is described now, and waits until it is ready.
    pub(crate) async fn restart(&self) -> Result<(), CommandFailure> {
        match self.manager {
            ServiceManager::Systemd => systemctl(&["restart", &self.name()]).await,
            ServiceManager::Launchd => {
                // It is not loaded before the first time.
                let _ = run("launchctl", &["bootout", &launchd::target(&self.name())]).await;
                self.load().await
            }
        }
    }

    /// Starts it, unless it runs.
    pub(crate) async fn start(&self) -> Result<(), CommandFailure> {
        match self.manager {
            ServiceManager::Systemd => systemctl(&["start", &self.name()]).await,
            ServiceManager::Launchd => {
                let target = launchd::target(&self.name());
                if run("launchctl", &["kickstart", &target]).await?.is_success {
                    return Ok(());
                }
                self.load().await
            }
        }
    }

    async fn load(&self) -> Result<(), CommandFailure> {
        let (domain, path) = (launchd::domain(), self.path().display().to_string());
        checked("launchctl", &["bootstrap", &domain, &path]).await
    }

    /// Stops it, and takes it from the service manager.
    pub(crate) async fn uninstall(&self) -> Result<(), CommandFailure> {
        let stopped = match self.manager {
            ServiceManager::Systemd => systemctl(&["disable", "--now", &self.name()]).await,
            ServiceManager::Launchd => {
                let target = launchd::target(&self.name());
                // One that is not loaded needs no unloading.
                run("launchctl", &["bootout", &target]).await.map(drop)
            }
        };
        stopped?;
        let path = self.path();
        fs::remove_file(&path)
            .map_err(|error| general(format!("cannot remove {}: {error}", path.display())))?;
        match self.manager {
            ServiceManager::Systemd => systemctl(&["daemon-reload"]).await,
            ServiceManager::Launchd => Ok(()),
        }
    }

    /// What the service manager says of it: in one word whether it is started at login, and whether it runs.
    pub(crate) async fn state(&self) -> Result<(String, String), CommandFailure> {
        match self.manager {
            ServiceManager::Systemd => {
                let word = async |verb| {
                    let answer = run("systemctl", &["--user", verb, &self.name()]).await?;
                    // It is an error that it does not run, and the word is there all the same.
                    Ok::<_, CommandFailure>(match answer.text.trim() {
                        "" => answer.complaint,
                        word => word.to_owned(),
                    })
                };
                Ok((word("is-enabled").await?, word("is-active").await?))
            }
            ServiceManager::Launchd => {
                let answer = run("launchctl", &["print", &launchd::target(&self.name())]).await?;
                Ok(("enabled".to_owned(), launchd::state(&answer.text).to_owned()))
            }
        }
    }

    /// Whether it goes on without a login.
    pub(crate) async fn lingering(&self) -> Lingering {
        if self.manager == ServiceManager::Launchd {
            return Lingering::Unknown;
        }
        let user = systemd::user();
        let answer = run("loginctl", &["show-user", &user, "--property=Linger", "--value"]).await;
        match answer {
            // A user who is not logged in and does not linger is not known.
            Ok(answer) if answer.is_success => systemd::lingering(&answer.text, &user),
            Ok(_) => Lingering::Off(systemd::linger_command(&user)),
            Err(_) => Lingering::Unknown,
        }
    }

    /// Has it go on without a login, if this user may.
    pub(crate) async fn enable_lingering(&self) -> Lingering {
        match self.lingering().await {
            Lingering::Off(command) => {
                let answer = run("loginctl", &["enable-linger", &systemd::user()]).await;
                match answer {
                    Ok(answer) if answer.is_success => Lingering::On,
                    _ => Lingering::Off(command),
                }
            }
            state => state,
        }
    }

    /// The home that the service is for.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }
}

/// A name of letters, digits and dashes for a home.
fn suffix(home: &Path) -> String {
    let mut name = String::new();
    for letter in home.to_string_lossy().chars() {
        if letter.is_ascii_alphanumeric() {
            name.push(letter);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    format!("-{}", name.trim_matches('-'))
}

/// The command line of the daemon, as text: service managers read no other.
fn words(program: &Path, arguments: &[OsString]) -> Result<Vec<String>, CommandFailure> {
    let all = [program.as_os_str(), OsStr::new("daemon")]
        .into_iter()
        .chain(arguments.iter().map(OsString::as_os_str));
    all.map(|word| match word.to_str() {
        Some(word) if !word.contains(['\n', '\r']) => Ok(word.to_owned()),
        _ => Err(general(format!(
            "{}: a service's command line takes no such name; use a home with a plain one",
            word.display()
        ))),
    })
    .collect()
}

/// In one step, so that the service manager reads the old file or the new one.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    kept_file::write(path, text, 0o644)
}

async fn systemctl(arguments: &[&str]) -> Result<(), CommandFailure> {
    checked("systemctl", &[&["--user"], arguments].concat()).await
}

async fn checked(program: &str, arguments: &[&str]) -> Result<(), CommandFailure> {
    let answer = run(program, arguments).await?;
    if answer.is_success {
        return Ok(());
    }
    let words = arguments.join(" ");
    Err(general(format!(
        "`{program} {words}` failed: {}; without a service manager of this user, `{}` runs the daemon",
        answer.complaint,
        hints::command("up")
    )))
}

async fn run(program: &str, arguments: &[&str]) -> Result<ToolOutput, CommandFailure> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await;
    let output = output.map_err(|error| {
        general(format!(
            "cannot run {program}: {error}; without a service manager, `{}` runs the daemon",
            hints::command("up")
        ))
    })?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    Ok(ToolOutput {
        is_success: output.status.success(),
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
        complaint: complaint.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

fn general(message: String) -> CommandFailure {
    CommandFailure::new(FailureCode::General, "Service", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_have_names_of_their_own() {
        assert_eq!(suffix(Path::new("/srv/agents/one")), "-srv-agents-one");
        assert_eq!(suffix(Path::new("/h/a b/%x\n")), "-h-a-b-x");
        let service = UserService::from_home(Path::new("/srv/one"), false).unwrap();
        assert!(service.name().contains("-srv-one"), "{}", service.name());
    }

    #[test]
    fn a_name_that_breaks_lines_is_refused() {
        let arguments = [OsString::from("--key=/a\nExecStartPre=/bin/true")];
        assert!(words(Path::new("/usr/bin/anycast"), &arguments).is_err());
        let words = words(Path::new("/usr/bin/anycast"), &["--key=/a b".into()]).unwrap();
        assert_eq!(words, ["/usr/bin/anycast", "daemon", "--key=/a b"]);
    }
}
