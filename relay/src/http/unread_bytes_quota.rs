//! What answers have in memory that nobody has read yet: each address has its share, and there is a bound for all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentanycast_limits::{ByteQuota, http::ChunkedBody};
use axum::{
    body::{Body, HttpBody as _},
    extract::{ConnectInfo, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{ClientSource, error::ApiError};
use crate::registry::Source;

/// Most bytes that wait for the readers of one address, and of all: a page of a directory whose agents say as much as they
/// may, in signs of which each is six when it is written.
const MAX_UNSENT_PER_SOURCE: usize = 64 << 20;
const MAX_UNSENT: usize = 256 << 20;

/// Whose they are; none within the process.
type AnswerClient = Option<Source>;

/// Of each answer, the bytes that do not count: who has its share still gets what is small.
const SMALL: usize = 64 << 10;

/// All of them; clones share them.
#[derive(Clone, Debug)]
pub(super) struct SendQuota(Arc<Mutex<ByteQuota<AnswerClient>>>);

/// What waits of one answer.
struct UnsentAnswer {
    unread: SendQuota,
    reader: AnswerClient,
    bytes: usize,
}

impl SendQuota {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(ByteQuota::new(
            MAX_UNSENT_PER_SOURCE,
            MAX_UNSENT,
        ))))
    }

    fn lock(&self) -> MutexGuard<'_, ByteQuota<AnswerClient>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnsentAnswer {
    /// So many bytes of it wait now. False if that is too much; then those of before count.
    fn set_bytes(&mut self, bytes: usize) -> bool {
        let bytes = bytes.saturating_sub(SMALL);
        let mut all = self.unread.lock();
        if bytes > self.bytes && !all.take(self.reader, bytes - self.bytes) {
            return false;
        }
        if bytes < self.bytes {
            all.give_back(&self.reader, self.bytes - bytes);
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for UnsentAnswer {
    fn drop(&mut self) {
        self.set_bytes(0);
    }
}

/// Lets an answer go in pieces that count until they are taken; refuses one of which too much would wait.
pub(super) async fn limit_unsent(State(unread): State<SendQuota>, request: Request, next: Next) -> Response {
    let remote = request.extensions().get::<ConnectInfo<ClientSource>>();
    let reader = remote.map(|ConnectInfo(ClientSource(source))| *source);
    let response = next.run(request).await;
    let mut waiting = UnsentAnswer {
        unread,
        reader,
        bytes: 0,
    };
    let length = response.body().size_hint().exact().unwrap_or(0);
    if !waiting.set_bytes(usize::try_from(length).unwrap_or(usize::MAX)) {
        let text =
            "answers to your address wait to be read, more than this relay keeps; read them first".to_owned();
        return ApiError::too_many(text).into_response();
    }
    response.map(|body| {
        Body::new(ChunkedBody::new(body, move |bytes| {
            if waiting.set_bytes(bytes) {
                Ok(())
            } else {
                Err(axum::Error::new("too much of it waits to be read"))
            }
        }))
    })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn each_address_has_its_share_and_gives_it_back() {
        let unread = SendQuota::new();
        let of = |last: u8| UnsentAnswer {
            unread: unread.clone(),
            reader: Some(IpAddr::from([192, 0, 2, last]).into()),
            bytes: 0,
        };
        let (mut one, mut other, mut third) = (of(1), of(1), of(2));
        let (all_of_it, half) = (MAX_UNSENT_PER_SOURCE + SMALL, MAX_UNSENT_PER_SOURCE / 2 + SMALL);
        assert!(one.set_bytes(all_of_it) && third.set_bytes(all_of_it));
        assert!(other.set_bytes(SMALL) && !other.set_bytes(SMALL + 1));
        assert!(one.set_bytes(half), "half of it was taken");
        assert!(other.set_bytes(half) && !one.set_bytes(half + 1));
        drop((one, other, third));
        let mut all: Vec<UnsentAnswer> = (0..=4).map(of).collect();
        let last = all.len() - 1;
        assert!(all[..last].iter_mut().all(|waiting| waiting.set_bytes(all_of_it)));
        assert!(!all[last].set_bytes(SMALL + 1), "that is what all may have");
        drop(all);
        assert!(unread.lock().is_empty());
    }
}
