//! The room of the log: reserved ahead, given back, taken away from outside; and what is lost where there is none.

use std::os::unix::fs::MetadataExt as _;

use super::*;

/// The bytes that a file takes on its disk.
fn room(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Room for more lines is there before the first one, and a file that is left does not keep it.
#[test]
fn room_is_reserved_and_given_back() {
    let home = tempfile::tempdir().unwrap();
    let (path, old) = (home.path().join("audit.jsonl"), home.path().join("audit.jsonl.1"));
    let mut audit = Audit::start(&settings(&path)).unwrap();
    if room(&path) == 0 {
        eprintln!("skipped: this file system reserves nothing");
        return;
    }
    assert!(room(&path) >= log_file::RESERVE);
    // More than is reserved at once.
    for number in 0..10_000 {
        audit.submit(entry(&number.to_string()));
    }
    let awaited = audit.awaited();
    wait("it is written", || audit.passed(awaited));
    let length = fs::metadata(&path).unwrap().len();
    assert!(length > log_file::RESERVE && room(&path) >= length + log_file::RESERVE / 2);
    fs::rename(&path, &old).unwrap();
    audit.reopener().unwrap().reopen();
    wait("the old one is left", || {
        room(&old) < length + log_file::RESERVE / 4
    });
    wait("there is room in the new one", || {
        path.exists() && room(&path) >= log_file::RESERVE
    });
    drop(audit);
    assert!(room(&path) < log_file::RESERVE);
    assert_eq!(tasks(&old).len(), 10_000);
}

/// Somebody empties the file instead of moving it away, or cuts it in the middle of a line.
#[test]
fn a_log_that_was_cut_from_outside_is_told() {
    let home = tempfile::tempdir().unwrap();
    let (path, old) = (home.path().join("audit.jsonl"), home.path().join("audit.jsonl.1"));
    let mut audit = Audit::start(&settings(&path)).unwrap();
    let state = audit.state();
    let cut = || state.borrow().cut.clone();
    for (begin, left) in [("one", 0), ("two", 20)] {
        audit.submit(entry(begin));
        wait("it is written", || audit.passed(audit.awaited()));
        let length = fs::metadata(&path).unwrap().len();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(left).unwrap();
        audit.submit(entry("next"));
        wait("it is written", || audit.passed(audit.awaited()));
        let said = format!("{} bytes are missing", length - left);
        assert!(cut().unwrap().contains(&said), "{:?}", cut());
        assert_eq!(audit.problem(), None, "lines are written: nobody is turned away");
        assert_eq!(tasks(&path), ["next"]);
    }
    assert_eq!(state.borrow().any_problem(), cut().as_deref());
    fs::rename(&path, &old).unwrap();
    audit.reopener().unwrap().reopen();
    wait("a new file is whole", || cut().is_none());
}

/// Nothing is written between the cut and SIGHUP, after which the file is a whole one to all who look.
#[test]
fn a_log_that_was_cut_and_is_reopened_at_once_is_told() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.jsonl");
    let (mut audit, mut writer) = Audit::open(&settings(&path)).unwrap();
    audit.submit(entry("one"));
    writer.gather();
    writer.turn();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(0).unwrap();
    audit.reopener().unwrap().reopen();
    let ((), log) = capture_logs(|| writer.turn());
    assert!(log[0].contains("bytes are missing"), "{log:?}");
    assert_eq!(audit.state().borrow().any_problem(), None);
}

/// What is reserved in a file that stays what is at the path is not given up: on a disk that is full since, there is no more.
#[test]
fn a_file_that_is_opened_again_keeps_its_room() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.jsonl");
    let (mut file, _) = log_file::LogFile::open(&path, false).unwrap();
    file.reserve(0).unwrap();
    let had = file.reserved();
    file.reopen().unwrap();
    assert_eq!(file.reserved(), had);
    // The room of another file is not this one's.
    fs::rename(&path, home.path().join("moved")).unwrap();
    file.reopen().unwrap();
    assert_eq!(file.reserved(), 0);
}

/// At the end it is said how many lines are lost: those that could not be written, and those behind them.
#[test]
fn lines_that_are_lost_at_the_end_are_counted() {
    let (mut audit, mut writer) = Audit::open(&settings(Path::new("/dev/full"))).unwrap();
    for task in ["one", "two", "three"] {
        audit.submit(entry(task));
    }
    assert!(writer.gather());
    writer.turn();
    audit.submit(entry("four"));
    writer.shared.lost.fetch_add(2, Ordering::Relaxed);
    assert_eq!(writer.unwritten(), 6);
    // A line that tells of lost ones, and waits as well, is one for each of them.
    writer.shared.lost.fetch_add(5, Ordering::Relaxed);
    assert!(writer.gather());
    assert_eq!(writer.unwritten(), 3 + 2 + 5);
}
