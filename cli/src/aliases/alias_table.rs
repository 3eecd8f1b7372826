//! Aliases and the text that they are kept as. PURE.
//!
//! The rule: an alias is one word that can mean nothing else where a peer is named, so it is no peer id, DID, address,
//! URL or invite.

use std::collections::BTreeMap;

use agentanycast::PeerId;
use serde::{Deserialize, Serialize};

use crate::hints;

/// Longest alias, in bytes.
const MAX_NAME: usize = 64;

/// Most aliases of a home, and most addresses of one.
const MAX_ALIASES: usize = 10_000;
const MAX_ADDRESSES: usize = 16;

/// Largest file, in bytes.
pub(crate) const MAX_FILE: u64 = 8 << 20;

/// What the file begins with.
const HEAD: &str = "# Names of peers for the anycast command. `anycast alias add NAME PEER` and `anycast alias rm NAME` edit this file.\n";

/// Whom an alias means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) peer: PeerId,
    /// Where it was dialled, each ending in /p2p/ and its id; tried first.
    pub(crate) addresses: Vec<String>,
    /// The agent of its node that is meant; empty: the peer as such.
    pub(crate) agent: String,
}

/// All aliases of a home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AliasTable {
    aliases: BTreeMap<String, Alias>,
}

/// An alias as the file has it.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct AliasRecord {
    peer: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    agent: String,
}

/// Whether a text can be an alias; else why not.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let refused = |why: &str| Err(format!("{name:?} cannot be an alias: {why}"));
    if name.is_empty() || name.len() > MAX_NAME {
        return refused("it has 1 to 64 characters");
    }
    let letter = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    if !name.chars().all(letter) || !name.starts_with(char::is_alphanumeric) {
        return refused("it begins with a letter or digit, and has letters, digits, and - _ . @ only");
    }
    if name.parse::<PeerId>().is_ok() {
        return refused("it is a peer id");
    }
    Ok(())
}

impl AliasTable {
    /// Reads the file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let written: BTreeMap<String, AliasRecord> =
            toml::from_str(text).map_err(|error| error.to_string())?;
        let mut book = Self::default();
        for (name, record) in written {
            let AliasRecord {
                peer,
                addresses,
                agent,
            } = record;
            let peer = peer
                .parse()
                .map_err(|error| format!("the alias {name:?}: {error}"))?;
            let alias = Alias {
                peer,
                addresses,
                agent,
            };
            book.set(&name, alias)?;
        }
        Ok(book)
    }

    /// The text of the file.
    pub(crate) fn to_text(&self) -> String {
        let written = self.aliases.iter().map(|(name, alias)| {
            let Alias {
                peer,
                addresses,
                agent,
            } = alias.clone();
            let record = AliasRecord {
                peer: peer.to_string(),
                addresses,
                agent,
            };
            (name.clone(), record)
        });
        let written: BTreeMap<String, AliasRecord> = written.collect();
        // Names and texts only, which TOML always can write.
        let body = toml::to_string(&written).unwrap_or_default();
        format!("{HEAD}{body}")
    }

    /// Gives a peer this name, also if another one had it.
    pub(crate) fn set(&mut self, name: &str, alias: Alias) -> Result<(), String> {
        check_name(name)?;
        let ends_wrong = |address: &&String| !address.ends_with(&format!("/p2p/{}", alias.peer));
        if let Some(wrong) = alias.addresses.iter().find(ends_wrong) {
            return Err(format!(
                "the address {wrong:?} of the alias {name:?} does not end in /p2p/{}",
                alias.peer
            ));
        }
        if !alias.agent.is_empty() && !agentanycast_proto::agent_name::is_agent_name(&alias.agent) {
            return Err(format!(
                "the agent {:?} of the alias {name:?} is no name of an agent",
                alias.agent
            ));
        }
        if alias.addresses.len() > MAX_ADDRESSES {
            return Err(format!(
                "the alias {name:?} has more than {MAX_ADDRESSES} addresses"
            ));
        }
        if self.aliases.len() >= MAX_ALIASES && !self.aliases.contains_key(name) {
            return Err(format!(
                "there are {MAX_ALIASES} aliases, the limit; remove some with `{}`",
                hints::command("alias rm NAME")
            ));
        }
        self.aliases.insert(name.to_owned(), alias);
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Alias> {
        self.aliases.get(name)
    }

    /// Forgets a name; whom it meant.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Alias> {
        self.aliases.remove(name)
    }

    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Alias)> {
        self.aliases.iter().map(|(name, alias)| (name.as_str(), alias))
    }

    /// Whom each name of a peer means; those of agents name no peer.
    pub(crate) fn peers(&self) -> BTreeMap<String, PeerId> {
        let peers = self.aliases.iter().filter(|(_, alias)| alias.agent.is_empty());
        peers
            .map(|(name, alias)| (name.clone(), alias.peer.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PEER: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

    fn alias(addresses: &[&str]) -> Alias {
        Alias {
            peer: PEER.parse().unwrap(),
            addresses: addresses
                .iter()
                .map(|address| format!("{address}/p2p/{PEER}"))
                .collect(),
            agent: String::new(),
        }
    }

    #[test]
    fn an_alias_means_nothing_else() {
        for good in ["bob", "Bob-2", "日本", "a.b_c", "bob@home", "1"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let long = "x".repeat(65);
        for bad in [
            "",
            "/ip4",
            "did:key:x",
            "a b",
            "-x",
            "@file",
            "https://x",
            PEER,
            &long,
            "a\n",
            "a\u{202e}",
        ] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_that_says_something_else_is_refused_with_the_reason() {
        for (text, word) in [
            ("bob = 1", "bob"),
            ("[bob]\npeer = \"x\"", "bob"),
            (
                "[bob]\npeer = \"12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK\"\nport = 1",
                "port",
            ),
            (
                "[\"a b\"]\npeer = \"12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK\"",
                "a b",
            ),
            ("[bob", "TOML"),
        ] {
            let said = AliasTable::parse(text).unwrap_err();
            assert!(said.contains(word), "{text}: {said}");
        }
        let mut book = AliasTable::default();
        let mut strange = alias(&[]);
        strange.agent = "No Name".to_owned();
        assert!(
            book.set("bob", strange)
                .unwrap_err()
                .contains("no name of an agent")
        );
        let mut stranger = alias(&[]);
        stranger.addresses.push("/ip4/192.0.2.1/tcp/1/p2p/x".to_owned());
        assert!(book.set("bob", stranger).unwrap_err().contains("does not end"));
        assert_eq!(book, AliasTable::default());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            names in prop::collection::vec("[a-zà-ö0-9][a-zA-Z0-9._@-]{0,12}", 0..8),
            addresses in prop::collection::vec("/dns/[a-z]{1,9}/tcp/1", 0..3),
            removed in 0..8_usize,
        ) {
            let mut book = AliasTable::default();
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            for (at, name) in names.iter().enumerate() {
                let agent = if at % 2 == 0 { String::new() } else { "words".to_owned() };
                book.set(name, Alias { agent, ..alias(&addresses) }).unwrap();
            }
            if let Some(name) = names.get(removed) {
                prop_assert!(book.remove(name).is_some());
                prop_assert_eq!(book.get(name), None);
            }
            prop_assert_eq!(AliasTable::parse(&book.to_text()), Ok(book));
        }
    }
}
