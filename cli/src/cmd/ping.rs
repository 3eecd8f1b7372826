//! `anycast ping`: whether a peer answers, how fast, and over what.

use std::time::Duration;

use agentanycast::{PathKind, PingAnswer};
use clap::Args;
use serde_json::{Value, json};

use crate::{
    arg_values::parse_interval,
    context::Context,
    failure::{CommandFailure, FailureCode},
    interrupt::Interrupt,
    output,
    peer_target::PeerQuery,
};

#[derive(Debug, Args)]
pub(crate) struct PingArgs {
    /// The peer: an alias, its card's name, its id or a unique piece of it, did:key, did:web, or multiaddr that ends in
    /// /p2p/PEER_ID
    pub(crate) target: String,
    /// How many pings; 0 goes on until Ctrl-C
    #[arg(long, short = 'c', default_value_t = 5)]
    pub(crate) count: u32,
    /// Time between two pings, such as 500ms or 2s
    #[arg(long, short = 'i', default_value = "1s", value_parser = parse_interval, value_name = "TIME")]
    pub(crate) interval: Duration,
}

pub(crate) async fn run(context: &Context, args: PingArgs) -> Result<(), CommandFailure> {
    let mut interrupt = Interrupt::new()?;
    let wanted = PeerQuery::parse(context, &args.target)?;
    let node = interrupt.or(context.connect_or_start()).await?;
    let target = interrupt.or(wanted.find(context, &node)).await?;
    let mut tally = PingStats::default();
    let pinging = async {
        // Where it is said to be comes first, and it has to answer.
        node.connect_peer(&target.peer, target.addresses.iter()).await?;
        loop {
            let answer = node.ping(&target.peer).await?;
            tally.count(&answer);
            if !context.json {
                output::line(&line(&answer))?;
            }
            if tally.sent() == args.count {
                return Ok(());
            }
            tokio::time::sleep(args.interval).await;
        }
    };
    let ended = tokio::select! {
        outcome = pinging => outcome,
        wish = interrupt.stop_signal() => Err(wish.failure("interrupted")),
    };
    if tally.sent() > 0 {
        let peer = target.peer.as_str();
        if context.json {
            output::json(&tally.document(peer))?;
        } else {
            output::line(&tally.summary(peer))?;
        }
    }
    ended?;
    if tally.answers.is_empty() {
        let message = format!(
            "{} answered none of {} pings: {}",
            target.peer,
            tally.sent(),
            tally.last_error
        );
        return Err(CommandFailure::new(FailureCode::General, "NoAnswer", message));
    }
    Ok(())
}

/// One ping, for people.
fn line(answer: &PingAnswer) -> String {
    match answer.round_trip {
        Some(took) => format!("answer in {}, {}", millis(took), via(answer)),
        None => format!("no answer: {}", output::flat(&answer.error)),
    }
}

/// What a ping went over, for people.
fn via(answer: &PingAnswer) -> String {
    match (answer.via, &answer.relay) {
        (PathKind::Relay, Some(relay)) => format!("through the relay {relay}"),
        (PathKind::Relay, None) => "through a relay".to_owned(),
        _ => match answer.addresses.first() {
            Some(address) => format!(
                "directly over {} at {}",
                transport(answer).unwrap_or("an unknown transport"),
                output::flat(address)
            ),
            None => "directly".to_owned(),
        },
    }
}

/// What carries the connection to the peer itself; through a relay it is not known here.
fn transport(answer: &PingAnswer) -> Option<&'static str> {
    if answer.via != PathKind::Direct {
        return None;
    }
    let address = answer.addresses.first()?;
    let has = |part: &str| address.split('/').any(|piece| piece == part);
    Some(match () {
        () if has("quic-v1") || has("quic") => "QUIC",
        () if has("ws") || has("wss") => "WebSocket",
        () if has("tcp") => "TCP",
        () => return None,
    })
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// All pings so far.
#[derive(Debug, Default)]
struct PingStats {
    answers: Vec<Duration>,
    lost: u32,
    last: Option<PingAnswer>,
    last_error: String,
}

