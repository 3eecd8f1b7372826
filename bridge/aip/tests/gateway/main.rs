//! The gateway before a remembering node, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod constellations;
mod devices;
mod files;
mod fixture;
mod foreign;
mod keys;
mod planner;
mod routes;
mod scripted;
mod silent_device;
mod strangers;
