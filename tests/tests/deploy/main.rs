//! What is in `deploy/`, and the images and docker-compose.yml, as far as that goes without an engine: what they say is read strictly, the
//! processes are started as it says, and the build's commands can be run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod build;
mod compose;
mod compose_up;
mod dockerfile;
mod monitoring;
mod package;
mod systemd_units;

use std::path::PathBuf;

/// The top of the repository.
fn top() -> PathBuf {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap().to_owned()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(top().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}
