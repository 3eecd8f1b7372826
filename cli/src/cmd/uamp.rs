//! `anycast uamp`: envelopes of the Universal Agent Messaging Protocol. Without the feature `uamp` it refuses.

#[cfg(not(feature = "uamp"))]
mod disabled;
#[cfg(feature = "uamp")]
mod enabled;

#[cfg(not(feature = "uamp"))]
pub(crate) use disabled::run;
#[cfg(feature = "uamp")]
pub(crate) use enabled::run;
