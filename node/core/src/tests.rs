//! The engine's core: directed tests of one behaviour each over a network without faults, and a
//! seeded simulation of two nodes over one with all of them ([`simulation`]).

mod access;
mod acks;
mod admission;
mod agent_end;
mod cluster;
mod decline;
mod expiry;
mod external;
mod failover;
mod faults;
mod give_back;
mod growth_bounds;
pub(crate) mod harness;
mod inspection;
mod invites;
mod key_rotation;
mod limits;
mod listing;
mod node_agents;
mod notes;
mod offered_back;
mod peer_versions;
mod sealed_tasks;
mod several_listeners;
mod simulation;
mod task_lifecycle;
mod task_ownership;
mod task_time;
