//! The place of the store: in use, not ours, not writable, no directory.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
};

use agentanycast_tests::{Daemon, DaemonBuilder, daemon::Home, report_skip, rpc};

use super::AcceptedTasks;

/// A user that owns nothing.
const NOBODY: u32 = 65_534;

/// The store of this daemon elsewhere.
fn with_store(home: &Home, store: &Path) -> DaemonBuilder {
    DaemonBuilder::new(home.clone()).env("AGENTANYCAST_STORE_PATH", store)
}

/// It ends by itself, with code 1 and one last line that names the place; nothing was announced.
async fn refuses(builder: DaemonBuilder, place: &Path, why: &str) {
    let output = builder.run_to_end().await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    super::has_not_panicked(&said);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty(), "it announced itself");
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("agentanycastd: ") && last.contains(&*place.to_string_lossy()) && last.contains(why),
        "{}, {why}: {said}",
        place.display()
    );
    let others = said
        .lines()
        .filter(|line| line.starts_with("agentanycastd: "))
        .count();
    assert_eq!(others, 1, "{said}");
}

#[tokio::test]
async fn a_second_daemon_on_one_store_ends() {
    let first = Daemon::builder().start().await;
    let data = first.home().path().join("data");
    let mut ledger = AcceptedTasks::default();
    let mut rpc = first.rpc().await;
    for _ in 0..50 {
        ledger.send(&mut rpc, first.peer_id(), 2_000).await.unwrap();
        if ledger.0.len().is_multiple_of(10) {
            refuses(with_store(&Home::new(), &data), &data, "in use by another daemon").await;
        }
    }
    // The first one has not noticed: it takes tasks, and has them all, also after a crash.
    let mut first = first;
    ledger.is_kept_by(&first).await;
    first.kill().await;
    first.restart().await;
    ledger.is_kept_by(&first).await;
}

#[tokio::test]
async fn a_file_is_no_store() {
    let home = Home::new();
    let file = home.path().join("file");
    fs::write(&file, "mine").unwrap();
    refuses(with_store(&home, &file), &file, "").await;
    refuses(with_store(&home, &file.join("deeper")), &file, "").await;
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

/// As another user than root, for whom permissions count.
#[tokio::test]
async fn a_store_of_somebody_else_is_left_alone() {
    if !rustix::process::geteuid().is_root() {
        report_skip("only root can become another user");
        return;
    }
    let home = Home::new();
    let public = home.path().join("agentanycastd");
    fs::copy(agentanycast_tests::daemon::program(), &public).unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let own = home.path().join("own");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    let as_nobody = |store: &Path| {
        let socket = own.join("s");
        with_store(&home, store)
            .grpc(format!("unix://{}", socket.display()))
            .args([format!("--key={}", own.join("key").display())])
            .program(&public)
            .user(NOBODY)
    };
    let closed = home.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    refuses(as_nobody(&closed), &closed, "ermission denied").await;
    let readable = home.path().join("readable");
    fs::create_dir(&readable).unwrap();
    fs::set_permissions(&readable, fs::Permissions::from_mode(0o755)).unwrap();
    refuses(as_nobody(&readable), &readable, "ermission denied").await;
    let inside = home.path().join("inside");
    refuses(as_nobody(&inside), &inside, "ermission denied").await;
    // A store that root has used once.
    let mut used = with_store(&home, &own.join("data")).start().await;
    let mut ledger = AcceptedTasks::default();
    let mut rpc = used.rpc().await;
    ledger.send(&mut rpc, used.peer_id(), 100).await.unwrap();
    used.stop().await;
    refuses(
        as_nobody(&own.join("data")),
        &own.join("data"),
        "ermission denied",
    )
    .await;
    used.restart().await;
    ledger.is_kept_by(&used).await;
    let mut rpc = used.rpc().await;
    rpc::send(&mut rpc, used.peer_id(), "one more").await;
}
