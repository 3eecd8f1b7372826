//! The main road between two daemons: a task goes out, is worked on, and its end comes back. One file
//! per matter; all over the loopback, with the Rust SDK, and with bare gRPC where the SDK is too polite.

mod calls;
mod conversation;
mod ends;
mod life;
mod peers;
mod sizes;
mod stream;
