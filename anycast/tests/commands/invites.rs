//! Invites from one home to another, with real daemons: three commands, one string to carry.

use std::path::Path;

use crate::homes::{RunningCommand, command, document, run};

/// A peer that nobody is.
const ABSENT_PEER: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

/// The settings of a node that lets in nobody but [`ABSENT_PEER`].
fn closed() -> String {
    format!(
        "[policy]\ntrust = \"known\"\ntrusted_peers = [{ABSENT_PEER:?}]\n\n[[policy.acl]]\nsource = {ABSENT_PEER:?}\nallow = true\n\n\
         [[policy.acl]]\nsource = \"local\"\nallow = true\n"
    )
}

/// An echo agent beside a node that lets nobody in.
fn guarded(home: &Path) -> RunningCommand {
    let directory = home.join("home");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("config.toml"), closed()).unwrap();
    RunningCommand::start(home, &["demo", "--name", "parrot"])
}

fn says(home: &Path, arguments: &[&str], word: &str) -> String {
    let (text, code) = run(home, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {text}");
    assert!(
        text.contains(word),
        "{arguments:?}: {word:?} is missing in:\n{text}"
    );
    text
}

fn fails(home: &Path, arguments: &[&str], code: i32, word: &str) {
    let (text, ended) = run(home, arguments);
    assert_eq!(ended, Some(code), "{arguments:?}: {text}");
    assert!(
        text.contains(word),
        "{arguments:?}: {word:?} is missing in:\n{text}"
    );
}

fn invite(home: &Path, options: &[&str]) -> String {
    let made = document(home, &[&["invite"], options].concat());
    made["invite"]
        .as_str()
        .unwrap_or_else(|| panic!("{made}"))
        .to_owned()
}

#[test]
fn a_guest_is_let_in_by_an_invite_until_it_is_revoked() {
    let homes = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [host, guest, other] = [&homes[0], &homes[1], &homes[2]].map(tempfile::TempDir::path);
    let running_host = guarded(host);
    let (running_guest, _other) = (RunningCommand::daemon(guest), RunningCommand::daemon(other));
    let bare = invite(host, &["--no-right"]);
    fails(guest, &["send", &bare, "hello"], 1, "peers that it knows only");

    let text = invite(host, &["--label", "team"]);
    assert!(text.starts_with("banycast") && text.len() < 500, "{text}");
    let joined = says(guest, &["join", &text, "--as", "bob"], "reached");
    let home = guest.join("home");
    let hint = format!("try: anycast --home {} send bob \"hello\"", home.display());
    assert!(joined.contains(&hint), "{joined}");
    says(guest, &["send", "bob", "by alias"], "by alias");
    says(guest, &["send", "parrot", "by card"], "by card");
    let listed = document(host, &["invite", "ls"]);
    let me = document(guest, &["id"])["peer_id"].clone();
    assert_eq!(
        (&listed[0]["label"], &listed[0]["peer_ids"][0]),
        (&"team".into(), &me)
    );
    says(host, &["invite", "ls"], "1 of 1");

    // Its one use is taken, and the string is worth nothing to another one.
    fails(other, &["send", &text, "hello"], 1, "as many peers as it lets in");
    fails(other, &["join", &text], 1, "as many peers as it lets in");
    // Over a restart of both.
    drop((running_host, running_guest));
    let (_host, _guest) = (guarded(host), RunningCommand::daemon(guest));
    says(guest, &["send", &text, "after a restart"], "after a restart");
    says(host, &["invite", "revoke", "team"], "let in by it no more");
    fails(guest, &["send", &text, "hello"], 1, "not known here");
    fails(guest, &["join", &text], 1, "not known here");
    fails(host, &["invite", "revoke", "team"], 4, "team");
    assert_eq!(document(host, &["invite", "ls"]).as_array().unwrap().len(), 0);
}

/// Two commands: here an invite, and there a task, in a home where nothing has ever been.
#[test]
fn a_task_is_sent_by_an_invite_from_a_bare_home() {
    let homes = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [host, guest] = [&homes[0], &homes[1]].map(tempfile::TempDir::path);
    let _host = guarded(host);
    let text = invite(host, &["--skill", "echo", "--agent", "parrot", "--uses", "2"]).to_uppercase();
    says(guest, &["send", &text, "from nothing"], "from nothing");
    // The right is for one skill.
    let sent = document(host, &["tasks"]);
    assert_eq!(sent[0]["skill"], "echo");
    says(guest, &["join", &text], "parrot");
    fails(
        guest,
        &["send", "parrot", "without the skill"],
        1,
        "peers that it knows only",
    );
    let _ = command(guest).arg("down").output();
    fails(host, &["invite", "--agent", "nobody"], 1, "nobody");
}

#[test]
fn what_is_no_invite_is_refused_before_anything_is_done() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    for (text, word) in [("bob", "begins with banycast"), ("banycastbxyz", "checksum")] {
        fails(home, &["join", text], 2, word);
    }
    fails(home, &["send", "banycastbxyz", "hello"], 2, "checksum");
    fails(home, &["invite", "--uses", "0"], 2, "--uses");
    fails(home, &["invite", "--no-right", "--skill", "x"], 2, "--no-right");
    fails(home, &["invite", "--skill", ""], 2, "--skill");
    assert!(!home.join("home").exists(), "something was done");
}
