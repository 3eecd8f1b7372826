//! Where a provider's key comes from: one key, several in turn, several by weight, or a function.
//!
//! The tool loop asks for a key before each try, so that a retry after `RATE_LIMITED` may use another key.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use rand::RngExt as _;

use crate::error::UppError;

/// A key that does not show in logs.
///
/// ```
/// use agentanycast_upp::ApiKey;
///
/// let key = ApiKey::from("sk-secret");
/// assert_eq!(format!("{key:?}"), "ApiKey(..)");
/// assert_eq!(key.expose(), "sk-secret");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(Arc<str>);

impl ApiKey {
    /// The key itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for ApiKey {
    fn from(key: T) -> Self {
        Self(key.into().into())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// Chooses the key of each try.
#[async_trait]
pub trait KeyStrategy: Send + Sync {
    /// The key of the next try.
    async fn next_key(&self) -> Result<ApiKey, UppError>;
}

#[async_trait]
impl KeyStrategy for ApiKey {
    async fn next_key(&self) -> Result<ApiKey, UppError> {
        Ok(self.clone())
    }
}

fn no_keys() -> UppError {
    UppError::invalid_request("the list of keys is empty; give at least one key")
}

/// Uses keys in turn.
///
/// ```
/// use agentanycast_upp::{KeyStrategy, RoundRobinKeys};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), agentanycast_upp::UppError> {
/// let keys = RoundRobinKeys::new(["a", "b"]);
/// let used = [keys.next_key().await?, keys.next_key().await?, keys.next_key().await?];
/// assert_eq!(used.map(|key| key.expose().to_owned()), ["a", "b", "a"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RoundRobinKeys {
    keys: Vec<ApiKey>,
    next: AtomicUsize,
}

impl RoundRobinKeys {
    /// These keys, in this order.
    pub fn new<K: Into<ApiKey>>(keys: impl IntoIterator<Item = K>) -> Self {
        Self {
            keys: keys.into_iter().map(Into::into).collect(),
            next: AtomicUsize::new(0),
        }
    }
}

#[async_trait]
impl KeyStrategy for RoundRobinKeys {
    async fn next_key(&self) -> Result<ApiKey, UppError> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let index = turn.checked_rem(self.keys.len()).ok_or_else(no_keys)?;
        Ok(self.keys[index].clone())
    }
}

/// Draws keys at random, in proportion to their weights.
///
/// ```
/// use agentanycast_upp::WeightedKeys;
///
/// let keys = WeightedKeys::new([("big-account", 9), ("small-account", 1)]);
/// assert_eq!(keys.pick(8).map(|key| key.expose()), Some("big-account"));
/// assert_eq!(keys.pick(9).map(|key| key.expose()), Some("small-account"));
/// assert!(keys.pick(10).is_none());
/// ```
#[derive(Debug)]
pub struct WeightedKeys {
    keys: Vec<(ApiKey, u32)>,
}

impl WeightedKeys {
    /// These keys with these weights.
    pub fn new<K: Into<ApiKey>>(keys: impl IntoIterator<Item = (K, u32)>) -> Self {
        Self {
            keys: keys
                .into_iter()
                .map(|(key, weight)| (key.into(), weight))
                .collect(),
        }
    }

    /// The key at `point` of the line on which each key takes its weight; `None` behind its end.
    pub fn pick(&self, mut point: u64) -> Option<&ApiKey> {
        for (key, weight) in &self.keys {
            match point.checked_sub(u64::from(*weight)) {
                None => return Some(key),
                Some(rest) => point = rest,
            }
        }
        None
    }

    fn total(&self) -> u64 {
        self.keys.iter().map(|(_, weight)| u64::from(*weight)).sum()
    }
}

#[async_trait]
impl KeyStrategy for WeightedKeys {
    async fn next_key(&self) -> Result<ApiKey, UppError> {
        let total = self.total();
        if total == 0 {
            return Err(no_keys());
        }
        let point = rand::rng().random_range(0..total);
        self.pick(point).cloned().ok_or_else(no_keys)
    }
}

type Fetch = dyn Fn() -> BoxFuture<'static, Result<ApiKey, UppError>> + Send + Sync;

/// Calls a function for each key, for example one that asks a vault.
pub struct DynamicKey(Box<Fetch>);

impl DynamicKey {
    /// Uses this function.
    ///
    /// ```
    /// use agentanycast_upp::{ApiKey, DynamicKey};
    ///
    /// let key = DynamicKey::new(|| async { Ok(ApiKey::from("from the vault")) });
    /// # drop(key);
    /// ```
    pub fn new<F, Fut>(fetch: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ApiKey, UppError>> + Send + 'static,
    {
        Self(Box::new(move || fetch().boxed()))
    }
}

impl fmt::Debug for DynamicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DynamicKey(..)")
    }
}

#[async_trait]
impl KeyStrategy for DynamicKey {
    async fn next_key(&self) -> Result<ApiKey, UppError> {
        (self.0)().await
    }
}
