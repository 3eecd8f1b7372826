//! Single keys at the terminal while a command waits: without Enter, and not shown. Ctrl-C and Ctrl-Z go on to work.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use rustix::{
    io::read,
    process::getpgrp,
    stdio::stdin,
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};

/// How often it is looked for keys. A read that waits would hold up the end, and take what is typed next.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The terminal's keys. Dropping it gives the terminal back as it was.
#[derive(Debug)]
pub(crate) struct TerminalKeys {
    /// How the terminal was before; None until it was changed.
    before: Option<Termios>,
}

impl TerminalKeys {
    /// None: there is no terminal to type at, or none that would say what keys there are.
    pub(crate) fn new() -> Option<Self> {
        (io::stdin().is_terminal() && io::stderr().is_terminal()).then_some(Self { before: None })
    }

    /// Resolves with the next key. May be dropped and called again.
    pub(crate) async fn pressed(&mut self) -> u8 {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let mut key = [0];
            if self.take() && read(stdin(), &mut key) == Ok(1) {
                return key[0];
            }
        }
    }

    /// Makes the terminal give single keys; whether it does. In the background, where asking would stop this process, it
    /// does not; what the shell has changed meanwhile is changed again.
    fn take(&mut self) -> bool {
        if !in_foreground() {
            return false;
        }
        let Ok(now) = tcgetattr(stdin()) else {
            return false;
        };
        if !now.local_modes.contains(LocalModes::ICANON) {
            return self.before.is_some();
        }
        let mut single = now.clone();
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        single.special_codes[SpecialCodeIndex::VMIN] = 0;
        single.special_codes[SpecialCodeIndex::VTIME] = 0;
        self.before.get_or_insert(now);
        tcsetattr(stdin(), OptionalActions::Now, &single).is_ok()
    }
}

fn in_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

impl Drop for TerminalKeys {
    fn drop(&mut self) {
        if let Some(before) = self.before.take().filter(|_| in_foreground()) {
            // A terminal that is gone needs nothing.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
        }
    }
}
