//! Files of the store that are not what was written: cut, changed, empty, gone. The daemon refuses to start
//! in one line that names the place and says what to do, or puts the damaged store aside and starts empty, or
//! has everything. It never panics, never forgets who it is, and what it then answers with OK stays.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use agentanycast_tests::{
    Daemon, DaemonBuilder,
    daemon::{Home, StartFailure},
    within,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{AcceptedTasks, has_not_panicked, moved_aside, size};

/// More than the store keeps in files that are written from front to end.
const LARGE: usize = 400;

/// What was done to a file.
#[derive(Clone, Copy, Debug)]
enum StoreDamage {
    /// Only so many thousandths of it are left; 0 is an empty file.
    Cut(u64),
    /// All but its last byte is left.
    CutOne,
    Gone,
    /// So many bytes among the first ones, drawn with this seed, have changed.
    Flipped {
        count: usize,
        among: usize,
        seed: u64,
    },
}

impl StoreDamage {
    /// Those to be tried; of a large store not those that a small one shows as well.
    fn all(large: bool) -> Vec<Self> {
        let mut all = vec![Self::Cut(1), Self::Cut(330)];
        if !large {
            all.extend([Self::Cut(0), Self::Cut(900), Self::CutOne, Self::Gone]);
        }
        for seed in 0..size("AGENTANYCAST_FAULT_SEEDS", 2) {
            let (count, among) =
                [(1, usize::MAX), (2000, usize::MAX), (1, 64), (40, 4096)][seed as usize % 4];
            all.push(Self::Flipped { count, among, seed });
        }
        all
    }

    /// A file that is not there any more, or has nothing in it: nobody can take that for a crash.
    fn is_plain(self) -> bool {
        matches!(self, Self::Cut(0) | Self::Gone)
    }

    /// Whether anything has changed.
    fn inflict(self, file: &Path) -> bool {
        let bytes = fs::read(file).unwrap();
        let keep = match self {
            Self::Gone => {
                fs::remove_file(file).unwrap();
                return true;
            }
            Self::Cut(thousandths) => bytes.len() as u64 * thousandths / 1000,
            Self::CutOne => bytes.len().saturating_sub(1) as u64,
            Self::Flipped { count, among, seed } => {
                let mut bytes = bytes;
                if bytes.is_empty() {
                    return false;
                }
                let mut random = StdRng::seed_from_u64(seed);
                let among = bytes.len().min(among);
                for _ in 0..count {
                    bytes[random.random_range(0..among)] ^= random.random_range(1..=255_u8);
                }
                fs::write(file, bytes).unwrap();
                return true;
            }
        };
        let opened = fs::File::options().write(true).open(file).unwrap();
        opened.set_len(keep).unwrap();
        keep < bytes.len() as u64
    }
}

/// What the daemon made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartReaction {
    Refused,
    PutAside,
    KeptAll,
    /// It has some, and has said nothing.
    Lost(usize),
}

