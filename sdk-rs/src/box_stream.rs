//! The type of the streams that the SDK hands out.

use std::pin::Pin;

use futures::Stream;

/// A stream of the SDK.
pub type BoxStream<T> = Pin<Box<dyn Stream<Item = T> + Send>>;
