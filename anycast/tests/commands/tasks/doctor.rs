//! What `anycast doctor` finds, with a daemon that is well, one that is not, and none.

use std::{
    fs,
    net::UdpSocket,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use super::{RunningCommand, command, run};

/// What it finds, and its exit code.
fn examined(home: &Path) -> (Value, Option<i32>) {
    let output = command(home).args(["--json", "doctor"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().unwrap_or_default();
    let document = serde_json::from_str(first).unwrap_or_else(|error| panic!("{error}: {text}"));
    (document, output.status.code())
}

/// Checks that this problem is found, with something to do about it.
fn finds(home: &Path, check: &str, parts: &[&str]) {
    let (document, code) = examined(home);
    assert_eq!(
        (code, &document["is_well"]),
        (Some(1), &false.into()),
        "{document:#}"
    );
    let checks = document["checks"].as_array().unwrap();
    let found = checks.iter().any(|finding| {
        let says = finding["says"].as_str().unwrap();
        finding["check"] == check
            && finding["state"] == "problem"
            && parts.iter().all(|part| says.contains(part))
            && finding["advice"]
                .as_str()
                .is_some_and(|advice| !advice.is_empty())
    });
    assert!(found, "{check} {parts:?} is missing in {document:#}");
}

/// A home with these settings.
fn home_with(settings: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("home")).unwrap();
    fs::write(root.path().join("home/config.toml"), settings).unwrap();
    root
}

#[test]
fn a_healthy_daemon_is_well() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path();
    let _daemon = RunningCommand::daemon(home);
    let (text, code) = run(home, &["doctor"]);
    assert!(
        code == Some(0) && text.trim_end().ends_with("all is well"),
        "{code:?}: {text}"
    );
    let (document, code) = examined(home);
    assert_eq!(
        (code, &document["is_well"]),
        (Some(0), &true.into()),
        "{document:#}"
    );
}

#[test]
fn a_foreign_program_in_the_home_is_named() {
    let root = home_with("");
    let home = root.path();
    fs::create_dir(home.join("home/bin")).unwrap();
    fs::write(home.join("home/bin/agentanycastd"), "#!/bin/sh\n").unwrap();
    let _daemon = RunningCommand::daemon(home);
    finds(home, "SDKs", &["bin/agentanycastd", "another origin"]);
}

#[test]
fn names_and_datagrams_that_lead_nowhere_are_named() {
    // Nobody answers there, as behind a firewall that drops datagrams.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let root = home_with(&format!(
        "bootstrap_peers = [\"/ip4/127.0.0.1/udp/{port}/quic-v1\", \"/dns4/no-such-host.invalid/tcp/4001\"]\n"
    ));
    let home = root.path();
    let _daemon = RunningCommand::daemon(home);
    finds(home, "UDP", &["blocked", &port.to_string()]);
    finds(home, "names", &["no-such-host.invalid"]);
    finds(home, "relays", &["is away"]);
}

#[test]
fn without_a_daemon_the_cause_is_looked_for() {
    let root = home_with("");
    let home = root.path();
    finds(home, "daemon", &["no daemon is running"]);
    fs::write(home.join("home/config.toml"), "log_level = \"loud\"\n").unwrap();
    finds(home, "settings", &["log_level", "loud"]);
    fs::write(home.join("home/config.toml"), "log_level = \n").unwrap();
    finds(home, "settings", &["config.toml"]);
    fs::write(home.join("home/config.toml"), "").unwrap();
    // As after a kill.
    drop(std::os::unix::net::UnixListener::bind(home.join("home/daemon.sock")).unwrap());
    finds(home, "daemon", &["stale socket"]);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(home.join("home/daemon.sock"), Some(65534), None).unwrap();
        finds(home, "daemon", &["another user", "65534"]);
    }
    fs::remove_file(home.join("home/daemon.sock")).unwrap();
    fs::write(home.join("home/daemon.sock"), "").unwrap();
    finds(home, "daemon", &["no socket"]);
}

#[test]
fn a_key_that_another_daemon_uses_is_named() {
    let (one, other) = (tempfile::tempdir().unwrap(), home_with(""));
    let _daemon = RunningCommand::daemon(one.path());
    let shared = one.path().join("home/key");
    std::os::unix::fs::symlink(&shared, other.path().join("home/key")).unwrap();
    finds(other.path(), "key", &["another daemon uses the key file"]);
}

/// On a disk of its own, in a namespace of mounts that ends with the command.
#[test]
fn a_store_that_cannot_be_written_is_named() {
    let root = home_with("");
    let home = root.path();
    fs::create_dir(home.join("home/data")).unwrap();
    let doctor = |options: &str, before: &str| {
        let data = home.join("home/data");
        let script = format!(
            "mount -t tmpfs -o size=4m tmpfs '{data}' && {before} && {options} exec '{}' --home '{}' --json doctor",
            env!("CARGO_BIN_EXE_anycast"),
            home.join("home").display(),
            data = data.display(),
        );
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .env("HOME", home)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let probe = doctor("true ||", "true");
    if !rustix::process::geteuid().is_root() || probe.contains("denied") {
        eprintln!("no disk of its own can be mounted here; the test is skipped");
        return;
    }
    let data = home.join("home/data").display().to_string();
    let said = doctor("", "true");
    assert!(
        said.contains("MiB are free") && said.contains("is full"),
        "{said}"
    );
    let said = doctor(
        "",
        &format!("head -c 5000000 /dev/zero > '{data}/ballast' 2>/dev/null; true"),
    );
    assert!(
        said.contains("is full") || said.contains("cannot be written"),
        "{said}"
    );
    let said = doctor("", &format!("mount -o remount,ro '{data}'"));
    assert!(
        said.contains("cannot be written") && said.contains("mount its file system"),
        "{said}"
    );
}

/// A daemon that has its socket already and ends for one of its gateways is told of with its reason.
#[cfg(feature = "bridge")]
#[test]
fn a_gateway_that_cannot_start_is_the_reason_why_up_fails() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    fs::create_dir_all(home.join("home")).unwrap();
    let settings = format!(
        "listen_addrs = [\"/ip4/127.0.0.1/tcp/0\"]\n[bridge]\nenabled = true\nlisten = \"{address}\"\n\
         [mcp]\nenabled = true\nlisten = \"{address}\"\n"
    );
    fs::write(home.join("home/config.toml"), settings).unwrap();
    for start in [&["up"][..], &["send", "self", "hello"]] {
        let (text, code) = run(home, start);
        assert!(
            code != Some(0) && text.contains(&address.to_string()) && text.contains("did not start"),
            "{start:?} {code:?}: {text}"
        );
    }
}

/// Metrics that are not shown are told by `status` and found by `doctor`; tasks go on.
#[test]
fn a_port_of_metrics_that_is_taken_is_told() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = home.join("config.toml");
    fs::write(
        &config,
        format!("[metrics]\nenabled = true\nlisten = \"{address}\"\n"),
    )
    .unwrap();
    let _daemon = RunningCommand::start(
        home,
        &[
            "daemon",
            "--listen=/ip4/127.0.0.1/tcp/0",
            "--config",
            config.to_str().unwrap(),
        ],
    );
    let (text, code) = run(home, &["status"]);
    let says = format!("metrics are not shown at {address}");
    assert!(
        code == Some(0) && text.contains("degraded") && text.contains(&says),
        "{code:?}: {text}"
    );
    finds(home, "daemon", &[&says]);
}
