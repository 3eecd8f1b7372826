//! What the service manager that has started this program is told (`sd_notify`): that it is ready, reads its settings
//! again, stops, and, where the manager has a watchdog, that it lives. Does nothing without a service manager.

use std::time::Duration;

use sd_notify::NotifyState;

/// The program takes calls.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The program reads its settings again; [`ready`] says that it has.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "no clock for the service manager"),
    }
}

/// The program ends.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Says that the program lives, twice in the time that the service manager waits for it. Never returns. It runs where the
/// program's work does, so that a program that hangs says nothing.
pub async fn keep_alive() {
    let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()) else {
        return std::future::pending().await;
    };
    let mut tick = tokio::time::interval((limit / 2).max(Duration::from_millis(1)));
    loop {
        tick.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "the service manager could not be told");
    }
}
