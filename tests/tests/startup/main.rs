//! Starting and stopping: what the command line takes, what the daemon refuses to start with, what it
//! leaves behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod background;
mod first_hour;
mod sd_notify;
mod second_daemon;
mod service_command;
mod system_daemon;

use std::{
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    process::{Output, Stdio},
};

use agentanycast_proto::v1::{
    self, diagnostics_service_client::DiagnosticsServiceClient, node_service_client::NodeServiceClient,
};
use agentanycast_tests::{
    Daemon, DaemonBuilder, DaemonPair, TransportKind, daemon::Home, daemon_pair::wait_connected, eventually,
    report_skip, rpc, within,
};

/// A user that owns nothing.
const NOBODY: u32 = 65_534;

/// The code, and what standard error says.
fn said(output: &Output) -> (Option<i32>, String) {
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Refused as a mistake of the user: code 2, one line, and the value is named.
fn refused(case: &str, output: &Output, named: &str) {
    let (code, text) = said(output);
    assert_eq!(code, Some(2), "{case}: {text}");
    assert_eq!(text.lines().count(), 1, "{case}: {text}");
    assert!(text.contains(named), "{case}: {text}");
    assert!(output.stdout.is_empty(), "{case} announced something");
}

#[tokio::test]
async fn mistakes_on_the_command_line_are_one_line_each() {
    let cases = [
        ("unknown flag", "--no-such-flag=1", "--no-such-flag"),
        ("bad level", "--log-level=loud", "loud"),
        ("bad address", "--bootstrap-peers=localhost", "localhost"),
        ("bad transport", "--transport=pigeon", "pigeon"),
        ("a word", "start", "start"),
        ("open quote", "--mcp-proxy=uvx 'server", "mcp.proxy"),
        ("open MCP", "--mcp-listen=0.0.0.0:0", "--bridge-allow-remote"),
        (
            "open bridge",
            "--bridge-listen=0.0.0.0:0",
            "--bridge-allow-remote",
        ),
        ("not built: NATS", "--nats-broker=nats://127.0.0.1:1", "nats"),
        ("not available", "--enable-webtransport", "webtransport"),
    ];
    for (case, argument, named) in cases {
        refused(
            case,
            &Daemon::builder().args([argument]).run_to_end().await,
            named,
        );
    }
    let home = Home::new();
    let open = DaemonBuilder::new(home).grpc("tcp://0.0.0.0:0");
    refused("open to others", &open.run_to_end().await, "--grpc-allow-remote");
}

#[tokio::test]
async fn mistakes_in_the_file_and_the_environment_are_named() {
    let file = |toml: &str| Daemon::builder().config(toml);
    refused("unknown key", &file("colour = 1\n").run_to_end().await, "colour");
    refused(
        "unknown table",
        &file("[mertics]\nenabled = true\n").run_to_end().await,
        "[metrics]",
    );
    refused(
        "bad type",
        &file("\nlog_level = 3\n").run_to_end().await,
        "config.toml:2",
    );
    let env = Daemon::builder().env("AGENTANYCAST_ENABLE_MDNS", "perhaps");
    refused(
        "bad variable",
        &env.run_to_end().await,
        "AGENTANYCAST_ENABLE_MDNS",
    );
    let no_variable = Daemon::builder().env("AGENTANYCAST_POLICY_TRUST", "pinned");
    refused(
        "a setting that has no variable",
        &no_variable.run_to_end().await,
        "policy.trust has no variable; set it in the file",
    );
    let elsewhere = Daemon::builder().env("AGENTANYCAST_CONFIG", "/nowhere/variable.toml");
    refused(
        "no such file, by its variable",
        &elsewhere.run_to_end().await,
        "/nowhere/variable.toml",
    );
    let missing = Daemon::builder()
        .env("AGENTANYCAST_CONFIG", "/nowhere/variable.toml")
        .args(["--config=/nowhere/config.toml"]);
    refused(
        "no such file",
        &missing.run_to_end().await,
        "/nowhere/config.toml",
    );
}

/// The daemon cannot know whose they are; whoever meant a setting learns that it is none.
#[tokio::test]
async fn a_variable_that_is_no_setting_is_warned_of() {
    let daemon = Daemon::builder()
        .env("AGENTANYCAST_TRUST", "pinned")
        .env("AGENTANYCAST_QQQ", "1")
        .env("AGENTANYCAST_HOME", "/nowhere")
        .env("AGENTANYCAST_RELAY_KEY", "/nowhere")
        .start()
        .await;
    let log = daemon.log_tail();
    let warnings: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("this variable is no setting"))
        .collect();
    assert_eq!(warnings.len(), 2, "{log}");
    assert!(
        warnings[0].contains("AGENTANYCAST_QQQ") && warnings[0].contains("configuration file"),
        "{log}"
    );
    assert!(
        warnings[1].contains("AGENTANYCAST_TRUST")
            && warnings[1].contains("policy.trust in the configuration file"),
        "{log}"
    );
}