impl PingStats {
    fn count(&mut self, answer: &PingAnswer) {
        if let Some(took) = answer.round_trip {
            self.answers.push(took);
        } else {
            self.lost += 1;
            self.last_error = output::flat(&answer.error);
        }
        // What an answer came over says more than what a lost ping might have.
        if answer.round_trip.is_some() || self.answers.is_empty() {
            self.last = Some(answer.clone());
        }
    }

    fn sent(&self) -> u32 {
        self.lost + self.answers.len() as u32
    }

    fn loss(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.sent().max(1))
    }

    /// Least, mean and most; None: nothing came back.
    fn times(&self) -> Option<[Duration; 3]> {
        let (least, most) = (self.answers.iter().min()?, self.answers.iter().max()?);
        let mean = self.answers.iter().sum::<Duration>() / self.answers.len() as u32;
        Some([*least, mean, *most])
    }

    fn summary(&self, peer: &str) -> String {
        let counts = format!(
            "{peer}: {} sent, {} answered, {:.0} % lost",
            self.sent(),
            self.answers.len(),
            self.loss() * 100.0
        );
        match self.times() {
            Some([least, mean, most]) => {
                format!(
                    "{counts}; round trip {} to {}, {} on average",
                    millis(least),
                    millis(most),
                    millis(mean)
                )
            }
            None => counts,
        }
    }

    fn document(&self, peer: &str) -> Value {
        let in_millis = |time: Duration| time.as_secs_f64() * 1000.0;
        let times = self.times().map(|times| times.map(in_millis));
        let last = self.last.as_ref();
        json!({
            "peer_id": peer,
            "via": last.map(|answer| answer.via.to_string()),
            "transport": last.and_then(transport).map(str::to_lowercase),
            "relay_peer_id": last.and_then(|answer| Some(answer.relay.as_ref()?.to_string())),
            "addresses": last.map(|answer| answer.addresses.clone()).unwrap_or_default(),
            "sent": self.sent(),
            "answered": self.answers.len(),
            "loss": self.loss(),
            "round_trip_ms": times.map(|[least, mean, most]| json!({"min": least, "mean": mean, "max": most})),
            "last_error": (!self.last_error.is_empty()).then_some(&self.last_error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(millis: Option<u64>) -> PingAnswer {
        PingAnswer {
            round_trip: millis.map(Duration::from_millis),
            error: if millis.is_some() {
                String::new()
            } else {
                "no answer within 10 s".to_owned()
            },
            via: PathKind::Direct,
            addresses: vec!["/ip4/192.0.2.1/udp/4001/quic-v1".to_owned()],
            relay: None,
        }
    }

    #[test]
    fn pings_are_counted() {
        let mut tally = PingStats::default();
        for took in [Some(10), None, Some(30), Some(20)] {
            tally.count(&answer(took));
        }
        assert_eq!(
            tally.summary("bob"),
            "bob: 4 sent, 3 answered, 25 % lost; round trip 10.0 ms to 30.0 ms, 20.0 ms on average"
        );
        let document = tally.document("bob");
        assert_eq!(document["transport"], "quic");
        assert_eq!(document["loss"], 0.25);
        assert_eq!(document["round_trip_ms"]["mean"], 20.0);
        assert_eq!(document["last_error"], "no answer within 10 s");
        let mut tally = PingStats::default();
        tally.count(&answer(None));
        assert_eq!(tally.summary("bob"), "bob: 1 sent, 0 answered, 100 % lost");
        assert!(tally.document("bob")["round_trip_ms"].is_null());
    }

    #[test]
    fn the_way_is_told() {
        assert_eq!(
            line(&answer(Some(3))),
            "answer in 3.0 ms, directly over QUIC at /ip4/192.0.2.1/udp/4001/quic-v1"
        );
        let relay = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
        let relayed = PingAnswer {
            via: PathKind::Relay,
            relay: relay.parse().ok(),
            ..answer(Some(3))
        };
        assert_eq!(
            line(&relayed),
            format!("answer in 3.0 ms, through the relay {relay}")
        );
        assert_eq!(transport(&relayed), None);
        assert_eq!(line(&answer(None)), "no answer: no answer within 10 s");
    }
}
