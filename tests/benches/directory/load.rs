//! Calls in numbers: one connection, so many in flight, answers left encoded, so that the client costs the same
//! whoever answers.

use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

pub(crate) const REGISTER: &str = "/agentanycast.v1.RegistryService/RegisterSkills";
pub(crate) const HEARTBEAT: &str = "/agentanycast.v1.RegistryService/Heartbeat";
pub(crate) const DISCOVER: &str = "/agentanycast.v1.RegistryService/DiscoverBySkill";

/// An answer whose agents stay encoded; any other answer of the registry has its bytes in field 1 too.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncodedAgents {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) agents: Vec<Bytes>,
}

/// What came of a load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallRate {
    pub(crate) per_second: f64,
    p99: Duration,
}

impl CallRate {
    /// The one with more.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.per_second > self.per_second {
            other
        } else {
            self
        }
    }
}

impl fmt::Display for CallRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6.0}/s p99 {:>5} µs", self.per_second, self.p99.as_micros())
    }
}

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct RegistryBenchClient(Grpc<Channel>);

impl RegistryBenchClient {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .unwrap()
            .tcp_nodelay(true);
        Self(Grpc::new(endpoint.connect().await.unwrap()))
    }

    pub(crate) async fn once<M: Message + 'static>(&self, path: &'static str, message: M) -> EncodedAgents {
        let mut grpc = self.0.clone();
        grpc.ready().await.unwrap();
        let codec = ProstCodec::<M, EncodedAgents>::default();
        let answer = grpc
            .unary(Request::new(message), PathAndQuery::from_static(path), codec)
            .await;
        answer.unwrap().into_inner()
    }

    /// Sends each of them, so many at once.
    pub(crate) async fn all<M: Message + 'static>(
        &self,
        path: &'static str,
        messages: impl Iterator<Item = M>,
        at_once: usize,
    ) {
        stream::iter(messages)
            .map(|message| self.once(path, message))
            .buffer_unordered(at_once)
            .for_each(|_| async {})
            .await;
    }

    /// Sends messages for a while, so many at once.
    pub(crate) async fn for_a_while<M: Message + 'static>(
        &self,
        path: &'static str,
        time: Duration,
        at_once: usize,
        message: impl Fn(usize) -> M + Copy + Send + 'static,
    ) -> CallRate {
        let next = Arc::new(AtomicUsize::new(0));
        let begun = Instant::now();
        let workers: Vec<_> = (0..at_once)
            .map(|_| {
                let (caller, next) = (self.clone(), Arc::clone(&next));
                tokio::spawn(async move {
                    let mut times = Vec::new();
                    while begun.elapsed() < time {
                        let sent = Instant::now();
                        caller.once(path, message(next.fetch_add(1, Relaxed))).await;
                        times.push(sent.elapsed());
                    }
                    times
                })
            })
            .collect();
        let mut times = Vec::new();
        for worker in workers {
            times.extend(worker.await.unwrap());
        }
        let elapsed = begun.elapsed().as_secs_f64();
        times.sort_unstable();
        CallRate {
            per_second: times.len() as f64 / elapsed,
            p99: times[times.len() * 99 / 100],
        }
    }
}
