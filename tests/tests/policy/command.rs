//! `anycast policy`: what it says is what the daemon does.

use std::ffi::OsString;

use agentanycast_tests::{
    command::{anycast, program},
    daemon::Home,
};
use serde_json::Value;

const SETTINGS: &str = r#"
[policy]
trust = "known"
trusted_peers = ["friends", "did:web:example.org", "did:web:example.org:*"]
[policy.groups]
friends = ["12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK"]
[[policy.acl]]
skill = "admin/*"
allow = false
[[policy.acl]]
source = "friends"
allow = true
[[policy.acl]]
source = "http:*"
skill = "echo"
allow = true
[policy.rate_limit]
default_rps = 5
[[policy.rate_limit.overrides]]
source = "http:alice"
max_in_flight = 3
"#;

#[test]
fn a_check_says_what_would_happen_and_why() {
    let home = Home::new();
    let path = home.path().join("config.toml");
    std::fs::write(&path, SETTINGS).unwrap();
    let check = |source: &str, skill: &str| {
        let args = [
            "--json", "policy", "check", "--source", source, "--skill", skill, "--config",
        ];
        let mut args: Vec<OsString> = args.map(OsString::from).to_vec();
        args.push(path.clone().into());
        let said = anycast(args);
        let answer: Value = serde_json::from_str(&said.said).unwrap_or_else(|_| panic!("{}", said.said));
        (said.status.code(), answer)
    };
    let friend = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
    for (source, skill, decision, by) in [
        (friend, "x", "allow", "acl 2"),
        (friend, "", "allow", "acl 2"),
        (friend, "admin/users", "deny", "acl 1"),
        ("did:web:example.org", "x", "deny", "acl default"),
        ("did:web:example.com", "x", "deny", "trust known"),
        ("http:alice", "echo", "allow", "acl 3"),
        ("http:alice", "echoes", "deny", "acl default"),
        ("local", "x", "deny", "acl default"),
    ] {
        let (code, answer) = check(source, skill);
        assert_eq!(
            (&answer["decision"], &answer["by"]),
            (&decision.into(), &by.into()),
            "{source} {skill}"
        );
        assert_eq!(code, Some(i32::from(decision == "deny")), "{source} {skill}");
    }
    let (_, alice) = check("http:alice", "echo");
    assert_eq!(alice["limits"]["max_in_flight"], 3);
    assert_eq!(alice["limits"]["rps"], 5.0);
    assert_eq!(alice["rule"]["source"], "http:*");
    assert_eq!(alice["settings"], path.to_str().unwrap());
}

/// Where there are no settings everything would seem to be allowed: it says so.
#[test]
fn rules_that_are_nowhere_are_told() {
    let home = Home::new();
    let said = std::process::Command::new(program())
        .args(["policy", "check", "--source", "local"])
        .env_clear()
        .env("HOME", home.path())
        .output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("no rules") && said.contains("--config"), "{said}");
}

/// What nobody could check is not signed.
#[test]
fn credentials_with_a_status_that_nobody_can_ask_for_are_refused_by_the_value() {
    let home = Home::new();
    agentanycast_identity::load_or_create(&home.path().join("key")).unwrap();
    let run = |command: &[&str]| {
        let mut args: Vec<OsString> = vec!["--home".into(), home.path().into(), "credential".into()];
        args.extend(command.iter().map(OsString::from));
        anycast(args)
    };
    let subject = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
    let issue = |more: &[&str]| run(&[&["issue", "--subject", subject], more].concat());
    let good = issue(&["--status-list", "https://a.example/1", "--status-index", "131071"]);
    assert!(good.status.success(), "{}", good.said);
    for (wrong, named) in [
        (
            issue(&["--status-list", "http://a.example/1", "--status-index", "1"]),
            "begins with https://",
        ),
        (
            issue(&["--status-list", "https://a.example/1", "--status-index", "131072"]),
            "131072",
        ),
        (issue(&["--days", "36501"]), "36501"),
        (
            run(&["status-list", "--url", "http://a.example/1"]),
            "begins with https://",
        ),
    ] {
        assert_eq!(wrong.status.code(), Some(2), "{}", wrong.said);
        assert!(wrong.said.contains(named), "{}", wrong.said);
    }
}

#[test]
fn rules_are_shown_and_mistakes_named() {
    let home = Home::new();
    let path = home.path().join("config.toml");
    std::fs::write(&path, SETTINGS).unwrap();
    let run = |args: &[&str]| {
        let mut args: Vec<OsString> = args.iter().map(OsString::from).collect();
        args.extend(["--config".into(), path.clone().into()]);
        anycast(args)
    };
    let shown = run(&["policy", "show"]);
    assert!(shown.status.success(), "{}", shown.said);
    for part in [
        "known",
        "friends",
        "admin/*",
        "everybody else",
        "5 tasks a second",
        "3 tasks open",
    ] {
        assert!(shown.said.contains(part), "{part} is missing in:\n{}", shown.said);
    }
    let person = run(&["policy", "check", "--source", "http:bob", "--skill", "admin/x"]);
    assert!(
        person.said.contains("acl 1") && person.said.contains("allow = false"),
        "{}",
        person.said
    );
    let nobody = run(&["policy", "check", "--source", "bob"]);
    assert_eq!(nobody.status.code(), Some(2), "{}", nobody.said);
    std::fs::write(&path, "[[policy.acl]]\nsource = \"opps\"\nallow = true\n").unwrap();
    let wrong = run(&["policy", "show"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        wrong.said.contains("opps") && wrong.said.contains("config.toml:1"),
        "{}",
        wrong.said
    );
}
