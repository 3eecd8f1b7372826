//! The log as a file: whole after crashes, full disks and being moved away.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::Path,
    time::{Duration, Instant},
};

use agentanycast_daemon_kit::log_capture::capture_logs;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{
    log_line::{AuditEntry, TaskOrigin},
    verify::verify,
    *,
};
use crate::policy::{Decision, DecisionReason, PolicyOutcome};

mod reserved_space;

/// Far beyond what any step takes.
const DEADLINE: Duration = Duration::from_mins(1);

fn settings(path: &Path) -> AuditSettings {
    AuditSettings {
        path: path.to_owned(),
        chain: true,
        sync: true,
    }
}

fn entry(task: &str) -> AuditEntry {
    AuditEntry {
        at: 0,
        decision: Decision {
            outcome: PolicyOutcome::Allow,
            reason: DecisionReason::NoRules,
        },
        source: "local".into(),
        seen_as: None,
        target: String::new(),
        skill: String::new(),
        task: task.into(),
        sealed_task: String::new(),
        envelope: String::new(),
        transport: TaskOrigin::Local,
    }
}

/// The lines of a log that is whole.
fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read(path).unwrap();
    verify(&*text, None, None).unwrap();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// The tasks in a log that is whole.
fn tasks(path: &Path) -> Vec<String> {
    let lines = lines(path);
    lines
        .iter()
        .filter_map(|line| Some(line["task"].as_str()?.to_owned()))
        .collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn wait(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < DEADLINE, "this did not come about: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn lines_are_written_in_order_and_the_chain_goes_on_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.jsonl");
    for round in 0..3 {
        let mut audit = Audit::start(&settings(&path)).unwrap();
        for number in 0..100 {
            audit.submit(entry(&format!("{round}-{number}")));
        }
        let awaited = audit.awaited();
        wait("all is on the disk", || audit.passed(awaited));
        assert_eq!(tasks(&path).len(), 100 * (round + 1));
    }
    let expected: Vec<String> = (0..300).map(|n| format!("{}-{}", n / 100, n % 100)).collect();
    assert_eq!(tasks(&path), expected);
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_log_that_others_could_read_is_closed_to_them_and_a_cut_line_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.jsonl");
    drop({
        let mut audit = Audit::start(&settings(&path)).unwrap();
        audit.submit(entry("one"));
        audit
    });
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"time\":\"20").unwrap();
    let mut audit = Audit::start(&settings(&path)).unwrap();
    audit.submit(entry("two"));
    drop(audit);
    assert_eq!(tasks(&path), ["one", "two"]);
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_file_that_is_no_log_is_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("key");
    for bytes in [
        &b"\x08\x01\x12\x40 a key"[..],
        b"a list\nof names",
        b"a list\nof names\n",
        b"{}\n",
        b"{\"a\":1}",
    ] {
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = Audit::start(&settings(&path)).map(drop).unwrap_err();
        assert!(refused.to_string().contains("is no audit log"), "{refused}");
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (bytes.to_vec(), 0o644));
    }
}

#[test]
fn a_log_that_was_moved_away_goes_on_in_a_new_file() {
    let home = tempfile::tempdir().unwrap();
    let (path, old) = (home.path().join("audit.jsonl"), home.path().join("audit.jsonl.1"));
    let mut audit = Audit::start(&settings(&path)).unwrap();
    audit.submit(entry("one"));
    wait("it is written", || audit.passed(1));
    fs::rename(&path, &old).unwrap();
    audit.reopener().unwrap().reopen();
    wait("a new one is there", || path.exists());
    audit.submit(entry("two"));
    drop(audit);
    assert_eq!(
        (tasks(&old), tasks(&path)),
        (vec!["one".to_owned()], vec!["two".to_owned()])
    );
    let first = verify(&*fs::read(&old).unwrap(), None, None).unwrap();
    let second = verify(&*fs::read(&path).unwrap(), Some(&first), None).unwrap();
    assert_eq!(second.first_prev, first.last);
}