impl fmt::Display for StartReaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused to start"),
            Self::PutAside => f.write_str("put aside"),
            Self::KeptAll => f.write_str("nothing missing"),
            Self::Lost(count) => write!(f, "{count} tasks missing, nothing said"),
        }
    }
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The files of the database below this one, each as a path from here, without artifacts.
pub(super) fn files_of(data: &Path) -> Vec<PathBuf> {
    fn walk(at: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(data, &mut found);
    let mut files: Vec<PathBuf> = found
        .into_iter()
        .map(|path| path.strip_prefix(data).unwrap().to_owned())
        .filter(|path| !path.starts_with("artifacts"))
        .collect();
    files.sort();
    files
}

/// A new home with the key and the store of another.
pub(super) fn copy_of(home: &Home) -> Home {
    let new = Home::new();
    fs::copy(home.path().join("key"), new.path().join("key")).unwrap();
    copy(&home.path().join("data"), &new.path().join("data"));
    new
}

/// A store of 60 small tasks and, if it is to be large, of `LARGE` large ones besides.
async fn a_store_with_tasks(killed: bool, large: bool) -> (Daemon, AcceptedTasks) {
    let mut daemon = Daemon::builder().start().await;
    let mut ledger = AcceptedTasks::default();
    let mut rpc = daemon.rpc().await;
    let large = if large { LARGE } else { 0 };
    for number in 0..60 + large {
        let bytes = if number < large || number % 10 == 0 {
            70_000
        } else {
            1_000
        };
        ledger.send(&mut rpc, daemon.peer_id(), bytes).await.unwrap();
    }
    if killed {
        daemon.kill().await;
    } else {
        daemon.stop().await;
    }
    (daemon, ledger)
}

async fn react(
    sound: &Daemon,
    ledger: &AcceptedTasks,
    file: &Path,
    damage: StoreDamage,
) -> Option<StartReaction> {
    let home = copy_of(sound.home());
    let data = home.path().join("data");
    if !damage.inflict(&data.join(file)) {
        return None;
    }
    let started = DaemonBuilder::new(home.clone()).try_start().await;
    let mut daemon = match started {
        Err(StartFailure { status, log }) => {
            has_not_panicked(&log);
            assert_eq!(status.code(), Some(1), "{log}");
            let last = log.lines().last().unwrap_or_default();
            let names = last.starts_with("agentanycastd: ") && last.contains(&*data.to_string_lossy());
            assert!(names, "{log}");
            assert_eq!(
                moved_aside(&data),
                Vec::<PathBuf>::new(),
                "refused, and moved all the same"
            );
            // What the line asks for helps: with the store out of the way it starts.
            fs::rename(&data, home.path().join("data.mine")).unwrap();
            let daemon = DaemonBuilder::new(home).start().await;
            assert_eq!(daemon.peer_id(), sound.peer_id());
            return Some(StartReaction::Refused);
        }
        Ok(daemon) => daemon,
    };
    assert_eq!(daemon.peer_id(), sound.peer_id(), "it has forgotten who it is");
    let found = ledger.found_at(&daemon).await;
    let aside = moved_aside(&data);
    let log = daemon.log_tail();
    has_not_panicked(&log);
    let reaction = if let [aside] = &aside[..] {
        let named = log
            .lines()
            .any(|line| line.contains("ERROR") && line.contains(&*aside.to_string_lossy()));
        assert!(named, "no error names {}:\n{log}", aside.display());
        assert_eq!(found, 0, "put aside, and there all the same");
        StartReaction::PutAside
    } else if found == ledger.0.len() {
        StartReaction::KeptAll
    } else {
        StartReaction::Lost(ledger.0.len() - found)
    };
    // Whatever it is now, it keeps its word from here on.
    let mut after = AcceptedTasks::default();
    let mut rpc = daemon.rpc().await;
    for _ in 0..5 {
        if let Err(refusal) = after.send(&mut rpc, daemon.peer_id(), 5_000).await {
            assert!(super::is_clear(&refusal), "{refusal}");
            super::not_serving(&daemon).await;
        }
    }
    daemon.kill().await;
    let builder = daemon.stopped();
    match within("it starts again", builder.try_start()).await {
        Ok(again) => {
            // A damage that shows only now may put it aside as well, and says so.
            if moved_aside(&data).len() == aside.len() {
                after.is_kept_by(&again).await;
            }
            has_not_panicked(&again.log_tail());
        }
        Err(StartFailure { log, .. }) => has_not_panicked(&log),
    }
    Some(reaction)
}

async fn every_damage(killed: bool, large: bool) {
    let (sound, ledger) = a_store_with_tasks(killed, large).await;
    let data = sound.home().path().join("data");
    let mut table = Vec::new();
    for file in files_of(&data) {
        if large && fs::metadata(data.join(&file)).unwrap().len() < 1 << 20 {
            continue; // As in a small store.
        }
        for damage in StoreDamage::all(large) {
            if let Some(reaction) = react(&sound, &ledger, &file, damage).await {
                eprintln!("{} {damage:?}: {reaction}", file.display());
                table.push((file.clone(), damage, reaction));
            }
        }
    }
    assert!(
        table.len() >= StoreDamage::all(large).len(),
        "hardly anything was damaged: {table:?}"
    );
    assert!(
        table
            .iter()
            .any(|(_, _, reaction)| matches!(reaction, StartReaction::PutAside | StartReaction::Refused)),
        "no damage was noticed: {table:?}"
    );
    // The end of what was written last may be missing after a crash, and nobody can tell how much that was.
    let silent: Vec<_> = table
        .iter()
        .filter(|(_, damage, reaction)| matches!(reaction, StartReaction::Lost(_)) && damage.is_plain())
        .collect();
    assert!(
        silent.is_empty(),
        "something is gone, and nothing is said: {silent:?}"
    );
}

#[tokio::test]
async fn a_store_that_was_stopped_is_damaged() {
    every_damage(false, false).await;
}

#[tokio::test]
async fn a_store_that_was_killed_is_damaged() {
    every_damage(true, false).await;
}

#[tokio::test]
async fn a_large_store_is_damaged() {
    every_damage(false, true).await;
}

/// The whole database is gone, the directory around it is there: an empty node of the same name.
#[tokio::test]
async fn a_store_that_is_gone_is_begun_anew() {
    let (sound, _) = a_store_with_tasks(false, false).await;
    let home = copy_of(sound.home());
    fs::remove_dir_all(home.path().join("data")).unwrap();
    let daemon = DaemonBuilder::new(home).start().await;
    assert_eq!(daemon.peer_id(), sound.peer_id());
    let mut rpc = daemon.rpc().await;
    AcceptedTasks::default()
        .send(&mut rpc, daemon.peer_id(), 100)
        .await
        .unwrap();
}

/// What docs/operating.md advises when a store was put aside: what was put aside is made the store again,
/// without those of its files that the database makes anew.
#[tokio::test]
async fn what_was_put_aside_is_made_the_store_again() {
    let (sound, ledger) = a_store_with_tasks(true, false).await;
    let mut tried = 0;
    for file in files_of(&sound.home().path().join("data")) {
        if react(&sound, &ledger, &file, StoreDamage::Gone).await != Some(StartReaction::KeptAll) {
            continue; // Nobody can do without this one.
        }
        let home = copy_of(sound.home());
        let data = home.path().join("data");
        if !StoreDamage::Cut(330).inflict(&data.join(&file)) {
            continue;
        }
        let mut daemon = DaemonBuilder::new(home.clone()).start().await;
        daemon.stop().await;
        if let [aside] = &moved_aside(&data)[..] {
            let away = home.path().join("data.new");
            let aside = aside.strip_prefix(&data).unwrap();
            fs::rename(&data, &away).unwrap();
            fs::rename(away.join(aside), &data).unwrap();
            fs::remove_file(data.join(&file)).unwrap();
        }
        daemon.restart().await;
        ledger.is_kept_by(&daemon).await;
        tried += 1;
    }
    assert!(tried > 0, "there is no such file");
}
