//! Envelopes and clients as others make them, in Python and JavaScript. `tests/foreign/setup` makes what they need.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use agentanycast_uamp::{
    canonical::canonical_without,
    delta::Delta,
    envelope::{Envelope, Intent},
    jws::{SignatureForm, SigningIdentity, VerificationKey},
};
use serde_json::{Value, json};

use crate::{
    bindings::whole,
    fixture::{TOKEN, TestGateway, draft, gateway_identity, http},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/foreign")
}

/// Whether there are the programs of others. A test that they have to be there for says so aloud.
fn is_prepared() -> bool {
    let there = root().join("uamp/.venv").exists() && root().join("node/node_modules/jose").exists();
    if !there {
        let required = std::env::var_os("AGENTANYCAST_REQUIRE_LAB").is_some_and(|value| value == "1");
        assert!(!required, "run tests/foreign/setup");
        eprintln!("SKIPPED: run tests/foreign/setup first");
    }
    there
}

fn python() -> Command {
    let directory = root().join("uamp");
    let mut command = Command::new(directory.join(".venv/bin/python"));
    command.current_dir(directory);
    command
}

fn node() -> Command {
    let mut command = Command::new("node");
    command.current_dir(root().join("node"));
    command
}

/// What a program prints that reads this.
fn run(command: &mut Command, input: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run tests/foreign/setup");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?} failed");
    String::from_utf8(output.stdout).unwrap()
}

/// Verifies what others signed.
fn verify(entries: &str) {
    let entries: Vec<Value> = serde_json::from_str(entries).unwrap();
    assert_eq!(entries.len(), 4);
    for entry in entries {
        let raw = entry["envelope"].to_string();
        let envelope = Envelope::read(raw.as_bytes(), 1 << 20).unwrap();
        let canonical = canonical_without(envelope.object(), "sig").unwrap();
        assert_eq!(
            String::from_utf8(canonical).unwrap(),
            entry["canonical"].as_str().unwrap()
        );
        let key = VerificationKey::from_jwk(&entry["jwk"]).unwrap();
        envelope.verify(&key).unwrap();
        let named = agentanycast_uamp::did_key::key_of_did(envelope.from());
        assert_eq!(named, Some(key), "they write a did:key as we do");
    }
}

/// What we sign, for others to verify.
fn signed_here() -> String {
    let identities = [
        SigningIdentity::from_ed25519(&[3; 32]),
        SigningIdentity::from_p256(&[3; 32]).unwrap(),
    ];
    let mut entries = Vec::new();
    for identity in identities {
        for form in [SignatureForm::Detached, SignatureForm::Attached] {
            let mut draft = draft(Intent::Ask, "2+2 \u{1f600}");
            draft.delta_window = Some(7);
            let numbers = json!([
                0.0,
                -0.0,
                1e30,
                1e21,
                5e-324,
                333_333_333.333_333_3,
                4.5,
                100.0,
                (1_u64 << 53) - 1
            ]);
            let letters = "\u{20ac}$\u{f}\nA'B\"\\\"/\u{7f}\u{2028}\u{1f600}\u{fb33}";
            let names = json!({ "\u{1f600}": 1, "\u{fb33}": { "\r": 1, "": 2, "\u{80}": 3 } });
            for (name, value) in [("x-n", numbers), ("x-l", letters.into()), ("x-k", names)] {
                draft.ext.insert(name.to_owned(), value);
            }
            let object = draft.sign(&identity, form).unwrap();
            let canonical = String::from_utf8(canonical_without(&object, "sig").unwrap()).unwrap();
            let jwk = identity.verification_key().to_jwk(identity.kid());
            entries.push(json!({ "envelope": object, "jwk": jwk, "canonical": canonical }));
        }
    }
    Value::Array(entries).to_string()
}

#[test]
#[ignore = "long: signers of others, which tests/foreign/setup makes"]
fn envelopes_go_both_ways_with_python() {
    if !is_prepared() {
        return;
    }
    verify(&run(python().args(["signer.py", "sign"]), ""));
    assert_eq!(
        run(python().args(["signer.py", "verify"]), &signed_here()).trim(),
        "verified 4"
    );
}

#[test]
#[ignore = "long: signers of others, which tests/foreign/setup makes"]
fn envelopes_go_both_ways_with_javascript() {
    if !is_prepared() {
        return;
    }
    verify(&run(node().args(["uamp_signer.mjs", "sign"]), ""));
    assert_eq!(
        run(node().args(["uamp_signer.mjs", "verify"]), &signed_here()).trim(),
        "verified 4"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: clients of others, which tests/foreign/setup makes"]
async fn clients_of_each_binding_hear_the_same() {
    if !is_prepared() {
        return;
    }
    let gateway = TestGateway::start().await;
    let http = http(false);
    for text in ["2+2", "chunks 20 9000", "fail", "reject"] {
        let path = gateway.ask(&http, &draft(Intent::Ask, text)).await;
        let wanted = whole(&gateway.events(&http, &path, None).await.rest().await);
        for binding in ["websocket", "http3", "grpc"] {
            let mut command = python();
            command.args([
                "converse.py",
                binding,
                "localhost",
                &gateway.address().port().to_string(),
            ]);
            command
                .arg(gateway.certificate())
                .args([TOKEN, gateway_identity().did(), text]);
            let said = tokio::task::spawn_blocking(move || run(&mut command, ""))
                .await
                .unwrap();
            let said: Vec<Value> = serde_json::from_str(&said).unwrap();
            let deltas: Vec<Delta> = said
                .iter()
                .map(|delta| Delta::from_value(delta).unwrap())
                .collect();
            assert_eq!(whole(&deltas), wanted, "{binding}, {text}");
        }
    }
}
