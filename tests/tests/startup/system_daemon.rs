//! The daemon that the package's service runs for the host: its own user's commands use it, others are told whose it is.
//! `/run` is one of the test's own, in a mount namespace.

use agentanycast_tests::{User, cli, daemon, report_skip, within};
use tokio::process::Command;

/// Has `/run/agentanycast` as the service makes it, starts a daemon there, and says that it takes calls; then runs each line
/// of standard input as a command.
const SCRIPT: &str = r#"
mount -t tmpfs none /run && mkdir -m 0750 /run/agentanycast || exit 9
"$DAEMON" --key=/run/agentanycast/key --store-path=/run/agentanycast/data --listen=/ip4/127.0.0.1/tcp/0 \
    --grpc-listen=unix:///run/agentanycast/daemon.sock >/run/said 2>/run/log &
daemon=$!
trap 'kill $daemon; wait' EXIT
for attempt in $(seq 300); do grep -qs PEER_ID /run/said && break; sleep 0.1; done
sed -n 's/^PEER_ID=//p' /run/said
for words in "$@"; do
    echo "== $words"
    eval "$words" 2>&1
    echo "code $?"
done
"#;

/// What a user who owns nothing runs.
const AS_NOBODY: &str =
    "setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=\"$NOBODY\" \"$PROGRAM\"";

#[tokio::test]
async fn its_own_user_uses_it_and_others_are_told_whose_it_is() {
    if !rustix::process::geteuid().is_root() {
        report_skip("only root can make a mount namespace and become another user");
        return;
    }
    let (owner, nobody) = (User::new(), tempfile::tempdir().unwrap());
    // The program has to be where the other user can read it.
    let program = nobody.path().join("anycast");
    std::fs::copy(cli::program(), &program).unwrap();
    for path in [nobody.path(), &program] {
        std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
    }
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", SCRIPT, "sh"])
        .args([
            "\"$PROGRAM\" id",
            "\"$PROGRAM\" tasks",
            "\"$PROGRAM\" status --no-start",
        ])
        .args([format!("{AS_NOBODY} tasks"), format!("{AS_NOBODY} status")])
        .args([
            format!("{AS_NOBODY} up"),
            format!("{AS_NOBODY} tasks"),
            format!("{AS_NOBODY} down"),
        ])
        .args([format!("{AS_NOBODY} tasks"), format!("{AS_NOBODY} down")])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", owner.directory())
        .env("AGENTANYCAST_ENABLE_MDNS", "false")
        .env("DAEMON", daemon::program())
        .env("PROGRAM", &program)
        .env("NOBODY", nobody.path())
        .kill_on_drop(true);
    let output = within("the commands end", command.output()).await.unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(9) {
        report_skip("no file system can be mounted here");
        return;
    }
    let mut parts = text.split("== ");
    let peer = parts.next().unwrap().trim();
    assert!(peer.starts_with("12D3KooW"), "{text}");
    let parts: Vec<&str> = parts.collect();
    assert_eq!(parts.len(), 10, "{text}");
    for own in &parts[..3] {
        assert!(
            own.ends_with("code 0\n") && !own.contains("started the daemon"),
            "{own}"
        );
    }
    assert!(parts[0].contains(peer) && parts[2].contains(peer), "{text}");
    for foreign in &parts[3..5] {
        assert!(foreign.ends_with("code 3\n"), "{foreign}");
        for words in ["the user with the number 0", "sudo -u '#0'"] {
            assert!(foreign.contains(words), "{words}: {foreign}");
        }
    }
    assert!(parts[3].contains("`anycast up`"), "{}", parts[3]);
    // With a node of their own they go on with it, also when it has to be started.
    assert!(
        parts[5].ends_with("code 0\n") && !parts[5].contains(peer),
        "{}",
        parts[5]
    );
    assert!(
        parts[6].ends_with("code 0\n") && !parts[6].contains("started"),
        "{}",
        parts[6]
    );
    assert!(
        parts[8].ends_with("code 0\n") && parts[8].contains("started the daemon"),
        "{}",
        parts[8]
    );
    assert!(
        parts[7].ends_with("code 0\n") && parts[9].ends_with("code 0\n"),
        "{text}"
    );
    assert!(
        !owner.home().join("key").exists(),
        "the owner's commands started a daemon"
    );
}
