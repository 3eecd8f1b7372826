//! The terminal while a command waits: what is typed is not shown, and waits in the terminal for the program
//! that reads next, with all its letters. Ctrl-D on an empty line leaves the wait. Ctrl-C, Ctrl-\ and Ctrl-Z go
//! on to work.
//!
//! The invariant: dropping it gives the terminal back as it was, whatever mode it is in by then; so does
//! `job_control` while the process is stopped.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    time::Duration,
};

use rustix::{
    fs::OFlags,
    io::ioctl_fionread,
    stdio::stdin,
    termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr},
};

use crate::job_control::{self, in_foreground};

/// How often the terminal is looked at: for Ctrl-D, and for its mode, which a shell changes when the command
/// goes on in the foreground.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The terminal that is typed at.
#[derive(Debug)]
pub(crate) struct TypeAhead {
    /// How the terminal was before; None until it was changed.
    before: Option<Termios>,
    /// The terminal once more: reading it does not wait.
    terminal: Option<File>,
}

impl TypeAhead {
    /// None: there is no terminal to type at.
    pub(crate) fn new() -> Option<Self> {
        let mut typed = io::stdin().is_terminal().then_some(Self {
            before: None,
            terminal: None,
        })?;
        job_control::watch();
        typed.hide();
        Some(typed)
    }

    /// Resolves when Ctrl-D is typed. May be dropped and called again.
    pub(crate) async fn left(&mut self) {
        if self.terminal.is_none() {
            self.terminal = terminal().ok();
        }
        loop {
            let is_hidden = self.hide();
            if is_hidden && self.terminal.as_ref().is_some_and(has_end) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Forgets what was typed so far.
    pub(crate) fn forget(self) {
        if in_foreground() {
            // What cannot be forgotten is read as if it were typed later.
            let _ = tcflush(stdin(), QueueSelector::IFlush);
        }
        // The terminal shows again what is typed.
        drop(self);
    }

    /// Has the terminal not show what is typed; whether it does so. In the background, where asking would
    /// stop this process, it is not asked; what the shell has changed meanwhile is changed again.
    fn hide(&mut self) -> bool {
        if !in_foreground() {
            return false;
        }
        let Ok(now) = tcgetattr(stdin()) else {
            return false;
        };
        if !now.local_modes.contains(LocalModes::ICANON) {
            return false;
        }
        if !now.local_modes.contains(LocalModes::ECHO) {
            return true;
        }
        let mut hidden = now.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        job_control::changed(self.before.get_or_insert(now));
        tcsetattr(stdin(), OptionalActions::Now, &hidden).is_ok()
    }
}

/// The terminal, opened so that reading it does not wait.
fn terminal() -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = File::options();
    options
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open("/dev/tty")
}

/// Takes a Ctrl-D that was typed on an empty line, if there is nothing before it.
fn has_end(mut terminal: &File) -> bool {
    ioctl_fionread(terminal) == Ok(0) && matches!(terminal.read(&mut [0]), Ok(0))
}

impl Drop for TypeAhead {
    fn drop(&mut self) {
        let Some(before) = self.before.take() else { return };
        job_control::given_back();
        if in_foreground() {
            // A terminal that is gone needs nothing.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
        }
    }
}
