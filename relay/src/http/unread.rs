//! What answers have in memory that nobody has read yet: each address has its share, and there is a bound for all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentanycast_door::{ByteQuota, http::ChunkedBody};
use axum::{
    body::{Body, HttpBody as _},
    extract::{ConnectInfo, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{Remote, error::ApiError};
use crate::registry::Source;

/// Most bytes that wait for the readers of one address, and of all: a page of a directory whose agents say as much as they
/// may, in signs of which each is six when it is written.
const UNREAD: usize = 64 << 20;
const UNREAD_OF_ALL: usize = 256 << 20;

/// Whose they are; none within the process.
type Reader = Option<Source>;

/// Of each answer, the bytes that do not count: who has its share still gets what is small.
const SMALL: usize = 64 << 10;

/// All of them; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Unread(Arc<Mutex<ByteQuota<Reader>>>);

/// What waits of one answer.
struct Waiting {
    unread: Unread,
    reader: Reader,
    bytes: usize,
}

impl Unread {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(ByteQuota::new(UNREAD, UNREAD_OF_ALL))))
    }

    fn lock(&self) -> MutexGuard<'_, ByteQuota<Reader>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// So many bytes of it wait now. False if that is too much; then those of before count.
    fn are(&mut self, bytes: usize) -> bool {
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

impl Drop for Waiting {
    fn drop(&mut self) {
        self.are(0);
    }
}

/// Lets an answer go in pieces that count until they are taken; refuses one of which too much would wait.
pub(super) async fn counted(State(unread): State<Unread>, request: Request, next: Next) -> Response {
    let remote = request.extensions().get::<ConnectInfo<Remote>>();
    let reader = remote.map(|ConnectInfo(Remote(source))| *source);
    let response = next.run(request).await;
    let mut waiting = Waiting {
        unread,
        reader,
        bytes: 0,
    };
    let length = response.body().size_hint().exact().unwrap_or(0);
    if !waiting.are(usize::try_from(length).unwrap_or(usize::MAX)) {
        let text =
            "answers to your address wait to be read, more than this relay keeps; read them first".to_owned();
        return ApiError::too_many(text).into_response();
    }
    response.map(|body| {
        Body::new(ChunkedBody::new(body, move |bytes| {
            if waiting.are(bytes) {
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
        let unread = Unread::new();
        let of = |last: u8| Waiting {
            unread: unread.clone(),
            reader: Some(IpAddr::from([192, 0, 2, last]).into()),
            bytes: 0,
        };
        let (mut one, mut other, mut third) = (of(1), of(1), of(2));
        let (all_of_it, half) = (UNREAD + SMALL, UNREAD / 2 + SMALL);
        assert!(one.are(all_of_it) && third.are(all_of_it));
        assert!(other.are(SMALL) && !other.are(SMALL + 1));
        assert!(one.are(half), "half of it was taken");
        assert!(other.are(half) && !one.are(half + 1));
        drop((one, other, third));
        let mut all: Vec<Waiting> = (0..=4).map(of).collect();
        let last = all.len() - 1;
        assert!(all[..last].iter_mut().all(|waiting| waiting.are(all_of_it)));
        assert!(!all[last].are(SMALL + 1), "that is what all may have");
        drop(all);
        assert!(unread.lock().is_empty());
    }
}
