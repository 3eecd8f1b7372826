//! What this node shows of itself to operators: figures and health. It looks, and changes nothing.

mod gateway_figures;
mod http;
mod http_connections;
mod metrics;

pub use http::{MetricsHttp, bind, serve};
