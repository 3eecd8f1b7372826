//! The engine's core: directed tests of one behaviour each over a network without faults, and a
//! seeded simulation of two nodes over one with all of them ([`simulation`]).

mod acks;
mod declined;
mod door;
mod ends;
mod expiry;
mod failover;
mod faults;
mod harness;
mod inspect;
mod invites;
mod lab;
mod life;
mod limits;
mod listing;
mod long_life;
mod notes;
mod offered;
mod outside;
mod peers;
mod refusals;
mod sealed;
mod simulation;
mod succession;
mod task_time;
