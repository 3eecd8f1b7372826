//! Programs on the published SDKs beside our commands: who starts the daemon, who ends it, and what becomes of its socket.
//!
//! Both SDKs take the socket's file for a running daemon, start one where there is none, take its early end for a failure,
//! and at their end stop what they started and delete the file.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use agentanycast_tests::{TransportKind, cli, eventually, proc_stats::has_ended, within};
use rustix::{
    net::sockopt::socket_peercred,
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;

use crate::{client_env::ClientEnv, script::ScriptProcess};

#[derive(Clone, Copy, Debug)]
enum SdkLanguage {
    Python,
    TypeScript,
}

const LANGUAGES: [SdkLanguage; 2] = [SdkLanguage::Python, SdkLanguage::TypeScript];

/// A home of a daemon on a stage, with the commands of its user.
struct SdkHome(ClientEnv);

impl SdkHome {
    fn new() -> Self {
        Self(ClientEnv::new(TransportKind::Tcp))
    }

    fn home(&self) -> PathBuf {
        self.0.agent_home().into()
    }

    fn socket(&self) -> PathBuf {
        self.home().join("daemon.sock")
    }

    /// `anycast` with the home.
    async fn anycast(&self, args: &[&str]) -> (bool, String) {
        let mut command = self.0.command(cli::program());
        command.arg("--home").arg(self.home()).args(args);
        let output = within("the command ends", command.output()).await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    }

    async fn up(&self) -> Pid {
        let (is_success, said) = self.anycast(&["--json", "up"]).await;
        assert!(is_success, "{said}");
        // In builds of CI it warns on standard error.
        let up = said.lines().next().unwrap_or_default();
        let up: Value = serde_json::from_str(up).unwrap();
        Pid::from_raw(up["pid"].as_i64().unwrap() as i32).unwrap()
    }

    /// The process that serves the socket.
    fn serving(&self) -> Option<Pid> {
        let stream = UnixStream::connect(self.socket()).ok()?;
        Some(socket_peercred(stream).unwrap().pid)
    }

    /// An agent on the SDK that has the home, without a path of the daemon's program. Where it is on `PATH` Python finds it.
    fn agent(&self, language: SdkLanguage, is_on_path: bool) -> ScriptProcess {
        let mut command = match language {
            SdkLanguage::Python => self.0.python("agent.py"),
            SdkLanguage::TypeScript => self.0.node("agent.mjs"),
        };
        if !is_on_path {
            command.env("PATH", std::env::var_os("PATH").unwrap());
        }
        command.args(["home", &self.0.agent_home()]);
        ScriptProcess::start(command)
    }

    /// The link that a start of the daemon leaves.
    async fn with_link(self) -> Self {
        self.up().await;
        let (is_success, said) = self.anycast(&["down"]).await;
        assert!(is_success && !self.socket().exists(), "{said}");
        self
    }
}

impl Drop for SdkHome {
    fn drop(&mut self) {
        if let Some(pid) = self.serving() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

async fn peer_of(agent: &mut ScriptProcess) -> String {
    agent.json().await["peer_id"].as_str().unwrap().to_owned()
}

fn parent(pid: Pid) -> Pid {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    Pid::from_raw(rest.split_whitespace().nth(1).unwrap().parse().unwrap()).unwrap()
}

/// After `anycast up` programs come and go, and the daemon and its socket stay.
#[tokio::test]
async fn a_daemon_that_was_there_before_stays() {
    for language in LANGUAGES {
        let scene = SdkHome::new();
        let pid = scene.up().await;
        for _ in 0..2 {
            let mut agent = scene.agent(language, true);
            peer_of(&mut agent).await;
            assert!(agent.end().await.success(), "{language:?}");
            assert_eq!(scene.serving(), Some(pid), "{language:?}");
        }
        // One that deletes the file all the same changes nothing for long.
        fs::remove_file(scene.socket()).unwrap();
        eventually("the socket's file is there again", || async { scene.serving() }).await;
        assert_eq!(scene.up().await, pid);
    }
}

/// Two programs start at once without a daemon: both are served by one of the two daemons, and the end of one program, which
/// deletes the socket's file, does not disturb the other.
#[tokio::test]
async fn two_programs_that_start_at_once_have_one_daemon() {
    for pair in [
        [SdkLanguage::Python, SdkLanguage::Python],
        [SdkLanguage::TypeScript, SdkLanguage::TypeScript],
        [SdkLanguage::Python, SdkLanguage::TypeScript],
    ] {
        let scene = SdkHome::new().with_link().await;
        let mut agents = pair.map(|language| scene.agent(language, true));
        let mut peers = Vec::new();
        for agent in &mut agents {
            peers.push(peer_of(agent).await);
        }
        assert_eq!(peers[0], peers[1], "{pair:?}");
        let pid = scene.serving().expect("a daemon serves both");
        let owner = parent(pid);
        let [first, second] = agents;
        let (owning, other) = if first.pid() == owner {
            (first, second)
        } else {
            (second, first)
        };
        assert_eq!(owning.pid(), owner, "{pair:?}: one of them has started it");
        // Its own daemon was the other's guest.
        other.end().await;
        let (is_success, said) = self::status(&scene).await;
        assert!(is_success && said.contains(&peers[0]), "{pair:?}: {said}");
        assert_eq!(scene.serving(), Some(pid), "{pair:?}");
        // A daemon that an SDK started ends with it.
        owning.end().await;
        eventually("the daemon ends with its program", || async {
            has_ended(pid).then_some(())
        })
        .await;
    }
}

/// The status, once the socket's file is there again.
async fn status(scene: &SdkHome) -> (bool, String) {
    eventually("the socket is there", || async { scene.serving() }).await;
    scene.anycast(&["status"]).await
}

/// Neither `PATH` nor an option nor a download: both SDKs find the link in the home.
#[tokio::test]
async fn the_link_in_the_home_is_the_program_for_both() {
    for language in LANGUAGES {
        let scene = SdkHome::new().with_link().await;
        let mut agent = scene.agent(language, false);
        let peer = peer_of(&mut agent).await;
        let pid = scene.serving().expect("a daemon");
        let executable = fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).unwrap();
        assert_eq!(executable, cli::program(), "{language:?}");
        assert_eq!(parent(pid), agent.pid());
        let (is_success, said) = scene.anycast(&["id"]).await;
        assert!(is_success && said.contains(&peer), "{said}");
        agent.end().await;
        eventually("the daemon ends with its program", || async {
            has_ended(pid).then_some(())
        })
        .await;
    }
}

/// A program that is not ours stays where it is.
#[tokio::test]
async fn a_foreign_program_in_the_home_stays() {
    let scene = SdkHome::new();
    let path = scene.home().join("bin/agentanycastd");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "#!/bin/sh\nexit 9\n").unwrap();
    scene.up().await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "#!/bin/sh\nexit 9\n");
    assert!(!Path::new(&path).is_symlink());
    let (_, log) = scene.anycast(&["logs"]).await;
    assert!(log.contains("is not this daemon"), "{log}");
}

/// A crash leaves the socket's file, which both SDKs take for a daemon. The next command starts the daemon again.
#[tokio::test]
async fn after_a_crash_a_command_makes_the_home_usable_again() {
    for language in LANGUAGES {
        let scene = SdkHome::new();
        let pid = scene.up().await;
        kill_process(pid, Signal::KILL).unwrap();
        eventually("it ends", || async { has_ended(pid).then_some(()) }).await;
        assert!(scene.socket().exists(), "the stale socket is there");
        let (is_success, said) = scene.anycast(&["tasks"]).await;
        assert!(is_success && said.contains("started the daemon (pid "), "{said}");
        let again = scene.serving();
        let mut agent = scene.agent(language, true);
        peer_of(&mut agent).await;
        assert!(agent.end().await.success(), "{language:?}");
        assert_eq!(scene.serving(), again, "{language:?}: the daemon stays");
    }
}
