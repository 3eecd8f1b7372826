//! Several relays as one directory. `merge` decides which of two records stands, `record` reads what another
//! relay says and checks what the peer has signed, `progress` says how far each is heard and told, `sync` pushes and
//! pulls, `health` says how each of them does.

pub mod health;
pub mod merge;
pub mod progress;
pub mod record;
pub mod sync;

#[cfg(test)]
mod simulation;
