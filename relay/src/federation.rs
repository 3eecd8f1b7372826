//! Several relays as one directory. `merge` decides which of two records stands, `record` reads what another
//! relay says and checks what the peer has signed, `sync` pushes and pulls.

pub mod merge;
pub mod record;

#[cfg(test)]
mod simulation;
