//! Peers and tasks called by their names, aliases and pieces of their ids, with real daemons.

use std::path::Path;

use crate::homes::{RunningCommand, command, document, run};
use serde_json::Value;

/// A peer that nobody is.
const ABSENT_PEER: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

/// An echo agent, its peer id, and its address with that id.
fn echo(home: &Path, name: &str) -> (RunningCommand, String, String) {
    let running = RunningCommand::start(home, &["demo", "--name", name]);
    let status = document(home, &["status"]);
    let peer = status["peer_id"].as_str().unwrap().to_owned();
    let listens = status["listen_addresses"].as_array().unwrap();
    let address = listens
        .iter()
        .filter_map(Value::as_str)
        .find(|address| address.contains("/tcp/"))
        .unwrap();
    let address = format!("{}/p2p/{peer}", address.trim_end_matches(&format!("/p2p/{peer}")));
    (running, peer, address)
}

/// Succeeds, and says this among other things.
fn says(home: &Path, arguments: &[&str], word: &str) {
    let (text, code) = run(home, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {text}");
    assert!(
        text.contains(word),
        "{arguments:?}: {word:?} is missing in:\n{text}"
    );
}

/// Fails as a target that is not found, and says all of this.
fn is_refused(home: &Path, arguments: &[&str], words: &[&str]) {
    let (text, code) = run(home, arguments);
    assert_eq!(code, Some(4), "{arguments:?}: {text}");
    for word in words {
        assert!(
            text.contains(word),
            "{arguments:?}: {word:?} is missing in:\n{text}"
        );
    }
}

#[test]
fn a_peer_is_called_by_any_of_its_names() {
    let homes = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [here, there, other] = [&homes[0], &homes[1], &homes[2]].map(tempfile::TempDir::path);
    let daemon = RunningCommand::daemon(here);
    let (_agent, peer, address) = echo(there, "parrot");
    let (magpie, second, second_address) = echo(other, "magpie");

    says(here, &["alias", "add", "bob", &address], &peer);
    says(here, &["send", "bob", "by alias"], "by alias");
    let did = document(there, &["status"])["did_key"]
        .as_str()
        .unwrap()
        .to_owned();
    let end = &peer[peer.len() - 8..];
    for name in [
        "parrot",
        end,
        &peer[8..20],
        &did,
        &did[..did.len() - 2],
        &did[did.len() - 10..],
    ] {
        says(here, &["send", name, "hello"], "hello");
        says(here, &["card", name], "parrot");
    }
    // A list calls the peer by the alias, in short and whole.
    says(here, &["peers"], &format!("bob {end}"));
    says(here, &["peers", "--full"], &format!("bob {peer}"));
    says(here, &["tasks"], &format!("to bob {end}"));
    says(here, &["tasks"], "by alias");
    assert_eq!(document(here, &["tasks", "--limit", "1"])[0]["asked"], "hello");

    // Another agent that takes the same name: it is not clear any more who is meant, but for the alias.
    says(here, &["send", &second_address, "hello"], "hello");
    says(here, &["send", "magpie", "hello"], "hello");
    drop(magpie);
    let (_second, _, second_address) = echo(other, "parrot");
    says(here, &["send", &second_address, "hello"], "hello");
    is_refused(
        here,
        &["send", "parrot", "hello"],
        &["parrot", &peer, &second, "bob"],
    );
    says(here, &["send", "bob", "again"], "again");
    is_refused(
        here,
        &["send", "parot", "hello"],
        &["did you mean parrot?", "--skill"],
    );
    is_refused(here, &["card", "abcdef"], &["abcdef"]);
    assert_eq!(
        document(here, &["send", "parrot", "hello"])["error"]["kind"],
        "PeerAmbiguous"
    );

    // Known from before, also by a daemon that was started anew.
    drop(daemon);
    let _daemon = RunningCommand::daemon(here);
    says(here, &["card", &second[second.len() - 8..]], "parrot");
    is_refused(
        here,
        &["send", "did:web:a.invalid", "hello"],
        &["did:web:a.invalid"],
    );
    let (text, code) = run(here, &["send", "did:web:127.0.0.1", "hello"]);
    assert_eq!(code, Some(2), "{text}");
}

#[test]
fn a_task_is_called_by_the_beginning_of_its_id() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let (text, code) = run(
        home,
        &["send", ABSENT_PEER, "what is asked", "--timeout", "300ms"],
    );
    assert_eq!(code, Some(5), "{text}");
    let id = document(home, &["tasks"])[0]["id"].as_str().unwrap().to_owned();
    let short = &id[..8];
    let (text, _) = run(home, &["tasks"]);
    assert!(text.contains(short) && !text.contains(&id), "{text}");
    assert!(text.contains("what is asked"), "{text}");
    says(home, &["tasks", "--full"], &id);
    says(home, &["task", short], &id);
    says(home, &["trace", &id[..4]], &id);
    is_refused(home, &["task", &id[..3]], &[]);
    is_refused(home, &["cancel", "zzzz"], &["zzzz"]);
    says(home, &["cancel", &id[..12]], "canceled");
    assert_eq!(document(home, &["task", short])["id"], id.as_str());
}

