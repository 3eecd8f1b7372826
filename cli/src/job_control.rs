//! Ctrl-Z while the modes of the terminal are changed: they are given back before this process stops, and set again
//! when it goes on in the foreground. Used by `type_ahead`, the editor of a chat, and `top`.
//!
//! The invariant: a process that is stopped has left the terminal as it found it. From [`watch`] on SIGTSTP is handled
//! here alone, for as long as the process lives.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::{
    process::{Pid, Signal, getpgid, getpgrp, getpid, getppid, getsid, kill_process},
    stdio::stdin,
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{output, terminal_line};

/// How often is looked whether this process is in the foreground again.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long an editor of lines may take to set its modes again, which takes Ctrl-Z by itself too: a few system calls.
const EDITOR_SETTLES: Duration = Duration::from_millis(300);

/// How long the kernel may take to stop all threads.
const STOP_TAKES: Duration = Duration::from_millis(20);

/// How the terminal was before it was changed; None: it is as it was.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether an editor reads a line.
static EDITS: AtomicBool = AtomicBool::new(false);

/// What was made of the terminal besides its modes, and how that is taken back and made again.
static SEQUENCES: Mutex<Option<ScreenSequences>> = Mutex::new(None);

/// Has the editor draw its line again.
static REDRAW: Mutex<Option<Redraw>> = Mutex::new(None);

/// Draws again what was on the screen.
pub(crate) type Redraw = Box<dyn FnMut() + Send>;

/// Escape sequences that are undone while the process is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScreenSequences {
    pub(crate) set: &'static str,
    pub(crate) unset: &'static str,
}

/// From now on Ctrl-Z gives the terminal back before it stops this process. Needs a runtime.
pub(crate) fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if IS_WATCHED.swap(true, Relaxed) {
        return;
    }
    // Without it Ctrl-Z stops the process as ever.
    if let Ok(mut stops) = signal(SignalKind::from_raw(Signal::TSTP.as_raw())) {
        tokio::spawn(async move {
            while stops.recv().await.is_some() {
                stop().await;
            }
        });
    }
}

/// The terminal was like this, and is changed from now on.
pub(crate) fn changed(before: &Termios) {
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before.clone());
}

/// The terminal is as it was.
pub(crate) fn given_back() {
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Which sequences are in force from now on.
pub(crate) fn drawn_with(sequences: Option<ScreenSequences>) {
    *SEQUENCES.lock().unwrap_or_else(PoisonError::into_inner) = sequences;
}

/// By what an editor draws its line again, from now on.
pub(crate) fn drawn_again_by(redraw: Option<Redraw>) {
    *REDRAW.lock().unwrap_or_else(PoisonError::into_inner) = redraw;
}

/// Reads a line by an editor that changes the modes itself.
pub(crate) fn editing<T>(read: impl FnOnce() -> T) -> T {
    EDITS.store(true, Relaxed);
    let line = read();
    EDITS.store(false, Relaxed);
    line
}

/// Whether this process may set the modes of the terminal.
pub(crate) fn in_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

/// Stops this process until it is continued.
async fn stop() {
    if is_orphaned() {
        return;
    }
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let before = before.filter(|_| in_foreground());
    let sequences = *SEQUENCES.lock().unwrap_or_else(PoisonError::into_inner);
    let sequences = sequences.filter(|_| before.is_some());
    let mut changed = None;
    if let Some(before) = &before {
        editor_settles().await;
        changed = tcgetattr(stdin()).ok().filter(is_raw);
        terminal_line::wipe();
        if let Some(sequences) = sequences {
            // A terminal that is gone needs nothing.
            let _ = output::control(sequences.unset);
        }
        let _ = tcsetattr(stdin(), OptionalActions::Now, before);
    }
    let _ = kill_process(getpid(), Signal::STOP);
    tokio::time::sleep(STOP_TAKES).await;
    if before.is_none() {
        return;
    }
    while !in_foreground() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    // Modes of a wait are set again by the wait.
    if let Some(changed) = changed {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &changed);
    }
    if let Some(sequences) = sequences {
        let _ = output::control(sequences.set);
    }
    // The size may be another one; a screen is drawn again by that.
    let _ = kill_process(getpid(), Signal::WINCH);
    if EDITS.load(Relaxed)
        && let Some(redraw) = REDRAW.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
    {
        redraw();
    }
}

/// An editor that was told of Ctrl-Z gives its modes back, and sets them again at once, since nothing stops it there.
async fn editor_settles() {
    let until = Instant::now() + EDITOR_SETTLES;
    while EDITS.load(Relaxed) && !tcgetattr(stdin()).is_ok_and(|now| is_raw(&now)) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_raw(modes: &Termios) -> bool {
    !modes.local_modes.contains(LocalModes::ICANON)
}

/// Whether no shell is there that could continue this process: then the kernel, too, lets SIGTSTP stop none.
fn is_orphaned() -> bool {
    let (session, group) = (getsid(None).ok(), getpgrp());
    let mut parent = getppid();
    while let Some(pid) = parent {
        if getsid(Some(pid)).ok() != session {
            return true;
        }
        match getpgid(Some(pid)) {
            Ok(other) if other != group => return false,
            Ok(_) => parent = parent_of(pid),
            Err(_) => return true,
        }
    }
    true
}

/// The parent of another process, where the system tells it.
fn parent_of(pid: Pid) -> Option<Pid> {
    let about = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name in parentheses may hold all characters.
    let (_, fields) = about.rsplit_once(')')?;
    let parent = fields.split_whitespace().nth(1)?;
    Pid::from_raw(parent.parse().ok()?)
}
