//! Long life with a relay: two daemons that know each other by nothing but the relay, a steady stream of tasks, and the
//! receiver restarted all the time, by turns with SIGTERM and SIGKILL. No task is lost or doubled; memory, files and
//! descriptors of both daemons and the relay stay flat.
//!
//! Short by default. Two hours at 200 tasks a second, the receiver restarted each minute, with the figures as CSV and as a
//! plot:
//! `AGENTANYCAST_SOAK_RELAY_SECONDS=7200 AGENTANYCAST_SOAK_CSV=soak.csv AGENTANYCAST_SOAK_SVG=docs/soak.svg cargo test
//! --release -p anycast -p agentanycast-tests --features anycast/full --bin anycast --test robustness soak::restarts
//! -- --nocapture`
//!
//! | variable | meaning, default |
//! |---|---|
//! | `AGENTANYCAST_SOAK_RELAY_SECONDS` | how long tasks are sent; 20 |
//! | `AGENTANYCAST_SOAK_RELAY_RATE` | tasks a second; 200, in the short run 50 |
//! | `AGENTANYCAST_SOAK_RESTART` | seconds between two restarts of the receiver; 60, in the short run 5 |
//! | `AGENTANYCAST_SOAK_CSV`, `AGENTANYCAST_SOAK_SVG` | files to write all samples, and the plot of them, to; none |

use std::{path::PathBuf, sync::Arc, time::Duration};

use agentanycast_tests::{Daemon, DaemonBuilder, DaemonPair, TestRelay, daemon_pair::wait_connected};

use super::{
    LEAST_STORE, LONG,
    load::SoakLoad,
    plot,
    samples::{FlatnessLimits, RunSamples},
    variable,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: 20 s of load and restarts"]
async fn a_receiver_that_is_restarted_all_the_time_loses_and_doubles_nothing() {
    let length = Duration::from_secs(variable("RELAY_SECONDS").unwrap_or(20));
    let is_long = length >= LONG;
    let rate = variable("RELAY_RATE").unwrap_or(if is_long { 200 } else { 50 });
    let pause = Duration::from_secs(variable("RESTART").unwrap_or(if is_long { 60 } else { 5 }));
    let (csv, svg): (Option<PathBuf>, Option<PathBuf>) = (variable("CSV"), variable("SVG"));

    let relay = TestRelay::builder().start().await;
    let mut pair = DaemonPair {
        alice: behind(&relay).start().await,
        bob: behind(&relay).start().await,
    };
    let (alice, bob) = pair.nodes().await;
    let load = Arc::new(SoakLoad::default());
    let _agent = SoakLoad::agent(&bob);
    // The first task finds the receiver through the relay.
    let sending = {
        let (load, alice, peer) = (Arc::clone(&load), alice.clone(), pair.bob.peer_id().clone());
        tokio::spawn(async move { load.send(&alice, &peer, rate, length).await })
    };
    let kept = csv
        .clone()
        .or_else(|| svg.as_ref().map(|svg| svg.with_extension("csv")));
    let mut samples = RunSamples::begin(length, kept.as_deref(), Some(relay.pid()));
    let mut restarts = 0;
    while !sending.is_finished() {
        samples.take_for(pause, &pair, &load).await;
        if sending.is_finished() {
            break;
        }
        if restarts % 2 == 0 {
            pair.bob.stop().await;
        } else {
            pair.bob.kill().await;
        }
        pair.bob.restart().await;
        restarts += 1;
    }
    sending.await.unwrap();
    samples.take(&pair, &load);
    eprintln!("{}, the receiver restarted {restarts} times", load.report(length));
    assert!(restarts > 0, "the run was too short for a restart");
    // Also of a run that is found wanting.
    if let (Some(svg), Some(csv)) = (&svg, &kept) {
        let figures = std::fs::read_to_string(csv).unwrap();
        std::fs::write(svg, plot::svg(&figures)).unwrap();
    }
    load.assert_all_ended(rate, length, is_long, restarts / 2);
    wait_connected(&alice, &pair.bob).await;
    drop((alice, bob));
    let mut live = 0;
    for daemon in [&mut pair.alice, &mut pair.bob] {
        daemon.stop().await;
        live = live.max(super::live_bytes(daemon));
    }
    samples.assert_bounded(&FlatnessLimits {
        live,
        least_store: LEAST_STORE,
        ratio: 4,
    });
}

fn behind(relay: &TestRelay) -> DaemonBuilder {
    let mut daemon = Daemon::builder();
    for address in &relay.addresses {
        daemon = daemon.bootstrap(address);
    }
    daemon
}
