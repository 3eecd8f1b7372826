//! Who kills: the blows of a round are drawn before it, and fall when so much has happened in it, so that
//! every moment of a task's way is met.

use std::{path::Path, process::Stdio, time::Duration};

use agentanycast_tests::{Daemon, DaemonPair, within};
use rand::{RngExt as _, rngs::StdRng};

use super::history::CrashHistory;

/// About how much happens for each task of a round: sent, handed over, claimed, progress, completed, seen.
const HAPPENINGS: u64 = 9;

/// The blows of a round.
#[derive(Debug)]
pub(super) struct KillPlan(Vec<KillStep>);

/// One blow.
#[derive(Debug)]
struct KillStep {
    /// When so much has happened.
    after: u64,
    /// And then this long: less than most calls take.
    pause: Duration,
    sender: Option<Downtime>,
    receiver: Option<Downtime>,
}

/// What befalls one daemon.
#[derive(Debug)]
struct Downtime {
    /// How long it is dead.
    dead: Duration,
    /// Starts that are cut short after this long, before the one that lasts.
    short_lives: Vec<Duration>,
}

impl KillPlan {
    /// One to three blows.
    pub(super) fn draw(dice: &mut StdRng, tasks: usize) -> Self {
        let mut moments: Vec<u64> = (0..dice.random_range(1..=3))
            .map(|_| dice.random_range(0..tasks as u64 * HAPPENINGS))
            .collect();
        moments.sort_unstable();
        let blow = |after| {
            let whom = dice.random_range(0..5);
            KillStep {
                after,
                pause: Duration::from_micros(dice.random_range(0..5000)),
                sender: (whom != 0 && whom != 1).then(|| Downtime::draw(dice)),
                receiver: (whom != 2 && whom != 3).then(|| Downtime::draw(dice)),
            }
        };
        Self(moments.into_iter().map(blow).collect())
    }

    /// Lets the blows fall; at the end of the round at the latest.
    pub(super) async fn carry_out(self, pair: &mut DaemonPair, ledger: &CrashHistory) {
        let mut happenings = ledger.happenings.subscribe();
        for blow in self.0 {
            let enough = |count: &u64| *count >= blow.after;
            let _ = within("something happens", happenings.wait_for(enough)).await;
            tokio::time::sleep(blow.pause).await;
            ledger.count(|figures| {
                figures.sender_kills += usize::from(blow.sender.is_some());
                figures.receiver_kills += usize::from(blow.receiver.is_some());
            });
            tokio::join!(
                strike(&mut pair.alice, blow.sender, ledger),
                strike(&mut pair.bob, blow.receiver, ledger),
            );
        }
    }
}

impl Downtime {
    fn draw(dice: &mut StdRng) -> Self {
        let short_lives = if dice.random_ratio(1, 3) {
            dice.random_range(1..3)
        } else {
            0
        };
        Self {
            dead: Duration::from_millis(dice.random_range(0..200)),
            short_lives: (0..short_lives)
                .map(|_| Duration::from_micros(dice.random_range(0..100_000)))
                .collect(),
        }
    }
}

/// Kills a daemon and starts it again; its store must open as it was.
async fn strike(daemon: &mut Daemon, fate: Option<Downtime>, ledger: &CrashHistory) {
    let Some(fate) = fate else { return };
    daemon.kill().await;
    tokio::time::sleep(fate.dead).await;
    let spec = daemon.stopped();
    for life in fate.short_lives {
        let mut command = spec.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        tokio::time::sleep(life).await;
        child.kill().await.unwrap();
        ledger.count(|figures| figures.kills_while_starting += 1);
    }
    daemon.restart().await;
    ledger.count(|figures| figures.starts += 1);
    nothing_put_aside(&daemon.home().path().join("data"));
}

/// No damaged store was moved out of the way to begin an empty one.
fn nothing_put_aside(data: &Path) {
    for entry in std::fs::read_dir(data).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(!name.to_string_lossy().contains("corrupt"), "{}", name.display());
    }
}
