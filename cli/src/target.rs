//! Whom a command is about, in the order in which that can be known: at once (what holds the key, an alias), or with
//! the daemon (cards, pieces of ids, a did:web).

use agentanycast::{ErrorKind, Node, PeerId};

use crate::{
    aliases::book::Book,
    context::Context,
    did,
    failure::{Code, Failure},
    invite_code::{self, CodeError, Invitation},
    lookup::{Known, LookupError, Names, Written},
};

/// A peer, with the addresses that were given for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerTarget {
    pub(crate) peer: PeerId,
    pub(crate) addresses: Vec<String>,
    /// It was given by its address: that it cannot be reached there is an error.
    must_answer: bool,
}

/// A peer that a command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Known already.
    Found(PeerTarget),
    /// By a did:web.
    DidWeb(String),
    /// By the name on a card, or a piece of an id.
    Name(String),
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Self {
        let (code, kind) = match &error {
            LookupError::Malformed(_) => (Code::Usage, "Usage"),
            LookupError::Unknown(_) => (Code::NotFound, "PeerNotFound"),
            LookupError::Ambiguous(_) => (Code::NotFound, "PeerAmbiguous"),
        };
        Self::new(code, kind, error.message())
    }
}

impl From<CodeError> for Failure {
    fn from(error: CodeError) -> Self {
        Self::usage(error.to_string())
    }
}

impl PeerTarget {
    /// A peer of which the id is known, and maybe where it was reached.
    pub(crate) fn new(peer: PeerId, addresses: Vec<String>) -> Self {
        Self {
            peer,
            addresses,
            must_answer: false,
        }
    }

    /// The node of an invite.
    pub(crate) fn invited(invitation: &Invitation) -> Result<Self, Failure> {
        let unreadable = |error| Failure::usage(format!("the invite names no peer: {error}"));
        let peer = invitation.peer.to_string().parse().map_err(unreadable)?;
        Ok(Self {
            peer,
            addresses: invitation.dialled(),
            must_answer: false,
        })
    }

    /// The peer that a text means; a daemon is asked only for what aliases and the text do not say.
    pub(crate) async fn find_offline_first(context: &Context, text: &str) -> Result<Self, Failure> {
        let wanted = match Wanted::read(context, text)? {
            Wanted::Found(target) => return Ok(target),
            wanted => wanted,
        };
        match context.connect().await {
            Ok(node) => wanted.find(context, &node).await,
            Err(failure) if failure.is_daemon_away() => {
                let book = context.aliases()?;
                let names = Names::new(book.peers(), Vec::new());
                match names.find(text) {
                    Ok(peer) => Ok(Self::new(peer, Vec::new())),
                    Err(error) => {
                        let message = format!("{}; no daemon runs that may know more", error.message());
                        Err(Failure::new(Code::NotFound, "PeerNotFound", message))
                    }
                }
            }
            Err(failure) => Err(failure),
        }
    }

    /// The same of an option's value.
    pub(crate) async fn of_option(context: &Context, option: &str, text: &str) -> Result<Self, Failure> {
        let found = Self::find_offline_first(context, text).await;
        found.map_err(|failure| failure.about(option))
    }

    /// Makes the daemon try the addresses that are known. It is an error if one was given and nobody answers there.
    pub(crate) async fn reach(&self, node: &Node) -> Result<(), Failure> {
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

impl Wanted {
    /// What a text says without a daemon. An error if no daemon could know more.
    pub(crate) fn read(context: &Context, text: &str) -> Result<Self, Failure> {
        if invite_code::is_one(text) {
            let invitation = Invitation::decode(text)?;
            return Ok(Self::Found(PeerTarget::invited(&invitation)?));
        }
        let book = context.aliases()?;
        if let Some(target) = aliased(&book, text) {
            return Ok(Self::Found(target));
        }
        match Written::read(text)? {
            Written::Peer(peer, address) => Ok(Self::Found(PeerTarget {
                peer,
                must_answer: address.is_some(),
                addresses: address.into_iter().collect(),
            })),
            Written::DidWeb(did) => Ok(Self::DidWeb(did)),
            Written::Name(name) if context.is_unused() => {
                let peer = Names::new(book.peers(), Vec::new()).find(&name)?;
                Ok(Self::Found(PeerTarget::new(peer, Vec::new())))
            }
            Written::Name(name) => Ok(Self::Name(name)),
        }
    }

    /// The peer, as the daemon knows it.
    pub(crate) async fn find(self, context: &Context, node: &Node) -> Result<PeerTarget, Failure> {
        let peer = match self {
            Self::Found(target) => return Ok(target),
            Self::Name(name) => names(context, node).await?.find(&name)?,
            Self::DidWeb(did) => by_did_web(node, &did).await?,
        };
        let book = context.aliases()?;
        let addresses = book.iter().find(|(_, alias)| alias.peer == peer);
        let addresses = addresses.map(|(_, alias)| alias.addresses.clone());
        Ok(PeerTarget::new(peer, addresses.unwrap_or_default()))
    }
}

fn aliased(book: &Book, text: &str) -> Option<PeerTarget> {
    let alias = book.get(text)?;
    Some(PeerTarget::new(alias.peer.clone(), alias.addresses.clone()))
}

/// All names that are known: aliases, and what the daemon knows of peers.
pub(crate) async fn names(context: &Context, node: &Node) -> Result<Names, Failure> {
    let book = context.aliases()?;
    let known = match node.known_peers().await {
        Ok(known) => known,
        // The daemon is too old to say it.
        Err(error) if error.kind() == ErrorKind::Unsupported => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let known = known.into_iter().map(|known| Known {
        peer: known.id,
        card_name: known.name,
    });
    Ok(Names::new(book.peers(), known.collect()))
}

/// The one peer that a did:web names; of several keys, the one that is known.
async fn by_did_web(node: &Node, did: &str) -> Result<PeerId, Failure> {
    let named = node.peers_of_did(did).await?;
    let missing = |message: String| Failure::new(Code::NotFound, "PeerNotFound", message);
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
                .map(|peer| did::from_peer(peer).unwrap_or_default())
                .collect();
            let message = format!("{did} has several keys: {}; give one of them", listed.join(", "));
            Err(Failure::new(Code::NotFound, "PeerAmbiguous", message))
        }
    }
}