/// Where no new file can be made, lines go on into the old one, and that is told until it is mended.
#[test]
fn a_log_that_cannot_be_reopened_is_told_and_opened_when_it_can_be() {
    let home = tempfile::tempdir().unwrap();
    let (place, away) = (home.path().join("log"), home.path().join("away"));
    fs::create_dir(&place).unwrap();
    let path = place.join("audit.jsonl");
    let mut audit = Audit::start(&settings(&path)).unwrap();
    fs::rename(&place, &away).unwrap();
    audit.reopener().unwrap().reopen();
    let state = audit.state();
    let unopened = || state.borrow().unopened.clone();
    wait("it is told", || unopened().is_some());
    audit.submit(entry("one"));
    wait("it is written", || audit.passed(1));
    assert_eq!(audit.problem(), None, "lines are written: nobody is turned away");
    let trouble = unopened().unwrap();
    assert!(trouble.contains("cannot be opened again"), "{trouble}");
    fs::create_dir(&place).unwrap();
    wait("it is well again", || unopened().is_none());
    audit.submit(entry("two"));
    drop(audit);
    assert_eq!(tasks(&away.join("audit.jsonl")), ["one"]);
    assert_eq!(tasks(&path), ["two"]);
}

/// What lies at the path when the log is to be opened again, and is none, is no place for lines.
#[test]
fn a_file_that_is_no_log_is_not_taken_when_the_log_is_reopened() {
    let home = tempfile::tempdir().unwrap();
    let (path, old) = (home.path().join("audit.jsonl"), home.path().join("audit.jsonl.1"));
    let mut audit = Audit::start(&settings(&path)).unwrap();
    audit.submit(entry("one"));
    wait("it is written", || audit.passed(1));
    fs::rename(&path, &old).unwrap();
    let foreign = "a list\nof names\n";
    fs::write(&path, foreign).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    audit.reopener().unwrap().reopen();
    let state = audit.state();
    let unopened = || state.borrow().unopened.clone();
    wait("it is told", || unopened().is_some());
    let trouble = unopened().unwrap();
    assert!(trouble.contains("is no audit log"), "{trouble}");
    for (number, task) in ["two", "three"].into_iter().enumerate() {
        audit.submit(entry(task));
        wait("it is written", || audit.passed(2 + number as u64));
    }
    assert_eq!(audit.problem(), None);
    assert_eq!(
        (fs::read_to_string(&path).unwrap(), mode(&path)),
        (foreign.to_owned(), 0o644)
    );
    assert_eq!(tasks(&old), ["one", "two", "three"]);
    let second = Audit::start(&settings(&old)).map(drop).unwrap_err();
    assert!(second.to_string().contains("another process"), "{second}");
    fs::remove_file(&path).unwrap();
    wait("it is opened by its retry", || unopened().is_none());
    audit.submit(entry("four"));
    drop(audit);
    assert_eq!((tasks(&path), tasks(&old).len()), (vec!["four".to_owned()], 3));
}

