//! The user's wish to stop: Ctrl-C, Ctrl-\, a polite kill, a terminal that is closed. Waited for wherever a command waits, so that
//! it ends what it has begun.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{CommandFailure, FailureCode};

/// The signals that end a command. From its making on none of them kills the process by itself.
#[derive(Debug)]
pub struct Interrupt([Signal; 4]);

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// SIGINT: what goes on shall be given up.
    Cancel,
    /// SIGTERM: this command shall end.
    End,
    /// SIGHUP: nobody sees any more what it says.
    HangUp,
    /// SIGQUIT, Ctrl-\: this command shall end.
    Quit,
}

impl StopSignal {
    /// How a command ends that was asked to.
    pub(crate) fn code(self) -> FailureCode {
        match self {
            Self::Cancel => FailureCode::Interrupted,
            Self::End => FailureCode::Terminated,
            Self::HangUp => FailureCode::HungUp,
            Self::Quit => FailureCode::Quit,
        }
    }

    /// The end of a command that was asked to end, with what is to be said of it.
    pub(crate) fn failure(self, message: impl Into<String>) -> CommandFailure {
        CommandFailure::new(self.code(), "Interrupted", message)
    }
}

impl Interrupt {
    /// From here on.
    pub fn new() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self([
            interrupt,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::quit())?,
        ]))
    }

    /// Resolves when one of them has come. May be dropped and called again.
    pub async fn wait(&mut self) {
        self.stop_signal().await;
    }

    /// Does this unless one of them comes: then nothing that has to be ended has begun, and the command ends.
    pub async fn or<T>(
        &mut self,
        work: impl Future<Output = Result<T, CommandFailure>>,
    ) -> Result<T, CommandFailure> {
        tokio::select! {
            outcome = work => outcome,
            wish = self.stop_signal() => Err(wish.failure("interrupted")),
        }
    }

    /// As [`Interrupt::wait`]; says which.
    pub(crate) async fn stop_signal(&mut self) -> StopSignal {
        let [interrupt, terminate, hangup, quit] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => StopSignal::Cancel,
            _ = terminate.recv() => StopSignal::End,
            _ = hangup.recv() => StopSignal::HangUp,
            _ = quit.recv() => StopSignal::Quit,
        }
    }
}
