//! `anycast card`: what an agent says about itself, the local one or a peer's.

use agentanycast::{AgentCard, ErrorKind, Node, PeerId};
use agentanycast_proto::card_agents::whole_card_of_agent;
use clap::Args;

use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    json,
    output::{self, agents_in_words},
    peer_target::PeerQuery,
    table,
};

#[derive(Debug, Args)]
pub(crate) struct CardArgs {
    /// The peer: an alias, its card's name, its id or a unique piece of it, did:key, did:web or multiaddr; PEER/AGENT is one
    /// of several agents there, self/AGENT one of this node; without, this node's card
    pub(crate) target: Option<String>,
}

pub(crate) async fn run(context: &Context, args: CardArgs) -> Result<(), CommandFailure> {
    let wanted = args.target.as_deref();
    let wanted = wanted
        .map(|text| PeerQuery::parse_with_agent(context, text))
        .transpose()?;
    let node = context.connect_or_start().await?;
    let (card, successor, warnings) = if let Some((wanted, agent)) = wanted {
        let target = wanted.find(context, &node).await?;
        target.reach(&node).await?;
        let known = node.known_card_of(&target.peer).await?;
        let agent = if agent.is_empty() { &target.agent } else { &agent };
        let card = match agent.as_str() {
            "" => known.card,
            agent => card_of(&node, &target.peer, known.card, agent).await?,
        };
        (card, known.successor, known.warnings)
    } else {
        (own_card(&node).await?, None, node.card_warnings().await?)
    };
    if context.json {
        let mut document = json::card(&card);
        document["successor"] = successor.map(|peer| peer.to_string()).into();
        document["warnings"] = warnings.into();
        return Ok(output::json(&document)?);
    }
    show(card, successor.as_ref())?;
    for warning in warnings {
        output::warn(&format!("anycast: {warning}"));
    }
    Ok(())
}

/// The card of one agent of the node that has this card.
async fn card_of(
    node: &Node,
    peer: &PeerId,
    card: AgentCard,
    agent: &str,
) -> Result<AgentCard, CommandFailure> {
    let mut page = AgentCard::default();
    if card.agents_total > 0 {
        // Where the node cannot be asked now, what its card says has to do.
        page = node.agents_page(peer, "", agent).await.unwrap_or_default();
    }
    let card = whole_card_of_agent(&card.into(), page.into(), agent);
    card.map(AgentCard::from)
        .map_err(|unknown| CommandFailure::new(FailureCode::NotFound, "CardNotFound", unknown.to_string()))
}

async fn own_card(node: &Node) -> Result<AgentCard, CommandFailure> {
    let own = node
        .info()
        .await?
        .peer_id
        .ok_or_else(CommandFailure::unnamed_daemon)?;
    node.card_of(&own).await.map_err(|error| match error.kind() {
        ErrorKind::CardNotFound => {
            let message = "no agent has set a card on this daemon yet";
            CommandFailure::new(FailureCode::NotFound, "CardNotFound", message)
        }
        _ => error.into(),
    })
}

/// What a node calls itself. The key has proven the card, and nothing that it says of names.
fn names(web: &str, dns: &str) -> String {
    match [web, dns].join(" ").trim() {
        "" => String::new(),
        names => format!("{names} (as it says; rules count a name once it is proven)"),
    }
}

fn show(card: AgentCard, successor: Option<&PeerId>) -> Result<(), CommandFailure> {
    let since = successor.map(|peer| format!("the peer has another key since this card, and is {peer}"));
    let reach = card.p2p.unwrap_or_default();
    let agents: Vec<&str> = card.agents.iter().map(|agent| agent.agent.as_str()).collect();
    output::fields(&[
        ("name", card.name),
        ("agent", card.agent),
        ("about", card.description),
        ("agents", agents_in_words(&agents, card.agents_total)),
        ("version", card.version),
        ("protocol", card.protocol_version),
        (
            "peer id",
            reach.peer_id.map(|peer| peer.to_string()).unwrap_or_default(),
        ),
        ("now", since.unwrap_or_default()),
        ("did", reach.did_key),
        ("names", names(&reach.did_web, &reach.did_dns)),
        ("transports", reach.transports.join(" ")),
        ("relays", reach.relay_addresses.join(" ")),
    ])?;
    let rows = card.skills.into_iter().map(|skill| {
        let tags = skill
            .tags
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>();
        [
            output::brief(&skill.id),
            output::brief(&tags.join(" ")),
            output::brief(&skill.description),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    output::line("")?;
    Ok(table::print(["SKILL", "TAGS", "ABOUT"], &rows, false)?)
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_name_is_told_as_a_claim() {
        assert_eq!(names("", ""), "");
        for (web, dns) in [
            ("did:web:a.example", ""),
            ("", "did:dns:a.example"),
            ("did:web:a.example", "did:dns:a.example"),
        ] {
            let shown = names(web, dns);
            assert!(
                shown.contains(web) && shown.contains(dns) && shown.contains("as it says"),
                "{shown}"
            );
        }
    }
}
