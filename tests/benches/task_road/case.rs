//! What is measured: one transport with one size of payload and one number of tasks in flight, or the
//! streaming of one artifact. A cell's name is also what the option `--cells` chooses by.

use std::fmt;

use agentanycast_tests::TransportKind;

/// What a slice of a cell does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Tasks whose message and artifact have this many bytes, this many at a time.
    Tasks { bytes: usize, in_flight: usize },
    /// One artifact, streamed.
    Stream,
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BenchCase {
    pub(crate) transport: TransportKind,
    pub(crate) work: Workload,
}

impl BenchCase {
    /// All of them, in the order of the table.
    pub(crate) fn all() -> Vec<Self> {
        let transports = [TransportKind::Tcp, TransportKind::Quic];
        let mut cells = Vec::new();
        for transport in transports {
            for bytes in [256, 64 << 10] {
                for in_flight in [1, 16, 256] {
                    let work = Workload::Tasks { bytes, in_flight };
                    cells.push(Self { transport, work });
                }
            }
        }
        cells.extend(transports.map(|transport| Self {
            transport,
            work: Workload::Stream,
        }));
        cells
    }

    /// Whether a pattern names it: the parts of its name, in any order and any number.
    pub(crate) fn is_named_by(self, pattern: &str) -> bool {
        let name = self.to_string();
        pattern
            .split('/')
            .all(|wanted| name.split('/').any(|part| part.eq_ignore_ascii_case(wanted)))
    }
}

/// `tcp/256B/16`, `quic/stream`.
impl fmt::Display for BenchCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            TransportKind::Tcp => "tcp",
            TransportKind::Quic => "quic",
        };
        match self.work {
            Workload::Tasks { bytes, in_flight } if bytes >= 1024 => {
                write!(f, "{transport}/{}KiB/{in_flight}", bytes >> 10)
            }
            Workload::Tasks { bytes, in_flight } => write!(f, "{transport}/{bytes}B/{in_flight}"),
            Workload::Stream => write!(f, "{transport}/stream"),
        }
    }
}
