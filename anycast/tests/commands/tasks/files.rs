//! README's line `anycast send bob @report.pdf --output .`: what is sent comes back as files, whatever kind
//! they are.

use std::fs;

use super::{RunningCommand, command, document, run};

/// Names, and what is in the files.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        (
            "report.pdf",
            [b"%PDF-1.4\n%".as_slice(), &[0xe2, 0xe3, 0, 0xff], b"\n"].concat(),
        ),
        ("notes.txt", b"one\ntwo, without an end".to_vec()),
        ("windows.txt", "\u{feff}ü\r\nb\r\n".into()),
        ("empty.txt", Vec::new()),
        ("empty", Vec::new()),
        ("x.json", b"{\"a\": [1, 2]}\n".to_vec()),
        ("Zwei Wörter (1).md", b"# Title\n".to_vec()),
        (
            "large.bin",
            (0..2_000_000_u32).map(|at| (at % 251) as u8 | 0x80).collect(),
        ),
        ("large.txt", b"all work and no play\n".repeat(100_000)),
    ]
}

#[test]
fn files_in_files_out() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (here, there) = (here.path(), there.path());
    let _daemon = RunningCommand::daemon(here);
    let _agent = RunningCommand::start(there, &["demo"]);
    let status = document(there, &["status"]);
    let peer = status["peer_id"].as_str().unwrap();
    let at = format!("{}/p2p/{peer}", status["addresses"][0].as_str().unwrap());
    let (text, code) = run(here, &["alias", "add", "bob", &at]);
    assert_eq!(code, Some(0), "{text}");
    let sent = here.join("sent");
    fs::create_dir(&sent).unwrap();
    for (number, (name, content)) in files().into_iter().enumerate() {
        fs::write(sent.join(name), &content).unwrap();
        let at = format!("@{}", sent.join(name).display());
        // Here, as README has it, and in a directory that is not there yet.
        let (directory, output) = match number % 2 {
            0 => (here.join(format!("own{number}")), "."),
            _ => (here.to_owned(), "out"),
        };
        fs::create_dir_all(&directory).unwrap();
        let done = command(here)
            .current_dir(&directory)
            .args(["send", "bob", &at, "--output", output])
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(0), "{name}: {said}");
        let back = directory.join(output).join(name);
        assert!(said.contains("wrote "), "{name}: {said}");
        let came = fs::read(&back).unwrap_or_else(|error| panic!("{name}: {error}: {said}"));
        assert!(came == content, "{name} came back otherwise");
    }
    // With --json the files are told.
    let at = format!("@{}", sent.join("notes.txt").display());
    let output = here.join("json");
    let task = document(
        here,
        &["send", "bob", &at, "said", "--output", output.to_str().unwrap()],
    );
    let saved = task.to_string();
    assert!(
        saved.contains("json/notes.txt") && saved.contains("json/echo.txt"),
        "{task:#}"
    );
    assert_eq!(fs::read_to_string(output.join("echo.txt")).unwrap(), "said");
    // What is there stays as it was.
    let id = task["task_id"]
        .as_str()
        .or(task["id"].as_str())
        .unwrap()
        .to_owned();
    let (text, code) = run(here, &["task", &id, "--output", output.to_str().unwrap()]);
    assert!(
        code == Some(0) && text.contains("notes-1.txt"),
        "{code:?}: {text}"
    );
}
