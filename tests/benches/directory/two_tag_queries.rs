//! Questions with two tags, to a relay of their own: half of its agents have each of them, and a quarter both or nobody.

use std::time::Duration;

use agentanycast_proto::v1::{DiscoverBySkillRequest, RegisterSkillsRequest, SkillInfo};
use agentanycast_tests::{TestRelay, bench_targets::BenchTargets};

use crate::{
    FLAT, SETTINGS, TARGET, compare,
    load::{REGISTER, RegistryBenchClient},
    peer,
};

/// Agents that are asked for.
const LIMIT: i32 = 10;

/// What is asked.
#[derive(Clone, Copy)]
struct TagQuery {
    what: &'static str,
    /// Whether each agent has a tag of its own beside those that are asked for.
    own: bool,
    tags: [&'static str; 2],
    /// Whether somebody has both.
    has_both: bool,
    /// Whether its cost has to be that of any other: nobody is found only by looking at all, where each is of its own kind.
    has_target: bool,
}

const QUESTIONS: [TagQuery; 4] = [
    TagQuery {
        what: "two tags, a quarter has both",
        own: false,
        tags: ["left", "right"],
        has_both: true,
        has_target: true,
    },
    TagQuery {
        what: "two tags, nobody has both",
        own: false,
        tags: ["left", "apart"],
        has_both: false,
        has_target: true,
    },
    TagQuery {
        what: "two tags, a quarter has both, each its own",
        own: true,
        tags: ["left", "right"],
        has_both: true,
        has_target: true,
    },
    TagQuery {
        what: "two tags, nobody has both, each its own",
        own: true,
        tags: ["left", "apart"],
        has_both: false,
        has_target: false,
    },
];

fn skill_of(own: bool) -> &'static str {
    if own { "with-own-tags" } else { "with-common-tags" }
}

fn registration(number: usize) -> RegisterSkillsRequest {
    let has = [
        ("left", number.is_multiple_of(2)),
        ("apart", !number.is_multiple_of(2)),
        ("right", number % 4 < 2),
    ];
    let common = has.into_iter().filter(|(_, has)| *has);
    let common: Vec<(String, String)> = common.map(|(tag, _)| (tag.to_owned(), "1".to_owned())).collect();
    let skill = |own: bool| {
        let further = own.then(|| ("host".to_owned(), number.to_string()));
        SkillInfo {
            skill_id: skill_of(own).to_owned(),
            description: "Translates short texts between two languages".into(),
            tags: common.iter().cloned().chain(further).collect(),
            agent: String::new(),
        }
    };
    RegisterSkillsRequest {
        peer_id: peer(number),
        skills: [false, true].map(skill).into(),
        agent_name: format!("Agent {number}"),
        ..RegisterSkillsRequest::default()
    }
}

impl TagQuery {
    fn request(self) -> DiscoverBySkillRequest {
        let tags = self.tags.map(|tag| (tag.to_owned(), "1".to_owned()));
        DiscoverBySkillRequest {
            skill_id: skill_of(self.own).to_owned(),
            tags: tags.into_iter().collect(),
            limit: LIMIT,
            federated: false,
        }
    }
}

/// The same turns as for other questions, with few agents and with all.
pub(crate) async fn run(verdict: &mut BenchTargets, most: usize, turns: (Duration, usize)) {
    let relay = TestRelay::builder().args(SETTINGS).start().await;
    let caller = RegistryBenchClient::connect(relay.registry).await;
    let mut there = 0;
    let mut ratios = Vec::new();
    for entries in [1000.min(most), most] {
        caller.all(REGISTER, (there..entries).map(registration), 64).await;
        there = entries;
        println!("{entries} entries of another relay, each with the tags of half of all:");
        for question in QUESTIONS {
            let found = if question.has_both { LIMIT as usize } else { 0 };
            let ask = move |_: usize| question.request();
            let ratio = compare(&caller, (question.what, found), ask, turns).await;
            let what = format!("{} at {entries} entries, to bare", question.what);
            if question.has_target {
                verdict.at_least(&what, ratio, TARGET);
            } else {
                verdict.figure(&what, ratio);
            }
            ratios.push(ratio);
        }
    }
    let (few, all) = ratios.split_at(QUESTIONS.len());
    for (question, (few, all)) in QUESTIONS.into_iter().zip(few.iter().zip(all)) {
        if question.has_target {
            let what = format!("{}, at all entries to that at few", question.what);
            verdict.at_least(&what, all / few, FLAT);
        }
    }
}
