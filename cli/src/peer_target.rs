//! Whom a command is about, in the order in which that can be known: at once (what holds the key, an alias), or with
//! the daemon (agents of its own node, cards, pieces of ids, a did:web).

use agentanycast::{ErrorKind, ListedAgent, Node, PeerId};

use crate::{
    aliases::alias_table::{Alias, AliasTable},
    context::Context,
    did,
    failure::{CommandFailure, FailureCode},
    invite_code::{self, Invitation, InviteCodeError},
    peer_lookup::{LookupError, NamedPeer, PeerNames, PeerReference},
};

/// A peer, with the addresses that were given for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTarget {
    /// The peer.
    pub peer: PeerId,
    pub(crate) addresses: Vec<String>,
    /// The agent of its node that the name means; empty: it means none.
    pub(crate) agent: String,
    /// It was given by its address: that it cannot be reached there is an error.
    must_answer: bool,
}

/// A peer that a command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerQuery {
    /// Known already.
    Resolved(PeerTarget),
    /// By a did:web.
    DidWeb(String),
    /// By the name on a card, or a piece of an id.
    Name(String),
    /// The node of the daemon that is asked.
    OwnNode,
}

impl From<LookupError> for CommandFailure {
    fn from(error: LookupError) -> Self {
        let (code, kind) = match &error {
            LookupError::Malformed(_) => (FailureCode::Usage, "Usage"),
            LookupError::Unknown(_) => (FailureCode::NotFound, "PeerNotFound"),
            LookupError::Ambiguous(_) => (FailureCode::NotFound, "PeerAmbiguous"),
        };
        Self::new(code, kind, error.message())
    }
}

impl From<InviteCodeError> for CommandFailure {
    fn from(error: InviteCodeError) -> Self {
        Self::usage(error.to_string())
    }
}

impl PeerTarget {
    /// A peer of which the id is known, and maybe where it was reached.
    pub(crate) fn new(peer: PeerId, addresses: Vec<String>) -> Self {
        Self {
            peer,
            addresses,
            agent: String::new(),
            must_answer: false,
        }
    }

    /// What the user has named.
    fn of_alias(alias: &Alias) -> Self {
        Self {
            agent: alias.agent.clone(),
            ..Self::new(alias.peer.clone(), alias.addresses.clone())
        }
    }

    /// The node of an invite.
    pub(crate) fn from_invitation(invitation: &Invitation) -> Result<Self, CommandFailure> {
        let unreadable = |error| CommandFailure::usage(format!("the invite names no peer: {error}"));
        let peer = invitation.peer.to_string().parse().map_err(unreadable)?;
        Ok(Self::new(peer, invitation.dialled()))
    }

    /// The peer that a text means, and the agent of its node where it says one; a daemon is asked only for
    /// what aliases and the text do not say.
    pub(crate) async fn find_offline_first(context: &Context, text: &str) -> Result<Self, CommandFailure> {
        let (wanted, agent) = PeerQuery::parse_with_agent(context, text)?;
        let mut target = Self::find_peer(context, wanted, text).await?;
        if !agent.is_empty() {
            target.agent = agent;
        }
        Ok(target)
    }

    async fn find_peer(context: &Context, wanted: PeerQuery, text: &str) -> Result<Self, CommandFailure> {
        let wanted = match wanted {
            PeerQuery::Resolved(target) => return Ok(target),
            wanted => wanted,
        };
        match context.connect().await {
            Ok(node) => wanted.find(context, &node).await,
            Err(failure) if failure.is_daemon_away() => {
                let book = context.aliases()?;
                let names = PeerNames::new(book.peers(), Vec::new());
                match names.find(text) {
                    Ok(peer) => Ok(Self::new(peer, Vec::new())),
                    Err(error) => {
                        let message = format!("{}; no daemon runs that may know more", error.message());
                        Err(CommandFailure::new(
                            FailureCode::NotFound,
                            "PeerNotFound",
                            message,
                        ))
                    }
                }
            }
            Err(failure) => Err(failure),
        }
    }

