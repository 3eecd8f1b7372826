//! Devices, constellations and hostile clients at a service, over WebSockets on the loopback.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

mod clients;
mod fixture;
mod hostile;
mod losses;
mod transfers;
