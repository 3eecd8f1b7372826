//! Registration: how an agent comes, changes its card, name and access, and goes; each durable in the batch of who asks.
//!
//! Invariant: the record and the card in the store, the indexes of skills and the count of private agents are those of the
//! agents that are registered.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    num::NonZeroUsize,
    sync::Arc,
};

use agentanycast_proto::v1::AgentCard;
use agentanycast_store::{Store, StoreError};
use lru::LruCache;

use super::{
    Agents, MAX_SKILLS_OF_CARD, RegisteredAgent, access::RecordedAccess, records::AgentRecord,
    shown_cards::ShownCards, skill_index::SkillIndex,
};
use crate::{
    clock::Now,
    schema::{self, tag},
    transaction::{EngineError, Transaction},
    types::{AgentAccess, AgentOrigin, MAX_AGENT_NAME, RegistrationAccess, is_agent_name},
};

/// Most bytes of a card: what peers read, and the node's own additions.
const MAX_CARD_BYTES: usize = 320 << 10;

/// Most bytes of the ids of skills that an agent had.
const MAX_FORMER_BYTES: usize = 32 << 10;

/// Callers whose cards wait for them to listen.
const PENDING_CARDS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// The name of an agent, and its record as bytes.
type NamedRecord = (Arc<str>, Vec<u8>);

/// The records of all agents.
fn records_in(store: &dyn Store) -> Result<Vec<NamedRecord>, StoreError> {
    let mut records = Vec::new();
    agentanycast_store::for_each(store, &[tag::AGENT], |key, record| {
        let name = schema::split(key).and_then(|(name, _)| std::str::from_utf8(name).ok());
        if let Some(name) = name.filter(|name| is_agent_name(name)) {
            records.push((Arc::from(name), record.to_vec()));
        } else {
            tracing::error!(
                ?name,
                "the record of an agent has no name of an agent; it is not registered any more"
            );
        }
        Ok::<(), StoreError>(())
    })?;
    Ok(records)
}

impl Agents {
    /// As the store has them.
    pub(crate) fn load(
        transaction: &Transaction,
        max: usize,
        node_name: Option<String>,
    ) -> Result<Self, StoreError> {
        let mut agents = Self {
            by_name: BTreeMap::new(),
            by_skill: SkillIndex::default(),
            by_former_skill: SkillIndex::default(),
            primary: None,
            next_number: 1,
            unassigned: 0,
            max,
            node_name,
            bound: HashMap::new(),
            pending_cards: LruCache::new(PENDING_CARDS),
            private: 0,
            shown: ShownCards::default(),
            has_changed: false,
        };
        let store = transaction.store();
        for (name, record) in records_in(store)? {
            let card = agentanycast_store::get_large(store, &schema::key(tag::AGENT_CARD, name.as_bytes()))?;
            let card = card.and_then(|bytes| schema::decode::<AgentCard>(&bytes));
            let (Some(record), Some(card)) = (schema::decode::<AgentRecord>(&record), card) else {
                tracing::error!(
                    agent = &*name,
                    "the record of an agent is damaged; it is not registered any more"
                );
                continue;
            };
            if record.is_primary {
                agents.primary = Some(Arc::clone(&name));
            }
            let agent = record.agent(card);
            agents.next_number = agents.next_number.max(agent.number + 1);
            if agent.access.access.is_none() {
                tracing::warn!(
                    agent = &*name,
                    "an agent is open to every peer, as it was registered before agents could be private; close it: anycast agents set {name} --private"
                );
            }
            agents.private += usize::from(agent.access.is_private());
            agents.index_skills(&name, &agent);
            agents.by_name.insert(name, agent);
        }
        Ok(agents)
    }

    /// Refuses a card with more than a card may have.
    pub(crate) fn check_card(card: &AgentCard) -> Result<(), EngineError> {
        if card.skills.len() > MAX_SKILLS_OF_CARD {
            return Err(EngineError::Invalid(format!(
                "the card has {} skills; a card may have {MAX_SKILLS_OF_CARD}",
                card.skills.len()
            )));
        }
        Ok(())
    }

    /// Registers an agent, or gives the one of this name another card.
    pub(crate) fn register(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        name: &str,
        card: AgentCard,
        origin: AgentOrigin,
        asked: RegistrationAccess,
    ) -> Result<Arc<str>, EngineError> {
        if !is_agent_name(name) {
            let shown = &name[..name.floor_char_boundary(80)];
            return Err(EngineError::Invalid(format!(
                "{shown:?} is no name of an agent: 1 to {MAX_AGENT_NAME} of a-z, 0-9, '.', '_' and '-', with a letter or digit first"
            )));
        }
        Self::check_card(&card)?;
        if let Some((known, _)) = self.by_name.get_key_value(name) {
            let known = Arc::clone(known);
            self.register_again(transaction, now, &known, card, origin, asked);
            return Ok(known);
        }
        if self.by_name.len() >= self.max {
            return Err(EngineError::Exhausted(format!(
                "{} agents are registered, the limit (max_agents); remove some with `anycast agents rm NAME`",
                self.by_name.len()
            )));
        }
        let name: Arc<str> = Arc::from(name);
        let is_primary = self.by_name.is_empty();
        if is_primary {
            self.primary = Some(Arc::clone(&name));
        }
        let agent = RegisteredAgent {
            card: Arc::new(card),
            origin,
            number: self.next_number,
            last_attached: 0,
            callers: BTreeSet::new(),
            open_tasks: if is_primary {
                std::mem::take(&mut self.unassigned)
            } else {
                0
            },
            failures: 0,
            former: BTreeMap::new(),
            access: RecordedAccess::of_new(asked),
        };
        self.private += usize::from(agent.access.is_private());
        self.index_skills(&name, &agent);
        self.next_number += 1;
        self.by_name.insert(Arc::clone(&name), agent);
        self.write(transaction, &name);
        self.write_card(transaction, &name);
        Ok(name)
    }

