//! Whether a daemon answers, and why not: none was started, it was killed, or it is another user's.

use std::{
    io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _},
        net::UnixStream,
    },
    path::Path,
};

use agentanycast_node::config::GrpcListen;

use super::{facts::DoctorFacts, finding::Finding};
use crate::hints;

const CHECK: &str = "daemon";

/// What the daemon says of itself that other checks tell.
const REPORTED_ELSEWHERE: [&str; 3] = [
    "the settings cannot be used",
    "a damaged store",
    "another daemon runs with this node's key",
];

pub(super) fn check(facts: &DoctorFacts) -> Vec<Finding> {
    let told = match &facts.daemon {
        Ok(told) => told,
        Err(why) => return vec![away(facts, why)],
    };
    let mut findings = vec![Finding::good(CHECK, format!("it answers at {}", told.address))];
    let others = told.activity.problems.iter();
    let others = others.filter(|problem| !REPORTED_ELSEWHERE.iter().any(|start| problem.starts_with(start)));
    findings.extend(others.map(|problem| {
        Finding::problem(
            CHECK,
            problem,
            "the daemon's log says when it began; docs/operating.md says what each means",
        )
    }));
    findings
}

fn away(facts: &DoctorFacts, why: &str) -> Finding {
    let socket = facts.config().and_then(|config| match &config.grpc_listen {
        GrpcListen::Unix(path) => Some(path),
        GrpcListen::Tcp { .. } => None,
    });
    match socket.and_then(|socket| of_socket(socket)) {
        Some(finding) => finding,
        None => Finding::problem(CHECK, why, format!("`{}`", hints::command("up"))),
    }
}

/// What is wrong with a socket that nobody answers at; None: it is not there.
fn of_socket(socket: &Path) -> Option<Finding> {
    let shown = socket.display();
    let about = match std::fs::symlink_metadata(socket) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Some(Finding::problem(
                CHECK,
                format!("this user may not look for the socket {shown}"),
                "run this as the user whose daemon it is",
            ));
        }
        Err(_) => return None,
    };
    if !about.file_type().is_socket() {
        return Some(Finding::problem(
            CHECK,
            format!("{shown} is no socket, and a daemon cannot make its own there"),
            "move that file away, then start the daemon",
        ));
    }
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Some(Finding::problem(
            CHECK,
            format!(
                "the socket {shown} belongs to another user, number {}",
                about.uid()
            ),
            format!(
                "run this as that user, as with `sudo -u '#{}'`, or use a --home of your own",
                about.uid()
            ),
        ));
    }
    match UnixStream::connect(socket) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Some(Finding::problem(
            CHECK,
            format!(
                "no daemon runs; it left a stale socket {shown}, so it was killed, or the host went down"
            ),
            "start the daemon again: it replaces the socket, and tasks go on where they were",
        )),
        Ok(_) => Some(Finding::problem(
            CHECK,
            format!("somebody listens at {shown} and does not answer as a daemon does"),
            "is another program using that path? If it is a daemon that hangs, look at its log, and restart it",
        )),
        Err(_) => None,
    }
}
