//! `anycast skills`: what known agents can do, and how many can.

use std::collections::BTreeMap;

use agentanycast::ListedAgent;
use clap::Args;
use serde_json::{Value, json};

use super::agents;
use crate::{context::Context, failure::CommandFailure, hints, output, table};

#[derive(Debug, Args)]
pub(crate) struct SkillsArgs {
    /// Only of this node's agent and those of connected peers: no registry is asked
    #[arg(long)]
    pub(crate) local: bool,
}

/// Agents that have a skill, and what one of them says of it.
#[derive(Debug, Default, PartialEq, Eq)]
struct SkillOffer {
    description: String,
    agents: Vec<String>,
    peers: Vec<String>,
}

pub(crate) async fn run(context: &Context, args: SkillsArgs) -> Result<(), CommandFailure> {
    let directory = context.connect_or_start().await?.agents(None, args.local).await?;
    agents::tell_unanswered(&directory.unanswered);
    let offers = offers(&directory.agents);
    if context.json {
        let documents = offers.iter().map(|(skill, offer)| {
            json!({"id": skill, "description": offer.description, "agents": offer.agents, "peer_ids": offer.peers})
        });
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    if offers.is_empty() {
        output::warn(&format!(
            "no skill is known; `{}` lists who is",
            hints::command("agents")
        ));
        return Ok(());
    }
    let rows = offers.into_iter().map(|(skill, offer)| {
        [
            output::brief(skill),
            output::brief(&offer.agents.join(", ")),
            output::brief(&offer.description),
        ]
    });
    Ok(table::print(
        ["SKILL", "AGENTS", "DESCRIPTION"],
        &rows.collect::<Vec<_>>(),
        false,
    )?)
}

/// Skills by name. The first description counts, since this node's agent and those nearby come first.
fn offers(agents: &[ListedAgent]) -> BTreeMap<&str, SkillOffer> {
    let mut offers: BTreeMap<&str, SkillOffer> = BTreeMap::new();
    for agent in agents {
        for skill in &agent.skills {
            let offer = offers.entry(&skill.id).or_default();
            if offer.description.is_empty() {
                offer.description.clone_from(&skill.description);
            }
            let peer = agent
                .peer_id
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            offer.agents.push(agent.name.clone());
            if !offer.peers.contains(&peer) {
                offer.peers.push(peer);
            }
        }
    }
    offers
}
