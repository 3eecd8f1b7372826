//! `anycast discover`: the agents that have a skill, as the node's registries know them.

use std::collections::BTreeMap;

use agentanycast::{DiscoveredAgent, DiscoveredSkill, DiscoveryResult, PeerId};
use clap::Args;
use serde_json::Value;

use crate::{
    arg_values::parse_label,
    context::Context,
    failure::{CommandFailure, FailureCode},
    json, output,
    peer_lookup::{self, PeerNames},
    peer_target, table,
};

#[derive(Debug, Args)]
pub(crate) struct DiscoverArgs {
    /// The skill's id
    pub(crate) skill: String,
    /// Only agents whose skill has this tag, such as lang=de; can be repeated
    #[arg(long = "tag", value_parser = parse_label, value_name = "KEY=VALUE")]
    pub(crate) tags: Vec<(String, String)>,
    /// Show ids whole
    #[arg(long)]
    pub(crate) full: bool,
    /// At most this many, 1 to 1000
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) limit: u16,
}

pub(crate) async fn run(context: &Context, args: DiscoverArgs) -> Result<(), CommandFailure> {
    if args.skill.is_empty() {
        return Err(CommandFailure::usage(
            "SKILL is empty; name the skill that is looked for".to_owned(),
        ));
    }
    let tags = once_each(args.tags)?;
    let node = context.connect_or_start().await?;
    let answer = node.discover(&args.skill, &tags, args.limit.into()).await?;
    if let Some(caution) = caution(&answer) {
        output::warn(&caution);
    }
    let found = answer.agents;
    if context.json {
        output::json(&Value::Array(found.iter().map(json::discovered_agent).collect()))?;
    }
    if found.is_empty() {
        // As a task for this skill would end. With --json the empty list is the whole answer on standard
        // output.
        let mut nobody = nobody(&args.skill, &tags);
        if !answer.meant_skill.is_empty() {
            nobody = format!("{nobody}; did you mean {}?", output::flat(&answer.meant_skill));
        }
        output::warn(&format!("anycast: {nobody}"));
        return Err(CommandFailure::new(FailureCode::NotFound, "SkillNotFound", nobody).already_reported());
    }
    if context.json {
        return Ok(());
    }
    let own = node.info().await?.peer_id;
    let names = peer_target::names(context, &node).await?;
    let rows = found
        .into_iter()
        .map(|agent| row(agent, &args.skill, &names, own.as_ref(), args.full));
    let rows: Vec<_> = rows.collect();
    Ok(table::print(
        ["PEER", "AGENT", "PROVEN", "TAGS", "DESCRIPTION"],
        &rows,
        args.full,
    )?)
}

/// A skill has one value of a tag, so nobody has two.
fn once_each(given: Vec<(String, String)>) -> Result<BTreeMap<String, String>, CommandFailure> {
    let mut tags = BTreeMap::new();
    for (key, value) in given {
        if let Some(first) = tags.insert(key.clone(), value.clone()) {
            let both = format!("--tag {key}={first} and --tag {key}={value}");
            return Err(CommandFailure::usage(format!(
                "{both}: a skill has one value of each tag; give one"
            )));
        }
    }
    Ok(tags)
}

/// What is to be known of an answer that is not what all registries say.
fn caution(answer: &DiscoveryResult) -> Option<String> {
    let who = output::flat(&answer.unanswered.join("; "));
    if answer.remembered {
        Some(format!(
            "anycast: these agents were found before and may be gone; registries that did not answer: {who}"
        ))
    } else if who.is_empty() {
        None
    } else {
        Some(format!(
            "anycast: agents may be missing, not every registry answered: {who}"
        ))
    }
}

fn nobody(skill: &str, tags: &BTreeMap<String, String>) -> String {
    let tags: Vec<_> = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let with = match tags.as_slice() {
        [] => String::new(),
        [tag] => format!(" and tag {tag}"),
        tags => format!(" and tags {}", tags.join(" ")),
    };
    format!("no agent with skill {skill}{with} is known")
}

fn row(
    agent: DiscoveredAgent,
    asked: &str,
    names: &PeerNames,
    own: Option<&PeerId>,
    full: bool,
) -> [String; 5] {
    let skill = agent.skills.iter().find(|skill| skill.id == asked);
    let tags = |skill: &DiscoveredSkill| {
        let tags = skill.tags.iter().map(|(key, value)| format!("{key}={value}"));
        tags.collect::<Vec<_>>().join(" ")
    };
    [
        agent
            .peer_id
            .map(|peer| peer_lookup::display_agent(names, own, &peer, &agent.agent, full))
            .unwrap_or_default(),
        output::brief(&agent.name),
        if agent.verified { "yes" } else { "no" }.to_owned(),
        output::brief(&skill.map(tags).unwrap_or_default()),
        output::brief(&skill.map_or(agent.description.clone(), |skill| skill.description.clone())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_given_once() {
        let given = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            once_each(pairs.collect())
        };
        assert_eq!(given(&[("lang", "de"), ("tier", "1")]).unwrap().len(), 2);
        let error = format!("{:?}", given(&[("lang", "de"), ("lang", "fr")]).unwrap_err());
        assert!(error.contains("lang=de") && error.contains("lang=fr"), "{error}");
    }

    #[test]
    fn what_was_asked_for_is_said() {
        let tags = |tags: &[(&str, &str)]| -> BTreeMap<String, String> {
            tags.iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        assert_eq!(nobody("echo", &tags(&[])), "no agent with skill echo is known");
        assert_eq!(
            nobody("echo", &tags(&[("lang", "de")])),
            "no agent with skill echo and tag lang=de is known"
        );
        assert_eq!(
            nobody("echo", &tags(&[("lang", "de"), ("tier", "1")])),
            "no agent with skill echo and tags lang=de tier=1 is known"
        );
    }
}