    /// Gives a registered agent another card.
    fn register_again(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        known: &Arc<str>,
        card: AgentCard,
        origin: AgentOrigin,
        asked: RegistrationAccess,
    ) {
        let Some(mut agent) = self.by_name.remove(known) else {
            return;
        };
        let origin = match (agent.origin, origin) {
            (AgentOrigin::Card, AgentOrigin::Card) => AgentOrigin::Card,
            _ => AgentOrigin::Service,
        };
        let access = agent.access.again(asked);
        if *agent.card == card && agent.origin == origin && agent.access == access {
            self.by_name.insert(Arc::clone(known), agent);
            return;
        }
        self.unindex_skills(known, &agent);
        agent.set_card(now, card);
        agent.origin = origin;
        self.private -= usize::from(agent.access.is_private());
        agent.access = access;
        self.private += usize::from(agent.access.is_private());
        self.index_skills(known, &agent);
        self.by_name.insert(Arc::clone(known), agent);
        self.write(transaction, known);
        self.write_card(transaction, known);
    }

    /// Gives an agent a free name. Its open tasks, if their agent is written with them, are the caller's to rewrite.
    pub(crate) fn rename(&mut self, transaction: &mut Transaction, from: &str, to: &str) {
        let Some((old, agent)) = self.by_name.remove_entry(from) else {
            return;
        };
        delete_records(transaction, &old);
        self.unindex_skills(&old, &agent);
        let name: Arc<str> = Arc::from(to);
        self.index_skills(&name, &agent);
        if self.primary.as_ref() == Some(&old) {
            self.primary = Some(Arc::clone(&name));
        }
        for bound in self.bound.values_mut() {
            if bound.remove(&Some(Arc::clone(&old))) {
                bound.insert(Some(Arc::clone(&name)));
            }
        }
        self.by_name.insert(Arc::clone(&name), agent);
        self.write(transaction, &name);
        self.write_card(transaction, &name);
    }

    /// Removes an agent. Its card, if it was registered.
    pub(crate) fn remove(&mut self, transaction: &mut Transaction, name: &str) -> Option<Arc<AgentCard>> {
        let (name, agent) = self.by_name.remove_entry(name)?;
        delete_records(transaction, &name);
        self.unindex_skills(&name, &agent);
        self.private -= usize::from(agent.access.is_private());
        if self.primary.as_ref() == Some(&name) {
            self.primary = None;
        }
        self.changed();
        Some(agent.card)
    }

    /// Who may use an agent, until its owner says otherwise. Nothing if there is none of this name.
    pub(crate) fn set_access(&mut self, transaction: &mut Transaction, name: &str, access: AgentAccess) {
        let Some((name, mut agent)) = self.by_name.remove_entry(name) else {
            return;
        };
        self.private -= usize::from(agent.access.is_private());
        agent.access = RecordedAccess::set(access);
        self.private += usize::from(agent.access.is_private());
        self.by_name.insert(Arc::clone(&name), agent);
        self.write(transaction, &name);
        self.changed();
    }

    fn index_skills(&mut self, name: &Arc<str>, agent: &RegisteredAgent) {
        for skill in &agent.card.skills {
            self.by_skill.insert(&skill.id, name);
        }
        for skill in agent.former.keys() {
            self.by_former_skill.insert(skill, name);
        }
    }

    fn unindex_skills(&mut self, name: &Arc<str>, agent: &RegisteredAgent) {
        for skill in &agent.card.skills {
            self.by_skill.remove(&skill.id, name);
        }
        for skill in agent.former.keys() {
            self.by_former_skill.remove(skill, name);
        }
    }

    pub(super) fn write(&self, transaction: &mut Transaction, name: &Arc<str>) {
        if let Some(agent) = self.by_name.get(name) {
            let record = AgentRecord::from_agent(agent, self.primary.as_ref() == Some(name));
            let key = schema::key(tag::AGENT, name.as_bytes());
            transaction.batch().put(key, schema::encode(&record));
        }
    }

    fn write_card(&mut self, transaction: &mut Transaction, name: &Arc<str>) {
        if let Some(agent) = self.by_name.get(name) {
            let key = schema::key(tag::AGENT_CARD, name.as_bytes());
            transaction.batch().put_large(&key, schema::encode(&*agent.card));
        }
        self.changed();
    }
}

impl RegisteredAgent {
    /// It has this card from now on. What that lacks of the last one is a former skill.
    fn set_card(&mut self, now: Now, card: AgentCard) {
        let last = std::mem::replace(&mut self.card, Arc::new(card));
        for skill in &last.skills {
            self.former.insert(skill.id.clone(), now.unix);
        }
        for skill in &self.card.skills {
            self.former.remove(&skill.id);
        }
        let bytes = |former: &BTreeMap<String, u64>| former.keys().map(String::len).sum::<usize>();
        while self.former.len() > MAX_SKILLS_OF_CARD || bytes(&self.former) > MAX_FORMER_BYTES {
            let oldest = self.former.iter().min_by_key(|(_, lost_at)| **lost_at);
            let Some(oldest) = oldest.map(|(skill, _)| skill.clone()) else {
                return;
            };
            self.former.remove(&oldest);
        }
    }
}

fn delete_records(transaction: &mut Transaction, name: &str) {
    let batch = transaction.batch();
    batch.delete(schema::key(tag::AGENT, name.as_bytes()));
    batch.delete_large(&schema::key(tag::AGENT_CARD, name.as_bytes()), MAX_CARD_BYTES);
}