#[tokio::test]
async fn the_configuration_is_shown_with_its_sources() {
    let spec = Daemon::builder().config("offline_queue_ttl = \"2h\"\n").args([
        "-log-level",
        "debug",
        "--print-config",
    ]);
    let output = spec.run_to_end().await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", said(&output).1);
    let line = |key: &str| {
        let found = text.lines().find(|line| line.starts_with(key));
        found.unwrap_or_else(|| panic!("{key} is missing in:\n{text}"))
    };
    assert!(line("log_level").contains("debug") && line("log_level").contains("--log-level"));
    assert!(line("offline_queue_ttl").contains("2h") && line("offline_queue_ttl").contains("config.toml:1"));
    assert!(
        line("enable_mdns").contains("false") && line("enable_mdns").contains("AGENTANYCAST_ENABLE_MDNS")
    );
    assert!(line("log_format").contains("default"));
    // Shown, and refused: so a file can be checked before a restart.
    let wrong = Daemon::builder()
        .config("retry_delays = ['0']\n")
        .args(["--print-config"]);
    let output = wrong.run_to_end().await;
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("retry_delays"),
        "shown"
    );
    let (code, text) = said(&output);
    assert!(
        code == Some(2) && text.contains("retry_delays"),
        "{code:?}: {text}"
    );
    let version = Daemon::builder().args(["--version"]).run_to_end().await;
    assert!(
        version.status.success() && String::from_utf8_lossy(&version.stdout).starts_with("agentanycastd ")
    );
}

/// The key file is used, or it is an error; it is never replaced. Once it is mended, it is used as it was.
#[tokio::test]
async fn a_wrong_key_file_is_left_alone() {
    let short = Home::new();
    std::fs::write(short.path().join("key"), b"short").unwrap();
    let set_mode = |home: &Home, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(home.path().join("key"), mode).unwrap();
    };
    let (open, id) = {
        let mut daemon = Daemon::builder().start().await;
        daemon.stop().await;
        set_mode(daemon.home(), 0o644);
        (daemon.home().clone(), daemon.peer_id().clone())
    };
    for home in [short, open.clone()] {
        let key = home.path().join("key");
        let before = std::fs::read(&key).unwrap();
        let output = DaemonBuilder::new(home.clone()).run_to_end().await;
        let (code, text) = said(&output);
        assert!(code != Some(0), "{text}");
        assert!(
            text.contains(&*key.to_string_lossy()),
            "the file is not named: {text}"
        );
        assert_eq!(std::fs::read(&key).unwrap(), before);
    }
    set_mode(&open, 0o600);
    assert_eq!(DaemonBuilder::new(open).start().await.peer_id(), &id);
}

#[tokio::test]
async fn files_are_for_the_owner_alone() {
    let daemon = Daemon::builder().start().await;
    let mode = |name: &str| {
        let path = daemon.home().path().join(name);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("key"), mode("daemon.sock"), mode("data")),
        (0o600, 0o600, 0o700)
    );
    assert_eq!(std::fs::read(daemon.home().path().join("key")).unwrap().len(), 68);
}

/// Programs on the published SDKs delete the file at their end, whether or not they started the daemon.
#[tokio::test]
async fn a_deleted_socket_file_is_made_again() {
    let daemon = Daemon::builder().start().await;
    let socket = daemon.home().socket();
    std::fs::remove_file(&socket).unwrap();
    eventually("new programs reach the daemon again", || async {
        std::os::unix::net::UnixStream::connect(&socket).ok()
    })
    .await;
    daemon.node().await.info().await.unwrap();
    let log = daemon.log_tail();
    assert!(log.contains("was deleted and is made again"), "{log}");
}

/// Both published SDKs look for the daemon's program there.
#[tokio::test]
async fn the_home_has_a_link_to_the_program() {
    let daemon = Daemon::builder().start().await;
    let link = daemon.home().path().join("bin/agentanycastd");
    let output = std::process::Command::new(&link)
        .arg("--version")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.starts_with("agentanycastd "),
        "{said}"
    );
}

/// A socket that a killed daemon left is replaced; one that a daemon with another key answers on is an error.
#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let mut daemon = Daemon::builder().start().await;
    let id = daemon.peer_id().clone();
    daemon.kill().await;
    assert!(daemon.home().socket().exists());
    daemon.restart().await;
    assert_eq!(daemon.peer_id(), &id);
    let second = Daemon::builder().grpc(daemon.grpc()).run_to_end().await;
    let (code, text) = said(&second);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("daemon.sock") && text.contains("another"), "{text}");
    // The first one has not noticed.
    daemon.node().await.info().await.unwrap();
}

