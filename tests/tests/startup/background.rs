//! A daemon that commands start and that stays: `up`, `down`, `restart`, `logs`, `config`, and commands that find none.

use std::{os::unix::fs::PermissionsExt as _, process::Stdio};

use agentanycast_tests::{
    Daemon, User,
    cli::{self, CommandOutput},
    eventually,
    proc_stats::has_ended,
    report_skip, within,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// A peer that nobody has the key of.
const NOBODY: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

/// The process that a command says it has started.
fn started(said: &CommandOutput) -> Option<i32> {
    let (_, rest) = said.all_output.split_once("started the daemon (pid ")?;
    let (pid, _) = rest.split_once("); anycast down stops it")?;
    pid.parse().ok()
}

/// Ends a process as a crash does, and waits until it is gone.
async fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).unwrap();
    eventually("a killed daemon ends", || async { has_ended(pid).then_some(()) }).await;
}

fn refused(said: &CommandOutput, code: i32, parts: &[&str]) {
    assert_eq!(said.status.code(), Some(code), "{}", said.all_output);
    for part in parts {
        assert!(
            said.all_output.contains(part),
            "{part:?} is missing in: {}",
            said.all_output
        );
    }
}

#[tokio::test]
async fn ten_commands_at_once_start_one_daemon() {
    let user = User::new();
    let commands = (0..10).map(|_| user.run(&["tasks"]));
    let all = futures::future::join_all(commands).await;
    for said in &all {
        assert!(said.status.success(), "{}", said.all_output);
        assert!(said.all_output.contains("no tasks"), "{}", said.all_output);
    }
    let new: Vec<i32> = all.iter().filter_map(started).collect();
    assert_eq!(new.len(), 1, "{all:?}");
    let (pid, _) = user.up(&[]).await;
    assert_eq!(pid.as_raw_nonzero().get(), new[0]);
    // It has left the session of the commands.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", new[0])).unwrap();
    let session = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(3)
        .unwrap();
    assert_eq!(session, new[0].to_string());
}

#[tokio::test]
async fn after_a_crash_the_next_command_starts_it_again() {
    let user = User::new();
    let (pid, peer) = user.up(&[]).await;
    kill(pid).await;
    assert!(user.socket().exists(), "the stale socket is there");
    let all = futures::future::join_all((0..4).map(|_| user.run(&["peers"]))).await;
    let new: Vec<i32> = all.iter().filter_map(started).collect();
    assert!(all.iter().all(|said| said.status.success()), "{all:?}");
    assert_eq!(new.len(), 1, "{all:?}");
    let (again, same) = user.up(&[]).await;
    assert_eq!((again.as_raw_nonzero().get(), same), (new[0], peer));
    assert_ne!(again, pid);
}

#[tokio::test]
async fn down_ends_it_and_restart_changes_the_process() {
    let user = User::new();
    refused(
        &user.run(&["down"]).await,
        3,
        &["no daemon is running at unix://", "daemon.sock"],
    );
    let (pid, peer) = user.up(&[]).await;
    let up = user.ask(&["up"]).await;
    assert_eq!(up["started"], false, "{up}");
    let again = user.ask(&["restart"]).await;
    assert_eq!(
        (&again["started"], &again["peer_id"]),
        (&true.into(), &peer.into())
    );
    assert_ne!(again["pid"], up["pid"]);
    assert!(has_ended(pid), "the old one still runs");
    let said = user.run(&["down"]).await;
    assert_eq!(
        said.stdout,
        format!("stopped the daemon (pid {})\n", again["pid"])
    );
    assert!(!user.socket().exists() && !user.is_served());
    // A restart starts one too.
    assert_eq!(user.ask(&["restart"]).await["started"], true);
    // Settings that do not parse keep a daemon from starting, not from being stopped.
    std::fs::write(user.home().join("config.toml"), "log_level = 'loud'\n").unwrap();
    refused(&user.run(&["restart"]).await, 2, &["config.toml:1", "loud"]);
    assert!(user.is_served(), "a restart that cannot start stops nothing");
    assert!(user.run(&["down"]).await.status.success());
    assert!(!user.is_served());
}

