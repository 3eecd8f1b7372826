//! `anycast seal` and `unseal`: a box opens with the keys that it was made between, or nothing of it is told.

use std::{error::Error, fs, path::Path};

use agentanycast_identity::{PeerId, did_key_of, load_or_create, peer_id};
use assert_cmd::{Command, assert::Assert};

fn anycast(home: &Path, arguments: &[&str], input: &[u8]) -> Assert {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anycast"));
    command.env_clear().env("HOME", home).arg("--home").arg(home);
    command.args(arguments).write_stdin(input).assert()
}

fn home() -> Result<(tempfile::TempDir, PeerId), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let key = load_or_create(&home.path().join("key"))?;
    Ok((home, peer_id(&key)))
}

fn written(assert: &Assert) -> Vec<u8> {
    assert.get_output().stdout.clone()
}

fn complaint(assert: &Assert) -> String {
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn what_is_sealed_is_opened_by_its_reader_alone() {
    let [(a, maker), (b, reader), (c, other)] = [home(), home(), home()].map(Result::unwrap);
    let content: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let file = a.path().join("report");
    fs::write(&file, &content).unwrap();
    let did = did_key_of(reader).unwrap();
    let sealed = anycast(a.path(), &["seal", "--for", &did, file.to_str().unwrap()], b"").success();
    let sealed = written(&sealed);
    assert_eq!(sealed.len(), content.len() + 40);

    let from = |peer: PeerId| peer.to_string();
    let opened = anycast(b.path(), &["unseal", "--from", &from(maker)], &sealed).success();
    assert!(written(&opened) == content);
    // Not for that one; not from that one; changed; cut; no box at all.
    let mut changed = sealed.clone();
    changed[60_000] ^= 1;
    for (home, maker, bytes) in [
        (&c, maker, &sealed[..]),
        (&b, other, &sealed),
        (&b, maker, &changed),
        (&b, maker, &sealed[..99_999]),
        (&b, maker, b"in the clear"),
        (&b, maker, b""),
    ] {
        let refused = anycast(home.path(), &["unseal", "--from", &from(maker)], bytes).code(1);
        assert!(written(&refused).is_empty());
        assert!(complaint(&refused).contains("the box cannot be opened"));
    }
    let again = anycast(a.path(), &["seal", "--for", &did], &content).success();
    assert!(written(&again) != sealed, "each box has a nonce of its own");
}

#[test]
fn a_box_for_the_key_before_a_change_opens_with_that() {
    let [(a, maker), (b, reader)] = [home(), home()].map(Result::unwrap);
    let sealed = anycast(a.path(), &["seal", "--for", &reader.to_string()], b"late").success();
    anycast(b.path(), &["key", "rotate"], b"").success();
    let from = maker.to_string();
    let sealed = written(&sealed);
    anycast(b.path(), &["unseal", "--from", &from], &sealed).code(1);
    let old = b.path().join("key.old");
    let with_old = ["unseal", "--from", &from, "--key", old.to_str().unwrap()];
    assert_eq!(written(&anycast(b.path(), &with_old, &sealed).success()), b"late");
    // Another change keeps it, and says where.
    let said = String::from_utf8(written(&anycast(b.path(), &["key", "rotate"], b"").success())).unwrap();
    let older = b.path().join("key.old.1");
    assert!(said.contains(older.to_str().unwrap()), "{said}");
    let with_older = ["unseal", "--from", &from, "--key", older.to_str().unwrap()];
    assert_eq!(
        written(&anycast(b.path(), &with_older, &sealed).success()),
        b"late"
    );
}

#[test]
fn mistakes_are_named() {
    let (a, me) = home().unwrap();
    let me = me.to_string();
    let nobody = anycast(a.path(), &["seal", "--for", "bob"], b"x").code(4);
    let said = complaint(&nobody);
    assert!(
        said.contains("--for: no peer \"bob\" is known") && !said.contains("--skill"),
        "{said}"
    );
    anycast(a.path(), &["seal", "--for", "did:key:zzz"], b"x").code(2);
    for arguments in [
        &["unseal", "--from", "bob"][..],
        &[
            "send",
            "--url",
            "https://agents.example",
            "--seal-for",
            "bob",
            "hello",
        ],
    ] {
        let said = complaint(&anycast(a.path(), arguments, b"x").code(4));
        assert!(said.contains("no peer \"bob\" is known"), "{said}");
        assert!(!said.contains("--url"), "{said}");
    }
    let nowhere = anycast(a.path(), &["seal", "--for", &me, "/no/such/file"], b"").code(2);
    assert!(complaint(&nowhere).contains("/no/such/file"));
    let empty = tempfile::tempdir().unwrap();
    let keyless = anycast(empty.path(), &["seal", "--for", &me], b"x").code(1);
    assert!(complaint(&keyless).contains("there is no key"));
    let big = a.path().join("big");
    fs::File::create(&big).unwrap().set_len((64 << 20) + 1).unwrap();
    let too_big = anycast(a.path(), &["seal", "--for", &me, big.to_str().unwrap()], b"").code(2);
    assert!(complaint(&too_big).contains("more than 64 MiB"));
}
