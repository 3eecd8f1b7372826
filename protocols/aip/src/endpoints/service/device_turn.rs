//! Who has a device: one task at a time. Callers take turns, so one that gives a device many tasks delays another caller by one
//! task of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentanycast_limits::TurnQueue;
use tokio::sync::oneshot;

/// The turns of a device. Clones are those of the same device.
#[derive(Clone, Default)]
pub(super) struct DeviceTurns(Arc<Mutex<TurnState>>);

#[derive(Default)]
struct TurnState {
    is_taken: bool,
    waiting: TurnQueue<oneshot::Sender<DeviceTurn>>,
}

/// The device is this task's until it is dropped.
pub(super) struct DeviceTurn(DeviceTurns);

impl DeviceTurns {
    fn state(&self) -> MutexGuard<'_, TurnState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the device is free and it is the turn of `client`, which belongs to `caller`: who that is to the transport.
    /// Dropping the future loses the place.
    pub(super) async fn take(&self, caller: &str, client: &str) -> DeviceTurn {
        loop {
            let given = {
                let mut state = self.state();
                if !state.is_taken {
                    state.is_taken = true;
                    return DeviceTurn(self.clone());
                }
                let (give, given) = oneshot::channel();
                state.waiting.push(caller, client, give);
                given
            };
            // It is never dropped unsent: the one that has the turn gives it on.
            if let Ok(turn) = given.await {
                return turn;
            }
        }
    }

    /// The task whose turn is next, of those that still wait; without one the device is free.
    fn next(&self) -> Option<oneshot::Sender<DeviceTurn>> {
        let mut state = self.state();
        while let Some(next) = state.waiting.pop() {
            if !next.is_closed() {
                return Some(next);
            }
        }
        state.is_taken = false;
        None
    }
}

impl Drop for DeviceTurn {
    fn drop(&mut self) {
        if let Some(next) = self.0.next() {
            // One that leaves at this moment drops the turn, which gives it on.
            let _ = next.send(Self(self.0.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, future::BoxFuture};

    use super::*;

    fn waiting(turns: &DeviceTurns, caller: &'static str) -> BoxFuture<'static, DeviceTurn> {
        let turns = turns.clone();
        let mut waiting = async move { turns.take(caller, "").await }.boxed();
        assert!((&mut waiting).now_or_never().is_none());
        waiting
    }

    #[tokio::test]
    async fn callers_take_turns_and_those_that_leave_are_passed_over() {
        let turns = DeviceTurns::default();
        let first = turns.take("a", "").await;
        let mut second_of_a = waiting(&turns, "a");
        let leaves = waiting(&turns, "a");
        let mut third_of_a = waiting(&turns, "a");
        let mut of_b = waiting(&turns, "b");
        drop(leaves);
        drop(first);
        let second = second_of_a.as_mut().now_or_never().unwrap();
        assert!(of_b.as_mut().now_or_never().is_none());
        drop(second);
        let of_b = of_b.as_mut().now_or_never().unwrap();
        assert!(third_of_a.as_mut().now_or_never().is_none());
        drop(of_b);
        drop(third_of_a.as_mut().now_or_never().unwrap());
        assert!(turns.take("c", "").now_or_never().is_some(), "the device is free");
    }

    /// It was given the turn and leaves before it sees it.
    #[tokio::test]
    async fn a_turn_that_nobody_takes_goes_on() {
        let turns = DeviceTurns::default();
        let first = turns.take("a", "").await;
        let leaves = waiting(&turns, "a");
        let mut next = waiting(&turns, "b");
        drop(first);
        assert!(next.as_mut().now_or_never().is_none());
        drop(leaves);
        assert!(next.as_mut().now_or_never().is_some());
    }
}