    /// The same of an option's value.
    pub async fn from_option(context: &Context, option: &str, text: &str) -> Result<Self, CommandFailure> {
        let found = match PeerQuery::parse(context, text) {
            Ok(wanted) => Self::find_peer(context, wanted, text).await,
            Err(failure) => Err(failure),
        };
        found.map_err(|failure| failure.with_option(option))
    }

    /// Makes the daemon try the addresses that are known. It is an error if one was given and nobody answers there.
    pub(crate) async fn reach(&self, node: &Node) -> Result<(), CommandFailure> {
        if self.addresses.is_empty() {
            return Ok(());
        }
        if self.must_answer {
            node.connect_peer(&self.peer, self.addresses.iter()).await?;
            return Ok(());
        }
        // A task for a peer that is away waits for it.
        let (node, target) = (node.clone(), self.clone());
        tokio::spawn(async move { node.connect_peer(&target.peer, target.addresses).await });
        Ok(())
    }
}

/// What names this node in `self/AGENT`.
const OWN_NODE: &str = "self";

impl PeerQuery {
    /// What `PEER/AGENT` says: the peer, and the agent of its node; `self/AGENT` is one of this node, and
    /// `self` its primary one. Without an agent its name is empty.
    pub(crate) fn parse_with_agent(context: &Context, text: &str) -> Result<(Self, String), CommandFailure> {
        let is_alias = context.aliases()?.get(text).is_some();
        let named = text.split_once('/').filter(|(peer, agent)| {
            let is_agent_name =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
            !peer.is_empty() && !agent.is_empty() && agent.bytes().all(is_agent_name)
        });
        // What is no name of an agent is part of the name on a card, or of an address.
        match named.filter(|_| !is_alias) {
            Some((OWN_NODE, agent)) => Ok((Self::OwnNode, agent.to_owned())),
            Some((peer, agent)) => Ok((Self::parse(context, peer)?, agent.to_owned())),
            None if text == OWN_NODE && !is_alias => Ok((Self::OwnNode, String::new())),
            None => Ok((Self::parse(context, text)?, String::new())),
        }
    }

    /// What a text says without a daemon. An error if no daemon could know more.
    pub(crate) fn parse(context: &Context, text: &str) -> Result<Self, CommandFailure> {
        if invite_code::is_invite_code(text) {
            let invitation = Invitation::decode(text)?;
            return Ok(Self::Resolved(PeerTarget::from_invitation(&invitation)?));
        }
        let book = context.aliases()?;
        if let Some(target) = aliased(&book, text) {
            return Ok(Self::Resolved(target));
        }
        match PeerReference::parse(text)? {
            PeerReference::Peer(peer, address) => Ok(Self::Resolved(PeerTarget {
                must_answer: address.is_some(),
                ..PeerTarget::new(peer, address.into_iter().collect())
            })),
            PeerReference::DidWeb(did) => Ok(Self::DidWeb(did)),
            PeerReference::Name(name) if context.is_unused() => {
                let peer = PeerNames::new(book.peers(), Vec::new()).find(&name)?;
                Ok(Self::Resolved(PeerTarget::new(peer, Vec::new())))
            }
            PeerReference::Name(name) => Ok(Self::Name(name)),
        }
    }

    /// The peer, as the daemon knows it.
    pub(crate) async fn find(self, context: &Context, node: &Node) -> Result<PeerTarget, CommandFailure> {
        let peer = match self {
            Self::Resolved(target) => return Ok(target),
            Self::OwnNode => own_peer(node).await?,
            Self::Name(name) => {
                // What this node's user has called an agent goes before what peers say of themselves.
                if let Some(agent) = own_agent(node, &name).await? {
                    return Ok(PeerTarget {
                        agent,
                        ..PeerTarget::new(own_peer(node).await?, Vec::new())
                    });
                }
                names(context, node).await?.find(&name)?
            }
            Self::DidWeb(did) => by_did_web(node, &did).await?,
        };
        let book = context.aliases()?;
        let addresses = book.iter().find(|(_, alias)| alias.peer == peer);
        let addresses = addresses.map(|(_, alias)| alias.addresses.clone());
        Ok(PeerTarget::new(peer, addresses.unwrap_or_default()))
    }
}

