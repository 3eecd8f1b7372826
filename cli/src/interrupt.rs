//! The user's wish to stop: Ctrl-C, a polite kill, a terminal that is closed. Waited for wherever a command waits, so that
//! it ends what it has begun.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a command. From its making on none of them kills the process by itself.
#[derive(Debug)]
pub(crate) struct Interrupt([Signal; 3]);

impl Interrupt {
    pub(crate) fn new() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self([
            interrupt,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    /// Resolves when one of them has come. May be dropped and called again.
    pub(crate) async fn wait(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
