//! How a task stands with an agent beyond this network, in its state's record.

use agentanycast_proto::v1::ExternalStep;

use crate::task::{DeliveryLog, ExternalDelivery};

/// See the module's text.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExternalRecord {
    #[prost(string, tag = "1")]
    url: String,
    #[prost(bytes = "vec", tag = "2")]
    checkpoint: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub settled: bool,
    /// From here on: what older versions neither wrote nor read.
    #[prost(message, repeated, tag = "4")]
    steps: Vec<ExternalStep>,
    #[prost(uint32, tag = "5")]
    left_out: u32,
    #[prost(string, tag = "6")]
    remote: String,
    #[prost(bool, tag = "7")]
    allow_private: bool,
    #[prost(string, repeated, tag = "8")]
    growing: Vec<String>,
    #[prost(string, repeated, tag = "9")]
    grown: Vec<String>,
}

impl ExternalRecord {
    pub(super) fn from_delivery(outside: &ExternalDelivery) -> Self {
        let grown = |is_whole: bool| {
            let ids = outside.grown.iter().filter(move |(_, whole)| **whole == is_whole);
            ids.map(|(id, _)| id.clone()).collect()
        };
        Self {
            url: outside.url.clone(),
            checkpoint: outside.checkpoint.clone(),
            settled: outside.settled,
            steps: outside.log.steps.clone(),
            left_out: outside.log.dropped,
            remote: outside.log.remote.clone(),
            allow_private: outside.allow_private,
            growing: grown(false),
            grown: grown(true),
        }
    }

    pub(super) fn delivery(&self) -> ExternalDelivery {
        let growing = self.growing.iter().map(|id| (id.clone(), false));
        let grown = self.grown.iter().map(|id| (id.clone(), true));
        ExternalDelivery {
            grown: growing.chain(grown).collect(),
            url: self.url.clone(),
            allow_private: self.allow_private,
            checkpoint: self.checkpoint.clone(),
            settled: self.settled,
            log: DeliveryLog {
                steps: self.steps.clone(),
                dropped: self.left_out,
                remote: self.remote.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{decode, encode};

    /// What versions without a trail have of [`ExternalRecord`].
    #[derive(Clone, PartialEq, prost::Message)]
    struct ExternalRecordV1 {
        #[prost(string, tag = "1")]
        url: String,
        #[prost(bytes = "vec", tag = "2")]
        place: Vec<u8>,
        #[prost(bool, tag = "3")]
        settled: bool,
    }

    #[test]
    fn an_older_version_reads_it_and_is_read() {
        let older = ExternalRecordV1 {
            url: "https://agents.example".to_owned(),
            place: vec![7],
            settled: true,
        };
        let read: ExternalRecord = decode(&encode(&older)).unwrap();
        let mut outside = read.delivery();
        let expected = (older.url.as_str(), &older.place[..], older.settled);
        assert_eq!(
            (outside.url.as_str(), &outside.checkpoint[..], outside.settled),
            expected
        );
        assert_eq!(outside.log, DeliveryLog::default());
        assert!(!outside.allow_private);
        outside.allow_private = true;
        outside.grown = [("a".to_owned(), true), ("b".to_owned(), false)].into();
        outside.log.put(ExternalStep {
            count: 1,
            ..ExternalStep::default()
        });
        let record = ExternalRecord::from_delivery(&outside);
        assert_eq!(decode::<ExternalRecordV1>(&encode(&record)), Some(older));
        assert_eq!(
            decode::<ExternalRecord>(&encode(&record)).unwrap().delivery(),
            outside
        );
    }
}
