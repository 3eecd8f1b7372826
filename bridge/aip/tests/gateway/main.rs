//! The gateway before a remembering node, over real sockets.

#![cfg(feature = "gateway")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod constellations;
mod devices;
mod files;
mod fixture;
mod foreign;
mod keys;
mod routes;
mod scripted;
mod silent_device;
mod strangers;