#[tokio::test]
async fn who_wants_no_daemon_gets_none() {
    let user = User::new();
    let socket = user.socket().display().to_string();
    for args in [
        &["tasks", "--no-start"][..],
        &["--no-start", "send", "--skill", "echo", "hello"],
    ] {
        refused(&user.run(args).await, 3, &[&socket, "--no-start", "anycast up"]);
    }
    for args in [&["status"][..], &["down"]] {
        refused(&user.run(args).await, 3, &[&socket, "anycast up"]);
    }
    refused(&user.run(&["id"]).await, 3, &[&socket]);
    refused(&user.run(&["logs"]).await, 1, &["there is no log"]);
    assert!(user.run(&["config", "get", "log_level"]).await.status.success());
    let elsewhere = ["--daemon", "unix:///nowhere/daemon.sock", "tasks"];
    refused(
        &user.run(&elsewhere).await,
        3,
        &["unix:///nowhere/daemon.sock", "--daemon"],
    );
    for args in [
        &["up"][..],
        &["down"],
        &["restart"],
        &["logs"],
        &["config", "get", "log_level"],
    ] {
        let said = user.run(&[&["--daemon", "unix:///nowhere"], args].concat()).await;
        refused(&said, 2, &["--daemon"]);
    }
    let forbidden = User::new().env("ANYCAST_NO_START", "1");
    refused(&forbidden.run(&["peers"]).await, 3, &["ANYCAST_NO_START"]);
    for user in [&user, &forbidden] {
        assert!(!user.socket().exists() && !user.home().join("key").exists());
    }
    // What means no is no.
    let allowed = User::new().env("ANYCAST_NO_START", "0");
    assert!(allowed.run(&["peers"]).await.status.success());
    assert!(allowed.is_served());
}

#[tokio::test]
async fn a_daemon_that_cannot_start_says_why() {
    let user = User::new();
    std::fs::create_dir(user.home()).unwrap();
    let key = user.home().join("key");
    std::fs::write(&key, "short").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let words = format!("the daemon did not start: key {} has 5 bytes", key.display());
    for args in [&["up"][..], &["tasks"]] {
        refused(&user.run(args).await, 3, &[&words, "daemon.log"]);
    }
    std::fs::remove_file(&key).unwrap();
    std::fs::write(user.home().join("config.toml"), "log_level = 'loud'\n").unwrap();
    refused(&user.run(&["up"]).await, 2, &["config.toml:1", "loud"]);
    std::fs::write(user.home().join("config.toml"), "").unwrap();
    // What stands in the way of the log is told before anything is started.
    std::fs::remove_dir_all(user.home().join("logs")).unwrap();
    std::fs::write(user.home().join("logs"), "").unwrap();
    refused(
        &user.run(&["up"]).await,
        3,
        &["cannot write the daemon's log", "logs/daemon.log"],
    );
    assert!(!user.is_served());
}

#[tokio::test]
async fn relays_and_addresses_are_kept() {
    let relay = Daemon::builder().start().await;
    let user = User::new();
    refused(
        &user.run(&["up", "--relay", "/ip4/192.0.2.1/tcp/4001"]).await,
        2,
        &["--relay", "/p2p/PEER_ID"],
    );
    refused(
        &user.run(&["status", "--relay", relay.tcp()]).await,
        2,
        &["--relay goes with"],
    );
    let said = user.run(&["tasks", "--relay", relay.tcp()]).await;
    assert!(started(&said).is_some(), "{}", said.all_output);
    let connected = async || {
        eventually("the daemon connects to what was given", || async {
            let peers = user.ask(&["peers"]).await;
            peers.to_string().contains(relay.peer_id().as_str()).then_some(())
        })
        .await;
    };
    connected().await;
    // A daemon that runs has to be restarted; a relay that is known is no change.
    let known = user.run(&["tasks", "--relay", relay.tcp()]).await;
    assert!(!known.all_output.contains("restart"), "{}", known.all_output);
    let said = user
        .run(&["up", "--listen", "/ip4/127.0.0.1/tcp/0", "--relay", relay.quic()])
        .await;
    assert!(
        said.status.success() && said.all_output.contains("`anycast restart`"),
        "{}",
        said.all_output
    );
    let file = std::fs::read_to_string(user.home().join("config.toml")).unwrap();
    for part in [
        relay.tcp(),
        relay.quic(),
        "listen_addrs = [\"/ip4/127.0.0.1/tcp/0\"]",
    ] {
        assert!(file.contains(part), "{part} is missing in {file}");
    }
    user.ask(&["restart"]).await;
    connected().await;
}

/// Ten commands that each keep a relay in the settings of one home lose none.
#[tokio::test]
async fn settings_that_are_changed_at_once_all_stay() {
    let user = User::new();
    let relay = |port: u16| {
        format!("/ip4/192.0.2.1/tcp/{port}/p2p/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK")
    };
    let relays: Vec<String> = (4001..4011).map(relay).collect();
    let commands = relays
        .iter()
        .map(|relay| async { user.run(&["tasks", "--relay", relay]).await });
    for said in futures::future::join_all(commands).await {
        assert!(said.status.success(), "{}", said.all_output);
    }
    let kept = user.run(&["config", "get", "bootstrap_peers"]).await.stdout;
    assert!(relays.iter().all(|relay| kept.contains(relay)), "{kept}");
}

