//! `anycast service` with a service manager that is played by scripts.

use std::{fs, path::PathBuf};

use agentanycast_tests::{User, eventually, fake_systemctl, proc_stats::has_ended, report_skip};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

struct ServiceSetup {
    user: User,
    programs: TempDir,
}

impl ServiceSetup {
    fn new() -> Self {
        let programs = tempfile::tempdir().unwrap();
        fake_systemctl::install(programs.path());
        let path = format!("{}:/usr/bin:/bin", programs.path().display());
        Self {
            user: User::new().env("PATH", path),
            programs,
        }
    }

    fn mark(&self, name: &str) {
        fs::write(self.programs.path().join(name), "").unwrap();
    }

    fn calls(&self, program: &str) -> String {
        let path = self.programs.path().join(format!("{program}.calls"));
        fs::read_to_string(path).unwrap_or_default()
    }

    fn unit(&self) -> PathBuf {
        self.user
            .directory()
            .join(".config/systemd/user/agentanycast.service")
    }

    /// The process that the played service manager has started.
    fn pid(&self) -> Pid {
        let text = fs::read_to_string(self.programs.path().join("systemctl.pid")).unwrap();
        Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    }
}

#[tokio::test]
async fn the_service_takes_the_daemon_over_and_starts_it_again() {
    let scene = ServiceSetup::new();
    let user = &scene.user;
    assert_eq!(user.run(&["service", "status"]).await.status.code(), Some(4));
    assert_eq!(user.run(&["service", "uninstall"]).await.status.code(), Some(4));
    let (by_itself, peer) = user.up(&[]).await;

    let said = user.run(&["service", "install"]).await;
    assert!(said.status.success(), "{}", said.all_output);
    let advice = format!(
        "`sudo loginctl enable-linger {}`",
        rustix::process::geteuid().as_raw()
    );
    assert!(
        said.all_output.contains("agentanycast.service") && said.all_output.contains(&advice),
        "{}",
        said.all_output
    );
    assert!(has_ended(by_itself), "two daemons");
    let calls = scene.calls("systemctl");
    for call in [
        "daemon-reload",
        "enable agentanycast.service",
        "restart agentanycast.service",
    ] {
        assert!(
            calls.contains(&format!("systemctl --user {call}\n")),
            "{call}: {calls}"
        );
    }
    let unit = fs::read_to_string(scene.unit()).unwrap();
    for line in [
        "Type=notify",
        "Restart=on-failure",
        "RestartPreventExitStatus=2",
        "WantedBy=default.target",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}: {unit}");
    }
    eventually("the service's daemon answers", || async {
        user.is_served().then_some(())
    })
    .await;
    assert_eq!(user.up(&[]).await, (scene.pid(), peer.clone()));

    let status = user.ask(&["service", "status"]).await;
    assert_eq!(
        (&status["state"], &status["at_login"]),
        (&"active".into(), &"enabled".into()),
        "{status}"
    );
    assert_eq!(status["lingering"], false, "{status}");

    // After a crash a command has the service start it, and not a daemon by itself.
    let crashed = scene.pid();
    kill_process(crashed, Signal::KILL).unwrap();
    eventually("it ends", || async { has_ended(crashed).then_some(()) }).await;
    assert_eq!(user.run(&["service", "status"]).await.status.code(), Some(1));
    let said = user.run(&["tasks"]).await;
    assert!(
        said.status.success() && said.all_output.contains("started the daemon (pid "),
        "{}",
        said.all_output
    );
    assert!(
        scene
            .calls("systemctl")
            .contains("systemctl --user start agentanycast.service\n")
    );
    assert_ne!(scene.pid(), crashed);
    assert_eq!(user.up(&[]).await, (scene.pid(), peer));

    scene.mark("loginctl.may");
    let again = user.ask(&["service", "install"]).await;
    assert_eq!(
        (&again["lingering"], &again["linger_command"]),
        (&true.into(), &serde_json::Value::Null)
    );
    let said = user.run(&["service", "uninstall"]).await;
    assert!(said.status.success(), "{}", said.all_output);
    assert!(!scene.unit().exists() && !user.is_served());
    assert!(
        scene
            .calls("systemctl")
            .contains("systemctl --user disable --now agentanycast.service\n")
    );
}

#[tokio::test]
async fn without_a_service_manager_nothing_is_left_and_commands_start_the_daemon_themselves() {
    let scene = ServiceSetup::new();
    scene.mark("systemctl.broken");
    let said = scene.user.run(&["service", "install"]).await;
    assert_eq!(said.status.code(), Some(1), "{}", said.all_output);
    assert!(
        said.all_output.contains("No medium found") && said.all_output.contains("anycast up"),
        "{}",
        said.all_output
    );
    assert!(!scene.unit().exists());
    // One that was installed, on a host that is a container now.
    fs::create_dir_all(scene.unit().parent().unwrap()).unwrap();
    fs::write(scene.unit(), "").unwrap();
    let (_, peer) = scene.user.up(&[]).await;
    assert!(peer.starts_with("12D3KooW"), "{peer}");
    // The unit goes before the user's daemon is ended.
    fs::remove_file(scene.unit()).unwrap();
}

/// What systemd itself says of the unit.
#[tokio::test]
async fn systemd_understands_the_unit() {
    if std::process::Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        report_skip("there is no systemd-analyze here");
        return;
    }
    let scene = ServiceSetup::new();
    scene.user.ask(&["service", "install"]).await;
    let output = std::process::Command::new("systemd-analyze")
        .args(["verify", "--user", "--man=no"])
        .arg(scene.unit())
        .env("XDG_RUNTIME_DIR", scene.user.directory())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && !said.contains("agentanycast.service:"),
        "{said}"
    );
    scene.user.ask(&["service", "uninstall"]).await;
}
