//! The registry in figures: `cargo bench -p agentanycast-tests --bench directory`.
//!
//! One relay of the release build, a process of its own, with 1 000 and then 50 000 agents of ten skills each: registrations,
//! heartbeats and discoveries a second, the 99th percentile, memory per entry, and how long an empty relay takes to
//! learn it all. Beside each discovery, in the same run and turn by turn, a bare tonic service in a process of its own
//! answers the very same bytes without looking anything up; the ratio of the two is what the registry costs. Questions with two
//! tags are put to another relay (`two_tag_queries`), so that what they need is in no figure of the first one.
//! `-- --check` ends with exit code 1 when a ratio is below its target. Sizes come from the environment: `AGENTANYCAST_ENTRIES` (50000), `AGENTANYCAST_SLICE_MS` (500),
//! `AGENTANYCAST_ROUNDS` (15).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints, and ends by a panic"
)]

mod bare_registry;
mod load;
mod two_tag_queries;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use agentanycast_proto::v1::{DiscoverBySkillRequest, HeartbeatRequest, RegisterSkillsRequest, SkillInfo};
use agentanycast_tests::{TestRelay, bench_targets::BenchTargets, eventually_within, proc_stats};

use load::{CallRate, DISCOVER, HEARTBEAT, REGISTER, RegistryBenchClient};

/// Of the bare service's rate, what a discovery has to reach.
const TARGET: f64 = 0.8;

/// Of the ratio with few entries, what has to be left with all of them.
const FLAT: f64 = 0.8;

/// Skills that there are; each agent has ten of them.
const SKILLS: usize = 100;

/// Of every relay here.
const SETTINGS: [&str; 5] = [
    "--entries-per-ip=1000000",
    "--entry-bytes-per-ip=1GiB",
    "--requests-per-ip=0",
    "--registry-ttl=1h",
    // One origin may have a quarter of them.
    "--federated-entries=400000",
];

fn skill(number: usize) -> String {
    format!("skill-{}", number % SKILLS)
}

fn registration(number: usize) -> RegisterSkillsRequest {
    let one = |n: usize| SkillInfo {
        skill_id: skill(number * 7 + n * 101),
        description: "Translates short texts between two languages".into(),
        tags: [(
            "lang".to_owned(),
            if number.is_multiple_of(2) { "de" } else { "fr" }.to_owned(),
        )]
        .into(),
        agent: String::new(),
    };
    RegisterSkillsRequest {
        peer_id: peer(number),
        skills: (0..10).map(one).collect(),
        agent_name: format!("Agent {number}"),
        agent_description: "An agent of the benchmark".into(),
        ..RegisterSkillsRequest::default()
    }
}

fn peer(number: usize) -> String {
    format!("12D3KooWBenchmark{number:035}")
}

/// What is asked: how many agents, and whether with a tag.
const QUESTIONS: [(i32, bool); 4] = [(1, false), (1, true), (10, false), (10, true)];

fn question(number: usize, limit: i32, tags: bool) -> DiscoverBySkillRequest {
    let tags = tags.then(|| ("lang".to_owned(), "de".to_owned()));
    DiscoverBySkillRequest {
        skill_id: skill(number * 13),
        tags: tags.into_iter().collect(),
        limit,
        federated: false,
    }
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(format!("AGENTANYCAST_{name}"));
    text.map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("AGENTANYCAST_{name}={text}"))
    })
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    if let Some(place) = args.iter().position(|arg| arg == "--bare") {
        runtime.block_on(bare_registry::serve(&args[place + 1]));
        return ExitCode::SUCCESS;
    }
    let mut verdict = BenchTargets::from_args();
    runtime.block_on(run(&mut verdict));
    verdict.end()
}

async fn run(verdict: &mut BenchTargets) {
    let most = setting("ENTRIES", 50_000) as usize;
    let slice = Duration::from_millis(setting("SLICE_MS", 500));
    let rounds = setting("ROUNDS", 15) as usize;
    let relay = TestRelay::builder().args(SETTINGS).start().await;
    let caller = RegistryBenchClient::connect(relay.registry).await;
    let empty = proc_stats::rss_bytes(relay.pid());
    let mut there = 0;
    let mut ratios = Vec::new();
    for entries in [1000.min(most), most] {
        let begun = Instant::now();
        let count = entries - there;
        caller.all(REGISTER, (there..entries).map(registration), 64).await;
        println!(
            "{entries} entries: {:.0} registrations/s",
            count as f64 / begun.elapsed().as_secs_f64()
        );
        there = entries;
        let beats = caller
            .for_a_while(HEARTBEAT, slice * 4, 16, move |n| HeartbeatRequest {
                peer_id: peer(n % entries),
                ..HeartbeatRequest::default()
            })
            .await;
        println!("  heartbeat            {beats}");
        verdict.figure("heartbeats/s", beats.per_second);
        for (limit, tags) in QUESTIONS {
            let with = if tags { "with tag" } else { "no tag" };
            let ask = move |n| question(n, limit, tags);
            let ratio = compare(&caller, (with, limit as usize), ask, (slice, rounds)).await;
            verdict.at_least(
                &format!("discover of {limit} at {entries} entries, tags {tags}, to bare"),
                ratio,
                TARGET,
            );
            ratios.push(ratio);
        }
    }
    let (few, all) = ratios.split_at(QUESTIONS.len());
    for ((limit, tags), (few, all)) in QUESTIONS.into_iter().zip(few.iter().zip(all)) {
        let what = format!("discover of {limit}, tags {tags}, at all entries to that at few");
        verdict.at_least(&what, all / few, FLAT);
    }
    let grown = proc_stats::rss_bytes(relay.pid()).saturating_sub(empty);
    println!("memory: {} bytes per entry", grown / most as u64);
    verdict.figure("bytes per entry", grown as f64 / most as f64);
    let begun = Instant::now();
    let reader = TestRelay::builder()
        .args(SETTINGS)
        .federated_with([&relay])
        .start()
        .await;
    eventually_within(
        Duration::from_mins(5),
        "the empty relay knows them all",
        || async { (reader.health().await["registry"]["federated_count"] == most).then_some(()) },
    )
    .await;
    println!(
        "an empty relay has learned {most} entries after {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    drop((reader, relay));
    two_tag_queries::run(verdict, most, (slice, rounds)).await;
}

/// Our registry and the bare service, in many short turns, since the machine's speed changes; the median of the ratios of
/// their rates. `found` agents are the answer to each question.
async fn compare(
    ours: &RegistryBenchClient,
    (what, found): (&str, usize),
    ask: impl Fn(usize) -> DiscoverBySkillRequest + Copy + Send + 'static,
    (slice, rounds): (Duration, usize),
) -> f64 {
    let answer = ours.once(DISCOVER, ask(1)).await;
    assert_eq!(answer.agents.len(), found, "{what}");
    let bare = bare_registry::start(&answer).await;
    let theirs = RegistryBenchClient::connect(bare.address).await;
    let mut ratios = Vec::new();
    let (mut our_best, mut bare_best) = (CallRate::default(), CallRate::default());
    for _ in 0..rounds {
        let one = theirs.for_a_while(DISCOVER, slice, 16, ask).await;
        let other = ours.for_a_while(DISCOVER, slice, 16, ask).await;
        ratios.push(other.per_second / one.per_second);
        our_best = our_best.max(other);
        bare_best = bare_best.max(one);
    }
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ratios.len() / 2];
    println!("  discover {found:>2} {what:<8} {our_best}; bare {bare_best}; ratio {ratio:.2}");
    ratio
}