/// What is no regular file may keep nothing, or keep the log waiting for ever.
#[test]
fn only_a_regular_file_is_taken_when_the_log_is_reopened() {
    let pipe = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let device = |path: &Path| std::os::unix::fs::symlink("/dev/null", path).unwrap();
    let socket = |path: &Path| drop(UnixListener::bind(path).unwrap());
    let directory = |path: &Path| fs::create_dir(path).unwrap();
    type Make<'a> = &'a dyn Fn(&Path);
    let places: [(Make<'_>, bool); 4] = [
        (&pipe, false),
        (&device, true),
        (&socket, false),
        (&directory, false),
    ];
    for (place, may_be_named) in places {
        let home = tempfile::tempdir().unwrap();
        let (path, old) = (home.path().join("audit.jsonl"), home.path().join("audit.jsonl.1"));
        let mut audit = Audit::start(&settings(&path)).unwrap();
        fs::rename(&path, &old).unwrap();
        place(&path);
        audit.reopener().unwrap().reopen();
        let state = audit.state();
        wait("it is told", || state.borrow().unopened.is_some());
        let why = state.borrow().unopened.clone().unwrap();
        assert!(why.contains("is no regular file"), "{why}");
        audit.submit(entry("one"));
        drop(audit);
        assert_eq!(tasks(&old), ["one"]);
        // A device that is named at the start is meant.
        let started = Audit::start(&settings(&path)).map(drop);
        assert_eq!(started.is_ok(), may_be_named);
        let told = started.map_or_else(|error| error.to_string(), |()| why);
        assert!(told.contains("is no regular file"), "{told}");
    }
}

/// Lines in a file that has no name any more nobody would read.
#[test]
fn a_log_that_was_deleted_goes_on_in_a_new_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.jsonl");
    let mut audit = Audit::start(&settings(&path)).unwrap();
    audit.submit(entry("one"));
    wait("it is written", || audit.passed(1));
    let first = verify(&*fs::read(&path).unwrap(), None, None).unwrap();
    fs::remove_file(&path).unwrap();
    audit.submit(entry("two"));
    wait("it is written", || audit.passed(2));
    assert_eq!((tasks(&path), mode(&path)), (vec!["two".to_owned()], 0o600));
    let second = verify(&*fs::read(&path).unwrap(), Some(&first), None).unwrap();
    assert_eq!(second.first_prev, first.last);
    assert_eq!(
        *audit.state().borrow(),
        AuditState {
            passed: 2,
            ..AuditState::default()
        }
    );
}

/// Rotation has moved it away, no new file could be made, and then the old one is deleted: there is no log.
#[test]
fn a_log_that_was_deleted_and_cannot_be_made_again_cannot_be_written() {
    let home = tempfile::tempdir().unwrap();
    let (place, away) = (home.path().join("log"), home.path().join("away"));
    fs::create_dir(&place).unwrap();
    let path = place.join("audit.jsonl");
    let mut audit = Audit::start(&settings(&path)).unwrap();
    audit.submit(entry("one"));
    wait("it is written", || audit.passed(1));
    let first = verify(&*fs::read(&path).unwrap(), None, None).unwrap();
    fs::rename(&place, &away).unwrap();
    audit.reopener().unwrap().reopen();
    let state = audit.state();
    wait("it is told", || state.borrow().unopened.is_some());
    assert_eq!(audit.problem(), None);
    fs::remove_file(away.join("audit.jsonl")).unwrap();
    wait("that is told before there is a line", || {
        audit.problem().is_some()
    });
    let trouble = audit.problem().unwrap();
    assert!(trouble.contains("cannot be written: it was deleted"), "{trouble}");
    assert_eq!(state.borrow().any_problem(), Some(&*trouble));
    audit.submit(entry("two"));
    wait("nobody waits for it", || audit.passed(2));
    assert!(audit.problem().is_some());
    fs::create_dir(&place).unwrap();
    wait("it is well again", || state.borrow().any_problem().is_none());
    audit.submit(entry("three"));
    drop(audit);
    assert_eq!(tasks(&path), ["two", "three"]);
    let second = verify(&*fs::read(&path).unwrap(), Some(&first), None).unwrap();
    assert_eq!(second.first_prev, first.last);
}

/// Without SIGHUP: that it goes on in the file that was open would not be so.
#[test]
fn of_a_log_that_was_deleted_nothing_else_is_told() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("log");
    fs::create_dir(&place).unwrap();
    let mut audit = Audit::start(&settings(&place.join("audit.jsonl"))).unwrap();
    fs::remove_dir_all(&place).unwrap();
    audit.submit(entry("one"));
    wait("it is told", || audit.problem().is_some());
    assert_eq!(audit.state().borrow().unopened, None);
}

