//! Two nodes, their clients and their agents over a network that breaks streams, loses what was on
//! them and disconnects, on machines that crash at any point between a turn and its barrier. One
//! seed decides everything; what is checked is written from the guarantees ("Correctness
//! argument"), not from the code.
//!
//! `AGENTANYCAST_SEEDS` is the number of seeds, `AGENTANYCAST_FIRST_SEED` the first one.

mod people;
mod world;

use self::world::World;

/// Things that happen before the network heals.
const EVENTS: usize = 900;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[test]
fn whatever_breaks_every_accepted_task_ends_once_and_well() {
    let first = number("AGENTANYCAST_FIRST_SEED", 0);
    for seed in first..first + number("AGENTANYCAST_SEEDS", 300) {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..EVENTS {
                world.happen();
            }
            world.heal();
            world.check();
        });
        assert!(
            run.is_ok(),
            "AGENTANYCAST_FIRST_SEED={seed} AGENTANYCAST_SEEDS=1 shows it again"
        );
    }
}
