//! Clients and peers that we did not write, as they are published: the Python and the TypeScript SDK on our
//! daemon, js-libp2p against our wire protocol, and the published descriptors against our own.
//!
//! Needs what `tests/foreign/setup` makes, or what `AGENTANYCAST_TEST_PYTHON` (the python of a venv) and
//! `AGENTANYCAST_TEST_NODE_MODULES` name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod anycast;
mod compose;
mod descriptors;
mod hostile;
mod libp2p;
mod peer;
mod python;
mod registry;
mod relayed;
mod script;
mod stage;
mod typescript;