fn aliased(book: &AliasTable, text: &str) -> Option<PeerTarget> {
    book.get(text).map(PeerTarget::of_alias)
}

/// Who the node of the daemon is.
async fn own_peer(node: &Node) -> Result<PeerId, CommandFailure> {
    let own = node.info().await?.peer_id;
    own.ok_or_else(CommandFailure::unnamed_daemon)
}

/// The agent of this node that a name means: by its name on the node, else by the one on its card. Empty: the
/// node's only one.
async fn own_agent(node: &Node, name: &str) -> Result<Option<String>, CommandFailure> {
    let listed = match node.agents(None, true).await {
        Ok(directory) => directory.agents,
        // The daemon is too old to list them.
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(own_among(&listed, name))
}

fn own_among(listed: &[ListedAgent], name: &str) -> Option<String> {
    let own = || listed.iter().filter(|agent| agent.own);
    let called = own().find(|agent| agent.agent == name);
    let mut on_cards = own().filter(|agent| agent.name == name);
    let only_card = || on_cards.next().filter(|_| on_cards.next().is_none());
    called.or_else(only_card).map(|agent| agent.agent.clone())
}

/// All names that are known: aliases, and what the daemon knows of peers.
pub(crate) async fn names(context: &Context, node: &Node) -> Result<PeerNames, CommandFailure> {
    let book = context.aliases()?;
    let known = match node.known_peers().await {
        Ok(known) => known,
        // The daemon is too old to say it.
        Err(error) if error.kind() == ErrorKind::Unsupported => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let known = known.into_iter().map(|known| NamedPeer {
        peer: known.id,
        card_name: known.name,
    });
    Ok(PeerNames::new(book.peers(), known.collect()))
}

/// The one peer that a did:web names; of several keys, the one that is known.
async fn by_did_web(node: &Node, did: &str) -> Result<PeerId, CommandFailure> {
    let named = node.peers_of_did(did).await?;
    let missing = |message: String| CommandFailure::new(FailureCode::NotFound, "PeerNotFound", message);
    match named.as_slice() {
        [] => Err(missing(format!("the document of {did} names no key of a peer"))),
        [peer] => Ok(peer.clone()),
        several => {
            let known = node.known_peers().await?;
            let mut fits = several
                .iter()
                .filter(|peer| known.iter().any(|known| known.id == **peer));
            if let (Some(peer), None) = (fits.next(), fits.next()) {
                return Ok(peer.clone());
            }
            let listed: Vec<_> = several
                .iter()
                .map(|peer| did::did_of_peer(peer).unwrap_or_default())
                .collect();
            let message = format!("{did} has several keys: {}; give one of them", listed.join(", "));
            Err(CommandFailure::new(
                FailureCode::NotFound,
                "PeerAmbiguous",
                message,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str, agent: &str, own: bool) -> ListedAgent {
        ListedAgent {
            peer_id: None,
            name: name.to_owned(),
            description: String::new(),
            skills: Vec::new(),
            own,
            via: None,
            lan: false,
            registered: false,
            verified: false,
            agent: agent.to_owned(),
        }
    }

    #[test]
    fn an_own_agent_is_found_by_its_name_before_its_card() {
        let all = [
            listed("Words", "words", true),
            listed("words", "second", true),
            listed("Twice", "a", true),
            listed("Twice", "b", true),
            listed("Alone", "", true),
            listed("far", "far", false),
        ];
        let found = |name: &str| own_among(&all, name);
        assert_eq!(found("words").as_deref(), Some("words"));
        assert_eq!(found("Words").as_deref(), Some("words"));
        assert_eq!(found("Alone").as_deref(), Some(""));
        assert_eq!((found("Twice"), found("far")), (None, None));
    }
}
