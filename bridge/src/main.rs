//! `agentanycast-bridge`.
fn main() {}