#[tokio::test]
async fn settings_are_changed_checked_and_reloaded() {
    let user = User::new();
    let set = async |args: &[&str]| user.ask(&[&["config"], args].concat()).await;
    assert_eq!(set(&["set", "log_level", "debug"]).await["effect"], "start");
    let (pid, _) = user.up(&[]).await;
    assert_eq!(set(&["set", "log_level", "warn"]).await["effect"], "restart");
    assert_eq!(set(&["set", "log_level", "warn"]).await["effect"], "none");
    assert_eq!(set(&["set", "policy.trust", "pinned"]).await["effect"], "now");
    eventually("the daemon has taken the rules over", || async {
        let log = user.run(&["logs", "-n", "1000"]).await.stdout;
        log.contains("no other node may send tasks here").then_some(())
    })
    .await;
    let shown = set(&["get", "policy.trust"]).await;
    assert_eq!(shown["value"], "pinned");
    assert!(
        shown["source"].as_str().unwrap().contains("config.toml:"),
        "{shown}"
    );
    for (args, part) in [
        (&["set", "policy.trust", "nobody"][..], "one of open known pinned"),
        (&["set", "polcy.trust", "open"], "did you mean policy.trust?"),
        (&["unset", "colour"], "colour"),
        (&["set", "grpc_listen", "tcp://0.0.0.0:1"], "nothing was changed"),
    ] {
        refused(&user.run(&[&["config"], args].concat()).await, 2, &[part]);
    }
    // SIGHUP says that it is meant: without, a file that trusts everybody is not believed.
    assert_eq!(set(&["unset", "policy.trust"]).await["effect"], "now");
    assert_eq!(user.up(&[]).await.0, pid, "it was not restarted");
}

