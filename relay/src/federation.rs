//! Several relays as one directory. `merge` decides which of two records stands, `remote_record` reads what another
//! relay says and checks what the peer has signed, `sync_cursor` says how far each is heard and told, `sync` pushes and
//! pulls, `health` says how each of them does.

pub mod health;
pub mod merge;
pub mod remote_record;
pub mod sync;
pub mod sync_cursor;

#[cfg(test)]
mod simulation;
