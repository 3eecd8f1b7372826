//! `anycast policy`: what it says is what the daemon does.

use std::ffi::OsString;

use agentanycast_tests::{
    cli::{anycast, program},
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
        let answer: Value =
            serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{}", said.all_output));
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

/// A peer has its key, the names that it has proven, and maybe somebody who vouches for it: all of that counts at once, as it
/// does in the daemon.
#[test]
fn a_peer_is_asked_about_with_all_that_is_known_of_it() {
    const KEY: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
    const FORMER: &str = "12D3KooWQYV9dGMFoRzNStwpXztXaBUjtPqi6aU76ZgUriHhKust";
    let home = Home::new();
    let path = home.path().join("config.toml");
    let settings = format!(
        "[policy]\ntrust = 'known'\ntrusted_peers = ['did:web:a.example']\ntrusted_issuers = ['did:web:issuer.example']\n\
         [[policy.acl]]\nsource = '{FORMER}'\nskill = 'old'\nallow = true\n\
         [[policy.acl]]\nsource = '{KEY}'\nskill = 'echo'\nallow = true\n"
    );
    std::fs::write(&path, settings).unwrap();
    let run = |args: &str| {
        let args = ["policy"].into_iter().chain(args.split(' '));
        let mut args: Vec<OsString> = args.map(OsString::from).collect();
        args.extend(["--config".into(), path.clone().into()]);
        anycast(args)
    };
    for (args, said, code) in [
        (format!("check --source {KEY} --skill echo"), "trust known", 1),
        (format!("check --source {KEY} --skill echo --vouched"), "acl 2", 0),
        (
            format!("check --source {KEY} --skill other --vouched"),
            "acl default",
            1,
        ),
        (
            format!("check --source {KEY} --source did:web:a.example --skill echo"),
            "acl 2",
            0,
        ),
        (
            format!("check --source did:web:a.example --source {KEY} --source {FORMER} --skill old"),
            "acl 1",
            0,
        ),
        (
            "check --source did:web:a.example --skill echo".to_owned(),
            "acl default",
            1,
        ),
        (
            format!("check --source local --source {KEY}"),
            "ask about local alone",
            2,
        ),
        (
            "check --source local --vouched".to_owned(),
            "--vouched is for other nodes",
            2,
        ),
        // As it is in rules: nobody is called so.
        (
            "check --source did:web:A.example --skill echo".to_owned(),
            "did:web:a.example, in small letters",
            2,
        ),
    ] {
        let answer = run(&args);
        assert!(answer.all_output.contains(said), "{args}: {}", answer.all_output);
        assert_eq!(answer.status.code(), Some(code), "{args}");
    }
    let hint = run(&format!("check --source {KEY} --skill echo"));
    let credential = "allow, by acl 2: with a credential of did:web:issuer.example (--vouched)";
    assert!(hint.all_output.contains(credential), "{}", hint.all_output);
    let hint = run(&format!("--json check --source {KEY} --skill echo"));
    let hint: Value = serde_json::from_str(&hint.stdout).unwrap();
    assert_eq!(hint["if_vouched"]["by"], "acl 2");
    assert_eq!(hint["if_vouched"]["issuers"][0], "did:web:issuer.example");
    assert!(run("show").all_output.contains("did:web:issuer.example"));
    let shown: Value = serde_json::from_str(&run("show --json").stdout).unwrap();
    assert_eq!(shown["trusted_issuers"][0], "did:web:issuer.example");
    std::fs::write(&path, "[policy]\ntrust = 'known'\n").unwrap();
    let nobody = run(&format!("check --source {KEY} --vouched"));
    assert!(
        nobody.all_output.contains("no credential counts here"),
        "{}",
        nobody.all_output
    );
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

/// They are shown as a daemon would have them: none starts with a variable that is called like a setting, and sets none.
#[test]
fn rules_beside_a_variable_that_would_be_relied_on_in_vain_are_not_shown() {
    let home = Home::new();
    for command in [&["show"][..], &["check", "--source", "local"]] {
        let said = std::process::Command::new(program())
            .arg("policy")
            .args(command)
            .env("HOME", home.path())
            .env("AGENTANYCAST_POLICY_TRUST", "known")
            .output()
            .unwrap();
        assert_eq!(said.status.code(), Some(2));
        let said = String::from_utf8(said.stderr).unwrap();
        assert!(said.contains("AGENTANYCAST_POLICY_TRUST"), "{said}");
    }
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
    assert!(good.status.success(), "{}", good.all_output);
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
        assert_eq!(wrong.status.code(), Some(2), "{}", wrong.all_output);
        assert!(wrong.all_output.contains(named), "{}", wrong.all_output);
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
    assert!(shown.status.success(), "{}", shown.all_output);
    for part in [
        "known",
        "friends",
        "admin/*",
        "everybody else",
        "5 tasks a second",
        "3 tasks open",
    ] {
        assert!(
            shown.all_output.contains(part),
            "{part} is missing in:\n{}",
            shown.all_output
        );
    }
    let person = run(&["policy", "check", "--source", "http:bob", "--skill", "admin/x"]);
    assert!(
        person.all_output.contains("acl 1") && person.all_output.contains("allow = false"),
        "{}",
        person.all_output
    );
    let nobody = run(&["policy", "check", "--source", "bob"]);
    assert_eq!(nobody.status.code(), Some(2), "{}", nobody.all_output);
    let alone = "no other node may send tasks here";
    assert!(!shown.all_output.contains(alone), "{}", shown.all_output);
    std::fs::write(&path, "[policy]\ntrust = \"pinned\"\n").unwrap();
    let shown = run(&["policy", "show"]);
    assert!(shown.all_output.contains(alone), "{}", shown.all_output);
    std::fs::write(&path, "[[policy.acl]]\nsource = \"opps\"\nallow = true\n").unwrap();
    let wrong = run(&["policy", "show"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        wrong.all_output.contains("opps") && wrong.all_output.contains("config.toml:1"),
        "{}",
        wrong.all_output
    );
}
