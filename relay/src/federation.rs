//! Several relays as one directory. `sync` pushes and pulls, `sync_cursor` says how far each is heard and told,
//! `health` says how each of them does.

pub mod health;
pub mod sync;
pub mod sync_cursor;

#[cfg(test)]
mod simulation;
