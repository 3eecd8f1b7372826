//! `anycast credential`: what is issued is what counts, and for as long as it does.

use std::{fs, path::Path};

use assert_cmd::Command;

fn anycast(home: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anycast"));
    command.env_clear().env("HOME", home).arg("--home").arg(home);
    command.args(arguments).assert()
}

fn said(assert: &assert_cmd::assert::Assert) -> String {
    let output = assert.get_output();
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

fn json(assert: &assert_cmd::assert::Assert) -> serde_json::Value {
    serde_json::from_slice(&assert.get_output().stdout).unwrap_or_default()
}

const SUBJECT: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

#[test]
fn what_is_issued_is_verified_and_a_change_is_not() {
    let home = tempfile::tempdir().unwrap();
    let key = agentanycast_identity::load_or_create(&home.path().join("key")).unwrap();
    let issuer = agentanycast_identity::did_key_of(agentanycast_identity::peer_id(&key)).unwrap();
    let file = home.path().join("credential.json");
    let path = file.to_str().unwrap();
    for suite in ["eddsa-jcs-2022", "Ed25519Signature2020"] {
        let issued = anycast(
            home.path(),
            &[
                "credential",
                "issue",
                "--subject",
                SUBJECT,
                "--capability",
                "translate",
                "--suite",
                suite,
            ],
        );
        fs::write(&file, &issued.success().get_output().stdout).unwrap();
        let checked = anycast(home.path(), &["--json", "credential", "verify", path]).success();
        let checked = json(&checked);
        assert_eq!(checked["issuer"], issuer);
        assert_eq!(checked["suite"], suite);
        assert_eq!(checked["capabilities"], serde_json::json!(["translate"]));
        assert!(checked["subject"].as_str().unwrap().starts_with("did:key:z6Mk"));
        let shown =
            said(&anycast(home.path(), &["credential", "verify", path, "--issuer", &issuer]).success());
        assert!(shown.contains("translate"), "{shown}");
        let other = anycast(
            home.path(),
            &["credential", "verify", path, "--issuer", "did:web:other.example"],
        );
        assert!(said(&other.code(1)).contains("is issued by"));
        let changed = fs::read_to_string(&file)
            .unwrap()
            .replace("translate", "everything");
        fs::write(&file, changed).unwrap();
        let refused = said(&anycast(home.path(), &["credential", "verify", path]).code(1));
        assert!(refused.contains("signature does not hold"), "{refused}");
    }
}

#[test]
fn a_mistake_is_named() {
    let home = tempfile::tempdir().unwrap();
    let issue = ["credential", "issue", "--subject"];
    let no_key = said(&anycast(home.path(), &[issue.as_slice(), &[SUBJECT]].concat()).code(1));
    assert!(no_key.contains("there is no key"), "{no_key}");
    agentanycast_identity::load_or_create(&home.path().join("key")).unwrap();
    let no_subject = said(&anycast(home.path(), &[issue.as_slice(), &["bob"]].concat()).code(2));
    assert!(no_subject.contains("\"bob\" is no subject"), "{no_subject}");
    let not_mine = [
        "--issuer",
        "did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH",
    ];
    let not_mine = said(&anycast(home.path(), &[issue.as_slice(), &[SUBJECT], &not_mine].concat()).code(1));
    assert!(not_mine.contains("issuer is not the owner"), "{not_mine}");
    let list = [
        "credential",
        "status-list",
        "--url",
        "https://a.example/1",
        "--revoke",
        "131072",
    ];
    assert!(said(&anycast(home.path(), &list).code(2)).contains("131072"));
    let list = [
        "credential",
        "status-list",
        "--url",
        "https://a.example/1",
        "--revoke",
        "7",
    ];
    let list = json(&anycast(home.path(), &list).success());
    assert_eq!(list["credentialSubject"]["type"], "BitstringStatusList", "{list}");
    fs::write(home.path().join("x"), "{}").unwrap();
    let none = home.path().join("x");
    let none = said(&anycast(home.path(), &["credential", "verify", none.to_str().unwrap()]).code(1));
    assert!(none.contains("no AgentCapabilityCredential"), "{none}");
}

/// Rules, trusted issuers and nodes compare names as they are written.
#[test]
fn a_name_with_capitals_is_refused_with_the_one_that_was_meant() {
    let home = tempfile::tempdir().unwrap();
    agentanycast_identity::load_or_create(&home.path().join("key")).unwrap();
    let issue = |subject: &str, issuer: &str| {
        let arguments = ["credential", "issue", "--subject", subject, "--issuer", issuer];
        anycast(home.path(), &arguments)
    };
    for (wrong, meant) in [
        ("did:web:Foo.example", "did:web:foo.example"),
        ("DID:web:foo.example", "did:web:foo.example"),
        ("did:web:Foo.example%3a8443:A", "did:web:foo.example%3A8443:A"),
        ("did:dns:Foo.example", "did:dns:foo.example"),
    ] {
        let by = said(&issue(SUBJECT, wrong).code(2));
        assert!(by.contains(&format!("--issuer: {wrong:?}")), "{by}");
        assert!(
            by.contains(&format!("it must be {meant}, in small letters")),
            "{by}"
        );
        let about = said(&issue(wrong, "did:web:a.example").code(2));
        assert!(about.contains(&format!("--subject: {wrong:?}")), "{about}");
        assert!(
            about.contains(&format!("it must be {meant}, in small letters")),
            "{about}"
        );
        assert_eq!(
            json(&issue(meant, "did:web:a.example").success())["credentialSubject"]["id"],
            meant
        );
    }
    let list = ["credential", "status-list", "--url", "https://a.example/1"];
    let by = said(
        &anycast(
            home.path(),
            &[list.as_slice(), &["--issuer", "did:web:A.example"]].concat(),
        )
        .code(2),
    );
    assert!(by.contains("did:web:a.example, in small letters"), "{by}");
}