/// The chain is in the new file before anything is decided: who starts next finds it there.
#[test]
fn a_chain_goes_on_over_a_rotation_and_a_restart_before_the_next_line() {
    let home = tempfile::tempdir().unwrap();
    let at = |number: u8| home.path().join(format!("audit.jsonl.{number}"));
    let path = home.path().join("audit.jsonl");
    let rotate = |audit: &Audit, number| {
        fs::rename(&path, at(number)).unwrap();
        audit.reopener().unwrap().reopen();
        wait("a new one is there", || path.exists());
    };
    let mut audit = Audit::start(&settings(&path)).unwrap();
    rotate(&audit, 1);
    assert_eq!(fs::read(&path).unwrap(), b"", "there is no chain yet");
    audit.submit(entry("one"));
    wait("it is written", || audit.passed(1));
    rotate(&audit, 2);
    wait("it goes on", || lines(&path).len() == 1);
    rotate(&audit, 3);
    wait("it goes on", || lines(&path).len() == 1);
    drop(audit);
    let mut audit = Audit::start(&settings(&path)).unwrap();
    audit.submit(entry("two"));
    let awaited = audit.awaited();
    wait("only decisions are awaited", || audit.passed(awaited));
    drop(audit);
    let words = |path: &Path| -> Vec<String> {
        let lines = lines(path);
        let words = lines
            .iter()
            .map(|line| line["decision"].as_str().unwrap().to_owned());
        words.collect()
    };
    assert_eq!(
        (words(&at(2)), words(&at(3))),
        (vec!["allow".to_owned()], vec!["continued".to_owned()])
    );
    assert_eq!(words(&path), ["continued", "allow"]);
    let mut whole = verify(&*fs::read(at(2)).unwrap(), None, None).unwrap();
    for path in [&at(3), &path] {
        let next = verify(&*fs::read(path).unwrap(), Some(&whole), None).unwrap();
        whole = whole.then(next);
    }
    assert_eq!((whole.lines, whole.chained), (4, 4));
}

/// Where lines are not chained, nothing has to go on.
#[test]
fn a_new_file_without_a_chain_is_empty() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.jsonl");
    let plain = AuditSettings {
        chain: false,
        ..settings(&path)
    };
    let mut audit = Audit::start(&plain).unwrap();
    audit.submit(entry("one"));
    wait("it is written", || audit.passed(1));
    fs::rename(&path, home.path().join("old")).unwrap();
    audit.reopener().unwrap().reopen();
    wait("a new one is there", || path.exists());
    drop(audit);
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn a_log_has_one_writer() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.jsonl");
    let audit = Audit::start(&settings(&path)).unwrap();
    let second = Audit::start(&settings(&path)).map(drop).unwrap_err();
    assert!(second.to_string().contains("another process"), "{second}");
    // Reopening what is still there does not meet its own lock.
    audit.reopener().unwrap().reopen();
    drop(audit);
    Audit::start(&settings(&path)).unwrap();
}

/// `/dev/full` takes no byte: what is awaited passes, and the trouble is told; nothing hangs, also not the end.
#[test]
fn a_full_disk_is_told_and_holds_nobody_up() {
    let mut audit = Audit::start(&settings(Path::new("/dev/full"))).unwrap();
    assert_eq!(audit.problem(), None);
    audit.submit(entry("one"));
    let awaited = audit.awaited();
    wait("nobody waits any longer", || audit.passed(awaited));
    let trouble = audit.problem().unwrap();
    assert!(
        trouble.contains("/dev/full") && trouble.contains("No space"),
        "{trouble}"
    );
    // Lines beyond what may wait are counted, and the log is stuck long before.
    for number in 0..2 * MAX_WAITING {
        audit.submit(entry(&number.to_string()));
    }
    assert!(audit.shared.lost.load(Ordering::Relaxed) > 0);
}

