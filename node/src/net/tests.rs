//! Two nodes over the loopback.
