//! The relay, which is in this program.

pub(crate) use agentanycast_relay::main_with_args;