/// A disk that is full for a while: nothing is lost, nothing is doubled, and no line is torn.
#[test]
fn what_could_not_be_written_is_written_later() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.jsonl");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let mut audit = Audit::start(&settings(&path)).unwrap();
    audit.submit(entry("one"));
    wait("it fails", || audit.problem().is_some());
    audit.submit(entry("two"));
    fs::remove_file(&path).unwrap();
    audit.reopener().unwrap().reopen();
    wait("it is well again", || audit.problem().is_none());
    audit.submit(entry("three"));
    drop(audit);
    assert_eq!(tasks(&path), ["one", "two", "three"]);
}

/// A log of which the disk did not take the line that was written last.
fn unsynced(path: &Path) -> (Audit, AuditWriter) {
    let (mut audit, mut writer) = Audit::open(&settings(path)).unwrap();
    audit.submit(entry("one"));
    assert!(writer.gather());
    let (written, done) = writer.file.append(&writer.buffer);
    done.unwrap();
    writer.synced(written, Err(io::Error::other("the disk failed")), Ok(()));
    assert!(audit.passed(1) && audit.problem().unwrap().contains("the disk failed"));
    (audit, writer)
}

#[test]
fn what_could_not_be_synced_is_written_anew() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.jsonl");
    let (mut audit, writer) = unsynced(&path);
    assert_eq!(fs::read(&path).unwrap(), b"");
    audit.spawn(writer).unwrap();
    wait("it is well again", || audit.problem().is_none());
    assert_eq!(tasks(&path), ["one"]);
}

/// At the end there is no other time: the lines that are there stay.
#[test]
fn what_could_not_be_synced_at_the_end_is_not_taken_away() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.jsonl");
    let (mut audit, mut writer) = Audit::open(&settings(&path)).unwrap();
    audit.submit(entry("one"));
    assert!(writer.gather());
    let (written, done) = writer.file.append(&writer.buffer);
    done.unwrap();
    writer.shared.closing.store(true, Ordering::Release);
    writer.synced(written, Err(io::Error::other("the disk failed")), Ok(()));
    assert!(writer.buffer.is_empty() && audit.problem().is_some());
    assert_eq!(tasks(&path), ["one"]);
}

/// From a device nothing can be taken back. It is synced again, whether or not another line comes.
#[test]
fn what_could_not_be_synced_nor_taken_back_is_synced_later() {
    let (mut audit, writer) = unsynced(Path::new("/dev/null"));
    assert!(writer.buffer.is_empty());
    audit.spawn(writer).unwrap();
    wait("it is well again", || audit.problem().is_none());
}

/// What found no place to wait is counted in the log when there is room, whether or not anything is decided then.
#[test]
fn what_was_lost_is_said_when_there_is_room() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.jsonl");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let mut audit = Audit::start(&settings(&path)).unwrap();
    for number in 0..2 * MAX_WAITING {
        audit.submit(entry(&number.to_string()));
    }
    assert!(audit.problem().is_some());
    fs::remove_file(&path).unwrap();
    audit.reopener().unwrap().reopen();
    wait("it is well again", || audit.problem().is_none());
    let is_said = || fs::read_to_string(&path).is_ok_and(|text| text.contains("\"decision\":\"lost\""));
    wait("it is said", is_said);
    let awaited = audit.awaited();
    wait("only decisions are awaited", || audit.passed(awaited));
    drop(audit);
    let (lines, tasks) = (lines(&path), tasks(&path).len());
    let lost = lines.last().unwrap()["count"].as_u64().unwrap();
    assert_eq!(tasks as u64 + lost, 2 * MAX_WAITING as u64);
    assert_eq!(lines.len(), tasks + 1, "it is said once");
    assert_eq!(awaited, tasks as u64);
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    assert!(Audit::start(&settings(home.path())).is_err());
    assert!(Audit::start(&settings(&home.path().join("no/such"))).is_err());
}
