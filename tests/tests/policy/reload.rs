//! Rules that change while the daemon runs: by SIGHUP, by the file, and not by a file that is wrong.

use agentanycast_tests::{DaemonBuilder, cli::anycast_json, daemon::Home, eventually};
use rustix::process::{Signal, kill_process};

use crate::setup::{PolicySetup, figure, is_serving, rejected};

const DENY: &str = "[[policy.acl]]\nallow = false\n";

#[tokio::test]
async fn a_changed_file_is_read_by_itself_and_on_sighup() {
    let scene = PolicySetup::new(|_, _| String::new()).await;
    scene.ask().await.unwrap();
    scene.write(DENY);
    eventually("the new rules hold", || async { scene.ask().await.err() }).await;
    rejected(scene.ask().await);
    // A SIGHUP need not wait until somebody looks at the file; a second one changes nothing.
    scene.write("");
    for _ in 0..2 {
        kill_process(scene.guarded.pid(), Signal::HUP).unwrap();
    }
    eventually("the old rules are gone", || async { scene.ask().await.ok() }).await;
    is_serving(&scene.guarded, "policy", true).await;
}

#[tokio::test]
async fn a_node_that_nobody_may_come_to_says_so() {
    let scene = PolicySetup::new(|_, _| "[policy]\ntrust = \"pinned\"\n".to_owned()).await;
    let log = || scene.guarded.log_tail();
    let said = || log().matches("no other node may send tasks here").count();
    assert_eq!(said(), 1, "{}", log());
    rejected(scene.ask().await);
    scene.write("[policy]\ntrust = \"known\"\n");
    kill_process(scene.guarded.pid(), Signal::HUP).unwrap();
    eventually("it is said again", || async { (said() == 2).then_some(()) }).await;
}

#[tokio::test]
async fn a_file_that_is_wrong_changes_nothing_and_says_so() {
    let scene = PolicySetup::new(|_, _| DENY.to_owned()).await;
    is_serving(&scene.guarded, "policy", true).await;
    for (wrong, named) in [
        ("[[policy.acl]\nallow = true\n", "config.toml:1"),
        ("[[policy.acl]]\nsource = \"opps\"\nallow = true\n", "opps"),
        ("\n\n[policy]\ntrust = \"everybody\"\n", "config.toml:4"),
        ("log_level = \"loud\"\n", "loud"),
    ] {
        scene.write(wrong);
        kill_process(scene.guarded.pid(), Signal::HUP).unwrap();
        eventually("it is in the log", || async {
            let log = scene.guarded.log_tail();
            let line = log.lines().find(|line| line.contains(named))?;
            line.contains("the old rules stay").then_some(())
        })
        .await;
        is_serving(&scene.guarded, "policy", false).await;
        assert_eq!(figure(&scene.guarded, "agentanycast_problems").await, 1);
        let status = anycast_json(&scene.guarded, &["status"]).await;
        let told = status["problems"][0].as_str().unwrap_or_default();
        assert!(told.contains(named), "{status}");
        rejected(scene.ask().await);
    }
    scene.write("[[policy.acl]]\nallow = true\n");
    eventually("a file that is right is taken", || async {
        scene.ask().await.ok()
    })
    .await;
    is_serving(&scene.guarded, "policy", true).await;
    assert_eq!(figure(&scene.guarded, "agentanycast_problems").await, 0);
}

#[tokio::test]
async fn a_file_that_opens_the_node_counts_only_when_it_is_meant() {
    let scene = PolicySetup::new(|_, _| format!("[policy]\ntrust = \"known\"\n{DENY}")).await;
    let file = scene.guarded.home().path().join("config.toml");
    let says = async |words: &str| {
        eventually("it is in the log", || async {
            let log = scene.guarded.log_tail();
            let line = log.lines().rfind(|line| line.contains("the old rules stay"))?;
            line.contains(words).then_some(())
        })
        .await;
        is_serving(&scene.guarded, "policy", false).await;
        rejected(scene.ask().await);
    };
    scene.write("");
    says("has no rules any more").await;
    scene.write("[[policy.acl]]\nallow = true\n");
    says("trusts everybody now").await;
    std::fs::remove_file(&file).unwrap();
    says("No such file").await;
    says("or an empty one").await;
    scene.write("");
    kill_process(scene.guarded.pid(), Signal::HUP).unwrap();
    eventually("what is meant is done", || async { scene.ask().await.ok() }).await;
    is_serving(&scene.guarded, "policy", true).await;
}

#[tokio::test]
async fn a_file_that_is_gone_from_its_usual_place_takes_no_rule_with_it() {
    let home = Home::new();
    let file = home.path().join(".agentanycast/config.toml");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, DENY).unwrap();
    let daemon = DaemonBuilder::new(home).start().await;
    is_serving(&daemon, "policy", true).await;
    std::fs::remove_file(&file).unwrap();
    is_serving(&daemon, "policy", false).await;
    assert!(daemon.log_tail().contains("config.toml is gone"));
    kill_process(daemon.pid(), Signal::HUP).unwrap();
    is_serving(&daemon, "policy", true).await;
}

/// As `cp -p`, `touch -r` and volumes of containers leave it.
#[tokio::test]
async fn other_rules_of_the_same_length_and_date_are_read_again() {
    const ALLOW: &str = "[[policy.acl]]\nallow = true \n";
    assert_eq!(ALLOW.len(), DENY.len());
    let scene = PolicySetup::new(|_, _| ALLOW.to_owned()).await;
    scene.ask().await.unwrap();
    let path = scene.guarded.home().path().join("config.toml");
    let before = std::fs::metadata(&path).unwrap();
    scene.write(DENY);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let written = before.modified().unwrap();
    file.set_times(std::fs::FileTimes::new().set_modified(written))
        .unwrap();
    assert_eq!(file.metadata().unwrap().len(), before.len());
    eventually("the new rules hold", || async { scene.ask().await.err() }).await;
    rejected(scene.ask().await);
}

/// What a running daemon does not take over it says.
#[tokio::test]
async fn other_settings_wait_for_the_next_start() {
    let scene = PolicySetup::new(|_, _| String::new()).await;
    let says_so = || scene.guarded.log_tail().contains("besides [policy] have changed");
    scene.write(DENY);
    eventually("the new rules hold", || async { scene.ask().await.err() }).await;
    assert!(!says_so());
    scene.write(&format!("log_level = \"debug\"\n{DENY}"));
    eventually("it says so", || async { says_so().then_some(()) }).await;
}

/// Whether the settings of the audit log are in force, not whether they have changed since they were last read.
#[tokio::test]
async fn settings_of_the_audit_log_wait_for_the_next_start() {
    let scene = PolicySetup::new(|_, _| String::new()).await;
    let log = || scene.guarded.log_tail();
    let warnings = || log().matches("settings of the audit log have changed").count();
    let reads = || log().matches("the policy was read again").count();
    let other = format!(
        "[policy]\naudit_log_path = {:?}\n",
        scene.guarded.home().path().join("audit.jsonl")
    );
    // Others, still others, and those of the start.
    for (read, (settings, warned)) in [(&*other, 1), (&other, 2), ("", 2)].into_iter().enumerate() {
        scene.write(settings);
        kill_process(scene.guarded.pid(), Signal::HUP).unwrap();
        eventually("it is read", || async { (reads() > read).then_some(()) }).await;
        assert_eq!((reads(), warnings()), (read + 1, warned), "{}", log());
    }
}