#[tokio::test]
async fn logs_shows_what_the_daemon_says() {
    let user = User::new();
    user.up(&[]).await;
    let whole = user.run(&["logs", "-n", "1000"]).await.stdout;
    assert!(whole.lines().all(|line| line.starts_with('{')), "{whole}");
    let last = user.run(&["logs", "-n", "1"]).await.stdout;
    assert!(last.lines().count() == 1 && whole.contains(&last), "{last}");
    let mut follow = user
        .command(&["logs", "--follow", "-n", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    // What it has not shown by now comes after its start.
    user.ask(&["restart"]).await;
    within("the new daemon's lines are followed", async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("\"listening\"") {
                break;
            }
        }
    })
    .await;
    let pid = Pid::from_raw(follow.id().unwrap() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let status = within("Ctrl-C ends it", follow.wait()).await.unwrap();
    assert_eq!(status.code(), Some(130), "{status}");
}

#[tokio::test]
async fn the_command_for_mcp_starts_the_daemon() {
    let user = User::new();
    let mut mcp = user
        .command(&["mcp"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the daemon runs", || async { user.is_served().then_some(()) }).await;
    drop(mcp.stdin.take());
    let output = within("it ends with its input", mcp.wait_with_output())
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("started the daemon (pid "), "{said}");
    assert!(user.is_served(), "the daemon stays");
}

/// A client starts its server once, and for long.
#[tokio::test]
async fn the_command_for_mcp_starts_the_daemon_again_after_a_crash_and_not_after_a_stop() {
    let user = User::new();
    let mut mcp = user
        .command(&["mcp"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the daemon runs", || async { user.is_served().then_some(()) }).await;
    let (pid, peer) = user.up(&[]).await;
    kill(pid).await;
    eventually("the daemon runs again", || async {
        user.is_served().then_some(())
    })
    .await;
    let (again, same) = user.up(&[]).await;
    assert_ne!(pid, again);
    assert_eq!(peer, same);
    assert!(user.run(&["down"]).await.status.success());
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert!(!user.is_served(), "it was stopped");
    drop(mcp.stdin.take());
    within("it ends with its input", mcp.wait()).await.unwrap();
}

/// The daemon's link in the home is to this program, and is the daemon when it is called so.
#[tokio::test]
async fn a_link_to_the_command_is_the_daemon() {
    let user = User::new();
    user.up(&[]).await;
    let link = user.home().join("bin/agentanycastd");
    let output = std::process::Command::new(link)
        .arg("--version")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("agentanycastd "), "{said}");
}

/// In a terminal the log is text, with what to do next.
#[tokio::test]
async fn a_daemon_in_a_terminal_speaks_to_people() {
    if std::process::Command::new("script")
        .arg("--version")
        .output()
        .is_err()
    {
        report_skip("there is no `script` here, which makes a terminal");
        return;
    }
    let user = User::new();
    let words = format!("{} daemon", agentanycast_tests::cli::program().display());
    let mut script = tokio::process::Command::new("script");
    script
        .args(["--quiet", "--return", "--command", &words, "/dev/null"])
        .env_clear();
    script
        .env("HOME", user.directory())
        .env("AGENTANYCAST_ENABLE_MDNS", "false");
    script.env("PATH", std::env::var_os("PATH").unwrap());
    let mut script = script
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(script.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    let mut next = async |part: &str| {
        within(part, async {
            loop {
                let line = lines.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("no {part:?} after {seen:#?}"));
                let found = line.contains(part);
                seen.push(line);
                if found {
                    break;
                }
            }
        })
        .await;
    };
    next("Ready. In another terminal").await;
    let said = user.run(&["down"]).await;
    assert!(said.status.success(), "{}", said.all_output);
    next("Stopped. Tasks that were accepted").await;
    assert!(!seen.iter().any(|line| line.starts_with('{')), "{seen:#?}");
}

/// The commands' shell has a lock and a pipe open: the daemon that outlives the commands has not.
#[tokio::test]
async fn the_daemon_keeps_nothing_open_of_who_started_it() {
    let user = User::new();
    let program = cli::program();
    let lock = user.directory().join("lock");
    let script = format!(
        "exec 9>{lock} && flock 9 && '{program}' up",
        lock = lock.display(),
        program = program.display()
    );
    let mut shell = tokio::process::Command::new("sh");
    shell
        .args(["-c", &script])
        .env("HOME", user.directory())
        .env("AGENTANYCAST_ENABLE_MDNS", "false");
    let output = within("the shell ends", shell.output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(user.is_served());
    let free = std::process::Command::new("flock")
        .args(["-n".as_ref(), lock.as_os_str(), "true".as_ref()])
        .status();
    assert!(free.unwrap().success(), "the daemon has the lock of the shell");
}

/// The home is deleted under its daemon: it ends, and the next one has the place for itself.
#[tokio::test]
async fn a_daemon_ends_without_its_key() {
    let user = User::new();
    let (old, peer) = user.up(&[]).await;
    std::fs::remove_dir_all(user.home()).unwrap();
    let (new, other) = user.up(&[]).await;
    assert_ne!(peer, other);
    eventually("the daemon of the deleted home ends", || async {
        has_ended(old).then_some(())
    })
    .await;
    let again = user.ask(&["up"]).await;
    assert_eq!(
        (again["started"].as_bool(), again["pid"].as_i64()),
        (Some(false), Some(new.as_raw_nonzero().get().into()))
    );
}

/// The log cannot say why: standard error does.
#[tokio::test]
async fn a_daemon_that_does_not_start_says_why_where_its_log_has_no_room() {
    let user = User::new();
    std::fs::create_dir_all(user.home()).unwrap();
    std::fs::write(user.home().join("config.toml"), "log_file = '/dev/full'\n").unwrap();
    std::fs::write(user.home().join("key"), "short").unwrap();
    refused(
        &user.run(&["up"]).await,
        3,
        &["the daemon did not start: ", "key"],
    );
}

#[tokio::test]
async fn down_says_what_has_not_ended() {
    let user = User::new();
    user.up(&[]).await;
    let sent = user.run(&["send", NOBODY, "hello", "--no-wait"]).await;
    assert!(sent.status.success(), "{}", sent.all_output);
    let down = user.run(&["down"]).await;
    assert!(
        down.all_output.contains("1 task has not ended") && down.all_output.contains("started again"),
        "{}",
        down.all_output
    );
}

/// A command that is given up while it starts the daemon leaves none behind.
#[tokio::test]
async fn an_interrupted_start_leaves_no_daemon() {
    let user = User::new();
    let mut up = user.command(&["up"]).spawn().unwrap();
    eventually("the start has begun", || async {
        user.home().join("start.lock").exists().then_some(())
    })
    .await;
    let pid = Pid::from_raw(up.id().unwrap() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let status = within("the command ends", up.wait()).await.unwrap();
    if status.code() == Some(130) {
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        assert!(!user.is_served(), "a daemon of which nothing was said");
    } else {
        // It was done before the signal came.
        assert!(status.success() && user.is_served(), "{status:?}");
    }
}
