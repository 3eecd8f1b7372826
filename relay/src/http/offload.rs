//! Answers that look at everybody. There may be a million skills: they are looked through on threads of their own, so that
//! peers, registry and health go on, a few at a time, and each address waits for few.

use std::sync::Arc;

use agentanycast_limits::{ConnSlots, NoSlot, http::offload::run_aside};
use axum::{Extension, extract::ConnectInfo};
use tokio::sync::Semaphore;

use super::{ClientSource, error::ApiError};

/// Answers that are made at once.
const AT_ONCE: usize = 2;

/// Requests that are answered or wait for that, and those of one address.
const MAX_WAITING: usize = 256;
const MAX_WAITING_PER_SOURCE: usize = 16;

/// Who asks; none within the process.
pub(super) type ClientExtension = Option<Extension<ConnectInfo<ClientSource>>>;

/// The places.
#[derive(Debug)]
pub(super) struct LookupOffload {
    turns: Arc<Semaphore>,
    slots: ConnSlots,
}

impl LookupOffload {
    pub(super) fn new() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            slots: ConnSlots::new(MAX_WAITING, MAX_WAITING_PER_SOURCE),
        }
    }

    /// What `look` yields, in its turn.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        asker: ClientExtension,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let seat = asker.map(|Extension(ConnectInfo(ClientSource(source)))| self.slots.take(source));
        let seat = seat.transpose().map_err(|full| match full {
            NoSlot::All => ApiError::busy(format!(
                "{MAX_WAITING} requests wait for the directory, its limit; try again later"
            )),
            NoSlot::Source => ApiError::too_many(format!(
                "{MAX_WAITING_PER_SOURCE} requests of your address wait for the directory, its limit for one; wait for their answers"
            )),
        })?;
        let broken = || ApiError::busy("the relay is stopping".to_owned());
        let turn = Arc::clone(&self.turns)
            .acquire_owned()
            .await
            .map_err(|_| broken())?;
        // Whoever does not wait any longer keeps its place until the work is done.
        let work = run_aside(move || {
            let _held = (seat, turn);
            look()
        });
        work.await.ok_or_else(broken)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn asker(last: u8) -> Extension<ConnectInfo<ClientSource>> {
        Extension(ConnectInfo(ClientSource(IpAddr::from([192, 0, 2, last]).into())))
    }

    #[tokio::test]
    async fn each_address_waits_for_few_and_none_of_them_here() {
        let aside = Arc::new(LookupOffload::new());
        let here = std::thread::current().id();
        let there = aside.run(None, || std::thread::current().id()).await.unwrap();
        assert_ne!(here, there, "the network's threads go on");
        let turns = Arc::clone(&aside.turns)
            .acquire_many_owned(AT_ONCE as u32)
            .await
            .unwrap();
        let ask = |last: u8| {
            let aside = Arc::clone(&aside);
            tokio::spawn(async move { aside.run(Some(asker(last)), || ()).await })
        };
        let waiting: Vec<_> = (0..MAX_WAITING_PER_SOURCE).map(|_| ask(1)).collect();
        tokio::task::yield_now().await;
        let refused = ask(1).await.unwrap().unwrap_err();
        assert!(format!("{refused:?}").contains("of your address"), "{refused:?}");
        let other = ask(2);
        drop(turns);
        for answered in waiting.into_iter().chain([other]) {
            answered.await.unwrap().unwrap();
        }
        ask(1).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn who_goes_away_keeps_its_place_until_the_work_is_done() {
        let aside = LookupOffload::new();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let work = aside.run(Some(asker(1)), move || wait.recv());
        let gave_up = tokio::time::timeout(std::time::Duration::from_millis(20), work).await;
        assert!(gave_up.is_err() && aside.slots.taken() == 1);
        go.send(()).unwrap();
        while aside.slots.taken() > 0 {
            tokio::task::yield_now().await;
        }
    }
}
