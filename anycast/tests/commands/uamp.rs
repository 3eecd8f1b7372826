//! `anycast uamp sign` refuses what no gateway takes, in one line that says which value it is.

use std::path::Path;

use agentanycast_identity::load_or_create;
use assert_cmd::{Command, assert::Assert};

/// The DID of a key that exists.
const DID: &str = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";

fn sign(home: &Path, arguments: &[&str]) -> Assert {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anycast"));
    command.env_clear().env("HOME", home).arg("--home").arg(home);
    command.args(["uamp", "sign"]).args(arguments).arg("2+2").assert()
}

#[test]
fn what_no_gateway_takes_is_not_signed() {
    let home = tempfile::tempdir().unwrap();
    load_or_create(&home.path().join("key")).unwrap();
    let cut = &DID[..DID.len() - 1];
    let cases: [(&[&str], [&str; 2]); 6] = [
        (
            &["--to", "did:key:zzz"],
            ["--to \"did:key:zzz\" is not a did:key", "anycast id"],
        ),
        (
            &["--to", "did:key:zzz#calc"],
            ["--to \"did:key:zzz#calc\" is not", "anycast id"],
        ),
        (&["--to", DID, "--to", cut], [cut, "is not a did:key"]),
        (
            &["--to", DID, "--cap-token", ""],
            ["--cap-token \"\"", "leave the option out"],
        ),
        (
            &["--to", DID, "--cap-token", " "],
            ["--cap-token", "the token is empty"],
        ),
        (
            &["--to", DID, "--ext", "x-a=1", "--ext", "x-b=1", "--ext", "x-a=2"],
            ["--ext \"x-a=2\": \"x-a\" is given twice", "once"],
        ),
    ];
    for (arguments, texts) in cases {
        let refused = sign(home.path(), arguments).code(2);
        let output = refused.get_output();
        assert!(output.stdout.is_empty());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(texts.iter().all(|text| said.contains(text)), "{said}");
    }
    let to = format!("{DID}#calc");
    let taken = [
        "--to",
        &to,
        "--ext",
        "x-a=1",
        "--ext",
        "x-b=1",
        "--cap-token",
        "a.b.c",
    ];
    let signed = sign(home.path(), &taken).success();
    let envelope: serde_json::Value = serde_json::from_slice(&signed.get_output().stdout).unwrap();
    assert_eq!(envelope["to"][0], to);
    assert_eq!(envelope["ext"], serde_json::json!({"x-a": "1", "x-b": "1"}));
}