#[test]
fn aliases_need_no_daemon() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    is_refused(home, &["send", "bob", "hello"], &["bob"]);
    assert!(!home.join("home").join("data").exists(), "a daemon was started");
    says(home, &["alias", "add", "bob", ABSENT_PEER], ABSENT_PEER);
    says(home, &["alias", "add", "bob", ABSENT_PEER], ABSENT_PEER);
    says(
        home,
        &["alias", "add", "robert", &ABSENT_PEER[20..30]],
        ABSENT_PEER,
    );
    assert_eq!(document(home, &["alias", "ls"]).as_array().unwrap().len(), 2);
    says(home, &["alias", "ls"], "swrRJsNK");

    let other = "12D3KooWGzBCvvFjmKHRBiNLcSVcEmWBFXnYLxMfLN5kYDkvMEAE";
    let (text, code) = run(home, &["alias", "add", "bob", other]);
    assert!(code == Some(1) && text.contains("--force"), "{code:?}: {text}");
    says(home, &["alias", "add", "--force", "bob", other], ABSENT_PEER);
    let (_, code) = run(home, &["alias", "add", "a b", other]);
    assert_eq!(code, Some(2));
    is_refused(home, &["alias", "rm", "bob", "nobody"], &["nobody"]);
    says(home, &["alias", "rm", "bob"], other);
    is_refused(home, &["card", "bob"], &["bob"]);

    // What a file by hand says wrongly is told, and kept.
    let file = home.join("home").join("aliases.toml");
    std::fs::write(&file, "[bob]\npeer = \"nobody\"\n").unwrap();
    let (text, code) = run(home, &["alias", "ls"]);
    assert!(
        code == Some(1) && text.contains("aliases.toml") && text.contains("bob"),
        "{text}"
    );
    let (_, code) = run(home, &["alias", "add", "amy", ABSENT_PEER]);
    assert_eq!(code, Some(1));
    assert!(std::fs::read_to_string(&file).unwrap().contains("nobody"));
}

#[test]
fn no_alias_of_ten_at_once_is_lost() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let names: Vec<String> = (0..10).map(|number| format!("name{number}")).collect();
    let added: Vec<_> = names
        .iter()
        .map(|name| {
            command(home)
                .args(["alias", "add", name, ABSENT_PEER])
                .stdout(std::process::Stdio::null())
                .spawn()
        })
        .collect();
    for child in added {
        assert!(child.unwrap().wait().unwrap().success());
    }
    let book = document(home, &["alias", "ls"]);
    let kept: Vec<&str> = book
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|alias| alias["alias"].as_str())
        .collect();
    assert_eq!(kept, names);
}

/// A box for a peer by its alias, opened by the other end.
#[test]
fn a_box_is_made_for_an_alias() {
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, two] = [homes[0].path(), homes[1].path()];
    let ids = [one, two].map(|home| {
        let daemon = RunningCommand::daemon(home);
        let id = document(home, &["id"])["peer_id"].as_str().unwrap().to_owned();
        drop(daemon);
        id
    });
    says(one, &["alias", "add", "two", &ids[1]], &ids[1]);
    says(two, &["alias", "add", "one", &ids[0]], &ids[0]);
    let secret = one.join("secret");
    std::fs::write(&secret, "between us").unwrap();
    let sealed = command(one)
        .args(["seal", "--for", "two"])
        .arg(&secret)
        .output()
        .unwrap();
    assert!(sealed.status.success(), "{sealed:?}");
    let boxed = two.join("boxed");
    std::fs::write(&boxed, sealed.stdout).unwrap();
    let opened = command(two)
        .args(["unseal", "--from", "one"])
        .arg(&boxed)
        .output()
        .unwrap();
    assert_eq!(opened.stdout, b"between us", "{opened:?}");
    let (text, code) = run(one, &["seal", "--for", "nobody", secret.to_str().unwrap()]);
    assert!(
        code == Some(4) && text.contains("--for") && text.contains("nobody"),
        "{code:?}: {text}"
    );
}

/// Hosts that are connected find each other's agents without a registry.
#[test]
fn agents_are_found_by_skill_without_a_registry() {
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [here, there] = [homes[0].path(), homes[1].path()];
    // On all addresses, as it does by itself: a LAN is told by them.
    let _daemon = RunningCommand::start(here, &["daemon"]);
    let (text, code) = run(here, &["agents"]);
    assert!(code == Some(0) && text.contains("no agent is known"), "{text}");
    let (agent, peer, address) = echo(there, "parrot");
    let (_, code) = run(here, &["card", &address]);
    assert_eq!(code, Some(0));

    let found = document(here, &["discover", "echo"]);
    assert_eq!(found[0]["peer_id"], peer.as_str());
    assert_eq!(
        (&found[0]["name"], &found[0]["verified"]),
        (&"parrot".into(), &true.into())
    );
    says(here, &["send", "--skill", "echo", "by skill"], "by skill");
    for arguments in [
        &["agents"][..],
        &["agents", "--local"],
        &["agents", "--skill", "echo"],
    ] {
        says(here, arguments, "parrot");
        says(here, arguments, "LAN");
        let agents = document(here, arguments);
        assert_eq!(agents["agents"].as_array().unwrap().len(), 1, "{agents}");
        assert_eq!(agents["agents"][0]["skills"][0]["id"], "echo");
    }
    says(there, &["agents"], "this node");
    says(here, &["skills"], "parrot");
    assert_eq!(
        document(here, &["skills", "--local"])[0]["peer_ids"][0],
        peer.as_str()
    );

    for command in [
        &["send", "--skill", "ecoh", "hello"][..],
        &["discover", "ecoh"],
        &["agents", "--skill", "ecoh"],
    ] {
        is_refused(here, command, &["ecoh", "did you mean echo?"]);
    }
    let (text, code) = run(here, &["send", "--skill", "paint", "hello"]);
    assert!(
        code == Some(4) && !text.contains("did you mean"),
        "{code:?}: {text}"
    );

    drop(agent);
    let (text, code) = run(here, &["agents", "--local"]);
    assert!(code == Some(0) && text.contains("no agent is known"), "{text}");
}
