//! What Kademlia reports: progress of queries, and what others want this node to keep. The one rule: whatever is
//! refused is counted.

use std::time::Instant;

use libp2p::kad::{
    Event, GetProvidersOk, GetRecordOk, InboundRequest, ProviderRecord, PutRecordError, QueryId, QueryResult,
    QueryStats, Record, store::RecordStore,
};

use super::{
    super::{
        super::address_book,
        address_filter::{MAX_ADVERTISED, without_peer_id},
        announcements::Announcement,
        key,
        record::{self, RecordError},
    },
    Behaviour, now_ms,
};

impl Behaviour {
    pub(super) fn on_kad_event(&mut self, event: Event) {
        match event {
            Event::OutboundQueryProgressed {
                id,
                result,
                stats,
                step,
            } => {
                self.on_progress(id, result, &stats);
                if step.last {
                    self.searches.ended(id, &mut self.kad);
                }
            }
            Event::InboundRequest {
                request:
                    InboundRequest::PutRecord {
                        record: Some(record), ..
                    },
            } => {
                let key = record.key.clone();
                if let Err(refused) = self.keep_record(record) {
                    self.counters.refused_records.increment();
                    tracing::debug!(peer = ?key::agent(&key), %refused, "record not kept");
                }
            }
            Event::InboundRequest {
                request: InboundRequest::AddProvider { record: Some(record) },
            } => {
                let peer = record.provider;
                if !self.keep_provider(record) {
                    self.counters.refused_providers.increment();
                    tracing::debug!(%peer, "provider not kept");
                }
            }
            Event::RoutingUpdated {
                peer,
                is_new_peer: true,
                ..
            } => {
                tracing::debug!(%peer, "in the routing table");
                if std::mem::take(&mut self.alone) {
                    self.announcements.retry_now(Instant::now());
                }
            }
            // It answers questions, and we have reached it there.
            Event::RoutablePeer { peer, address } if !address_book::is_relayed(&address) => {
                if let Some(address) =
                    without_peer_id(&address, peer).filter(|address| address_book::scope(address).is_some())
                {
                    self.kad.add_address(&peer, address);
                }
            }
            _ => {}
        }
    }

    fn on_progress(&mut self, id: QueryId, result: QueryResult, stats: &QueryStats) {
        match result {
            QueryResult::GetProviders(Ok(GetProvidersOk::FoundProviders { providers, .. })) => {
                let claims = |peer| {
                    self.address_filter
                        .claims(peer)
                        .iter()
                        .map(ToString::to_string)
                        .collect()
                };
                let found: Vec<_> = providers.into_iter().map(|peer| (peer, claims(peer))).collect();
                self.searches.found(id, found, &mut self.kad);
            }
            QueryResult::GetRecord(Ok(GetRecordOk::FoundRecord(found))) => {
                let found = found.record;
                match record::check(&found.key, &found.value, now_ms(), self.lifetime()) {
                    Ok((_, mut record)) => {
                        record.addresses.retain(|text| {
                            text.parse()
                                .is_ok_and(|address| self.address_filter.accepts(&address))
                        });
                        self.searches.record(id, record, &mut self.kad);
                    }
                    Err(refused) => {
                        self.counters.refused_records.increment();
                        tracing::debug!(peer = ?key::agent(&found.key), %refused, "record not believed");
                    }
                }
            }
            QueryResult::StartProviding(_) => self.announced(id, stats.num_successes() > 0),
            QueryResult::PutRecord(Ok(_)) => self.announced(id, true),
            QueryResult::PutRecord(Err(
                PutRecordError::QuorumFailed { success, .. } | PutRecordError::Timeout { success, .. },
            )) => self.announced(id, !success.is_empty()),
            _ => {}
        }
    }

    fn announced(&mut self, query: QueryId, reached: bool) {
        let item = self
            .announcements
            .ended(query, reached, Instant::now(), rand::random());
        let taken_back = self.agent.as_ref().is_some_and(|agent| agent.skills.is_empty());
        if !taken_back || item != Some(Announcement::Record) {
            return;
        }
        if reached {
            // Others have been told, and what they were told before expires.
            self.agent = None;
            self.announcements.replace([], Instant::now());
        }
        if let Some(waiting) = self.retracting.take() {
            // Whoever has gone away needs no answer.
            let _ = waiting.send(());
        }
    }

    fn keep_record(&mut self, mut record: Record) -> Result<(), RecordError> {
        let (now, now_ms, lifetime) = (Instant::now(), now_ms(), self.lifetime());
        let held = self
            .kad
            .store_mut()
            .get(&record.key)
            .map(|held| held.value.clone());
        // Told again by somebody else: it has been checked.
        if held.as_ref() == Some(&record.value) {
            return Ok(());
        }
        let (_, new) = record::check(&record.key, &record.value, now_ms, lifetime)?;
        let held = held.and_then(|held| record::check(&record.key, &held, now_ms, lifetime).ok());
        if held.is_some_and(|(_, held)| held.signed_at_ms >= new.signed_at_ms) {
            return Err(RecordError::Older);
        }
        let left = std::time::Duration::from_millis(new.expires_at_ms.saturating_sub(now_ms)) + lifetime.skew;
        let expires = now + left.min(lifetime.longest);
        record.expires = Some(record.expires.map_or(expires, |at| at.min(expires)));
        self.kad.store_mut().put(record).map_err(|_| RecordError::NoRoom)
    }

    /// Kademlia has made sure that the provider is who sent it.
    fn keep_provider(&mut self, mut record: ProviderRecord) -> bool {
        if !key::is_sha256(&record.key) {
            return false;
        }
        let peer = record.provider;
        let mut told: Vec<_> = record
            .addresses
            .iter()
            .filter_map(|address| without_peer_id(address, peer))
            .filter(|address| self.address_filter.accepts(address))
            .collect();
        // Kademlia keeps a provider to itself that has no address; those without a confirmed one name none.
        told.extend_from_slice(self.address_filter.claims(peer));
        told.dedup();
        told.truncate(MAX_ADVERTISED);
        record.addresses = told;
        self.kad.store_mut().add_provider(record).is_ok()
    }
}
