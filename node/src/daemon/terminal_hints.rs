//! What a person who runs the daemon in a terminal reads besides the log: what to do next, and what the end means. Silent
//! where the log goes elsewhere.

use std::io::{self, IsTerminal as _};

use agentanycast_daemon_kit::{logging, process::StartLines};

use crate::config::Config;

/// Speaks to a terminal, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct TerminalHints {
    is_terminal: bool,
}

impl TerminalHints {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            is_terminal: config.log_file.is_none() && io::stderr().is_terminal(),
        }
    }

    /// After the start. A daemon whose standard output is for MCP was started by a program.
    pub(super) fn say_ready(self, peer: impl std::fmt::Display, start_lines: StartLines) {
        if self.is_terminal && start_lines == StartLines::Stdout {
            logging::say(&format!(
                "Ready. In another terminal, `anycast demo` runs an agent here; from another host, `anycast send {peer} \
                 \"hello\"` sends it a task. Ctrl-C stops this daemon; `anycast up` runs it in the background."
            ));
        }
    }

    /// At the end.
    pub(super) fn say_stopped(self) {
        if self.is_terminal {
            logging::say(
                "Stopped. Tasks that were accepted are on disk; `anycast up` goes on with them in the background.",
            );
        }
    }
}