/// SIGTERM ends it well and in time, with a peer connected and every kind of stream open.
#[tokio::test]
async fn a_busy_daemon_stops() {
    let mut pair = DaemonPair::start(TransportKind::Quic).await;
    let mut bob = pair.bob.rpc().await;
    let mut incoming = rpc::listen(&mut bob).await;
    let mut alice = pair.alice.rpc().await;
    let task_id = rpc::send(&mut alice, pair.bob.peer_id(), "x").await.task_id;
    assert_eq!(rpc::next_task(&mut incoming).await.task_id, task_id);
    let request = v1::SubscribeTaskUpdatesRequest {
        task_id,
        ..Default::default()
    };
    let _updates = bob.subscribe_task_updates(request).await.unwrap();
    pair.bob.stop().await;
    assert!(!pair.bob.home().socket().exists(), "the socket is left behind");
    let end = within("the stream ends with its daemon", async {
        loop {
            match incoming.message().await {
                Ok(Some(_)) => {}
                other => break other,
            }
        }
    })
    .await;
    assert!(end.is_err(), "the stream ended as if there were no more tasks");
    pair.alice.stop().await;
}

/// A bootstrap peer that is down does not hold up the start, and is connected once it is up.
#[tokio::test]
async fn a_bootstrap_peer_that_is_down_is_waited_for() {
    for transport in [TransportKind::Tcp, TransportKind::Quic] {
        let mut alice = Daemon::builder().listen([transport.listen()]).start().await;
        alice.stop().await;
        let bob = Daemon::builder().bootstrap(&alice.addresses()[0]).start().await;
        alice.restart().await;
        wait_connected(&bob.node().await, &alice).await;
    }
}

/// An address for gRPC that was free a moment ago; nobody else is likely to take it.
fn free_address() -> String {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    format!("tcp://127.0.0.1:{port}")
}

#[tokio::test]
async fn agents_connect_over_tcp_too() {
    let daemon = Daemon::builder().grpc(free_address()).start().await;
    let info = daemon.node().await.info().await.unwrap();
    assert_eq!(info.peer_id.as_ref(), Some(daemon.peer_id()));
}

/// Each service asks for the token, where there is one.
#[tokio::test]
async fn who_has_not_the_token_calls_nothing() {
    const TOKEN: &str = "0123456789abcdef-of-this-test";
    let home = Home::new();
    let file = home.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let daemon = DaemonBuilder::new(home)
        .grpc(free_address())
        .args([format!("--grpc-token-file={}", file.display())])
        .start()
        .await;
    let channel = rpc::channel(daemon.grpc()).await.unwrap();
    let ask = async |token: Option<&str>| {
        let with_token = |mut request: tonic::Request<()>| {
            if let Some(token) = token {
                let value = format!("Bearer {token}").parse().unwrap();
                request.metadata_mut().insert("authorization", value);
            }
            Ok(request)
        };
        let mut node = NodeServiceClient::with_interceptor(channel.clone(), with_token);
        let mut diagnostics = DiagnosticsServiceClient::with_interceptor(channel.clone(), with_token);
        let info = node.get_node_info(v1::GetNodeInfoRequest::default()).await;
        let activity = diagnostics.get_activity(v1::GetActivityRequest::default()).await;
        [info.err(), activity.err()].map(|error| error.map(|status| status.code()))
    };
    for wrong in [None, Some("0123456789abcdef-of-another"), Some("")] {
        assert_eq!(
            ask(wrong).await,
            [Some(tonic::Code::Unauthenticated); 2],
            "{wrong:?}"
        );
    }
    assert_eq!(ask(Some(TOKEN)).await, [None; 2]);
}

/// Only the user that runs the daemon may call, whatever the file's mode says.
#[tokio::test]
async fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        report_skip("only root can become another user");
        return;
    }
    let daemon = Daemon::builder().start().await;
    let everyone = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    everyone(daemon.home().path());
    everyone(&daemon.home().socket());
    // The program has to be where the other user can read it.
    let probe = daemon.home().path().join("probe");
    std::fs::copy(env!("CARGO_BIN_EXE_node_info_probe"), &probe).unwrap();
    everyone(&probe);
    let ask = |user: Option<u32>| {
        let mut command = tokio::process::Command::new(&probe);
        command
            .arg(daemon.grpc())
            .current_dir("/")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        async move {
            let output = within("the probe ends", command.output()).await.unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
    };
    assert_eq!(ask(None).await, "answered\n");
    let outcome = ask(Some(NOBODY)).await;
    assert!(outcome.starts_with("refused: "), "{outcome:?}");
    assert_eq!(ask(None).await, "answered\n");
}

/// Two nodes with one key would each get a part of the tasks.
#[tokio::test]
async fn a_key_file_serves_one_daemon_under_all_its_names() {
    let first = Daemon::builder().start().await;
    let key = first.home().path().join("key");
    for is_hard in [false, true] {
        let home = Home::new();
        let link = home.path().join("key");
        let linked = if is_hard {
            std::fs::hard_link(&key, &link)
        } else {
            std::os::unix::fs::symlink(&key, &link)
        };
        linked.unwrap();
        let (code, text) = said(&DaemonBuilder::new(home).run_to_end().await);
        assert_eq!(code, Some(1), "{text}");
        let last = text.lines().last().unwrap_or_default();
        assert!(
            last.contains("in use by another daemon") && last.contains("--key"),
            "{text}"
        );
    }
}
