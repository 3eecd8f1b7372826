//! The end of what was written last is missing, as a crash leaves it: what was there at the last clean stop is
//! still there, all of it.
//!
//! Whatever differs between the files of a daemon that has just started and those of the same daemon killed a
//! moment later was written in between; of that, the end is cut off or blank. Which file that is, is the
//! store's affair.

use std::{
    fs,
    path::{Path, PathBuf},
};

use agentanycast_tests::{Daemon, DaemonBuilder, daemon::Home};

use super::{
    AcceptedTasks,
    damage::{copy_of, files_of},
    has_not_panicked, moved_aside,
};

/// Parts of what was written last that are lost, in thousandths.
const LOST: [u64; 4] = [1, 200, 700, 1000];

/// Where a file was written to in between.
struct WrittenRange {
    file: PathBuf,
    from: usize,
    to: usize,
    grown: bool,
}

fn written_between(before: &Path, after: &Path) -> Vec<WrittenRange> {
    let mut found = Vec::new();
    for file in files_of(after) {
        let now = fs::read(after.join(&file)).unwrap();
        let then = fs::read(before.join(&file)).unwrap_or_default();
        let common = now.len().min(then.len());
        let from = (0..common).find(|&at| now[at] != then[at]).unwrap_or(common);
        let to = if now.len() > then.len() {
            now.len()
        } else {
            (0..common)
                .rfind(|&at| now[at] != then[at])
                .map_or(from, |at| at + 1)
        };
        if to > from {
            found.push(WrittenRange {
                file,
                from,
                to,
                grown: now.len() > then.len(),
            });
        }
    }
    found
}

fn lose(written: &WrittenRange, data: &Path, thousandths: u64) {
    let path = data.join(&written.file);
    let mut bytes = fs::read(&path).unwrap();
    let lost = ((written.to - written.from) as u64 * thousandths).div_ceil(1000) as usize;
    if written.grown {
        bytes.truncate(written.to - lost);
    } else {
        bytes[written.to - lost..written.to].fill(0);
    }
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn what_a_clean_stop_left_survives_a_lost_tail() {
    let mut daemon = Daemon::builder().start().await;
    let mut early = AcceptedTasks::default();
    let mut rpc = daemon.rpc().await;
    for _ in 0..40 {
        early.send(&mut rpc, daemon.peer_id(), 3_000).await.unwrap();
    }
    daemon.stop().await;
    daemon.restart().await;
    let before: Home = copy_of(daemon.home());
    let mut late = AcceptedTasks::default();
    let mut rpc = daemon.rpc().await;
    for _ in 0..20 {
        late.send(&mut rpc, daemon.peer_id(), 3_000).await.unwrap();
    }
    daemon.kill().await;
    let data = |home: &Home| home.path().join("data");
    let written = written_between(&data(&before), &data(daemon.home()));
    assert!(!written.is_empty(), "nothing was written");
    for written in &written {
        for thousandths in LOST {
            let home = copy_of(daemon.home());
            lose(written, &data(&home), thousandths);
            let again = DaemonBuilder::new(home).start().await;
            let aside = moved_aside(&data(again.home()));
            assert!(
                aside.is_empty(),
                "{} less {thousandths}: put aside",
                written.file.display()
            );
            eprintln!(
                "{} {}..{} less {thousandths} thousandths: {} of {} later ones are there",
                written.file.display(),
                written.from,
                written.to,
                late.found_at(&again).await,
                late.0.len()
            );
            early.is_kept_by(&again).await;
            has_not_panicked(&again.log_tail());
        }
    }
}
