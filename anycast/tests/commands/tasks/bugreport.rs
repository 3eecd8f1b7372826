//! What `anycast bugreport` packs, and what it leaves out.

use std::{collections::BTreeMap, fs, io::Read as _, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::Value;

use super::{RunningCommand, asking_agent::AskingAgent, run};

/// What is in an archive, by name.
fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let file = fs::File::open(path).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let files = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name.strip_prefix("anycast-bugreport/").unwrap().to_owned(), text)
    });
    files.collect()
}

#[test]
fn it_has_what_helps_and_no_secrets() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path();
    fs::create_dir_all(home.join("home/logs")).unwrap();
    let settings = "[transport.nats]\nauth_pass = \"hunter22\"\n";
    fs::write(home.join("home/config.toml"), settings).unwrap();
    fs::write(
        home.join("home/logs/daemon.log"),
        "hello from the log\nAuthorization: Bearer hunter22hunter22\n",
    )
    .unwrap();
    let _daemon = RunningCommand::daemon(home);
    let agent = AskingAgent::asking(home);
    let (text, code) = run(home, &["send", agent.peer.as_str(), "strictly confidential"]);
    assert_eq!(code, Some(0), "{text}");
    let path = home.join("report.tar.gz");
    let (text, code) = run(home, &["bugreport", "--output", path.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let files = unpacked(&path);
    let report: Value = serde_json::from_str(&files["report.json"]).unwrap();
    assert_eq!(report["daemon"]["peer_id"], agent.peer.as_str());
    assert!(
        report["activity"]["tasks"]
            .as_array()
            .is_some_and(|tasks| !tasks.is_empty()),
        "{report:#}"
    );
    assert!(files["settings.txt"].contains("log_level") && files["settings.txt"].contains("auth_pass"));
    assert!(files["logs/daemon.log"].contains("hello from the log"));
    assert!(files["log.txt"].contains("listening"), "{}", files["log.txt"]);
    let store: Value = serde_json::from_str(&files["store.json"]).unwrap();
    assert!(
        store["parts"].as_object().is_some_and(|parts| !parts.is_empty()),
        "{store:#}"
    );
    let key = fs::read(home.join("home/key")).unwrap();
    let key = String::from_utf8_lossy(&key).into_owned();
    for (name, text) in &files {
        for secret in ["hunter22", "confidential", key.trim()] {
            assert!(!text.contains(secret), "{name} has {secret:?}");
        }
    }
    let (text, code) = run(home, &["bugreport", "--output", path.to_str().unwrap()]);
    assert!(code == Some(1) && text.contains("--output"), "{code:?}: {text}");
}

#[test]
fn it_is_made_without_a_daemon() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("report.tar.gz");
    let (text, code) = run(root.path(), &["bugreport", "-o", path.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{text}");
    let files = unpacked(&path);
    let report: Value = serde_json::from_str(&files["report.json"]).unwrap();
    assert!(
        report["daemon"].is_null() && report["daemon_error"].is_string(),
        "{report:#}"
    );
}

#[test]
fn the_log_is_the_file_that_the_settings_name() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path();
    fs::create_dir_all(home.join("home")).unwrap();
    let log = home.join("elsewhere.log");
    fs::write(&log, "logged elsewhere\n").unwrap();
    let settings = format!("log_file = {:?}\n", log.display().to_string());
    fs::write(home.join("home/config.toml"), settings).unwrap();
    let path = home.join("report.tar.gz");
    let (text, code) = run(home, &["bugreport", "--output", path.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(unpacked(&path)["logs/daemon.log"], "logged elsewhere\n");
}
