//! How a task stands with an agent beyond this network, in its state's record.

use agentanycast_proto::v1::OutsideStep;

use crate::task::{Outside, Trail};

/// See the module's text.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OutsideRecord {
    #[prost(string, tag = "1")]
    url: String,
    #[prost(bytes = "vec", tag = "2")]
    place: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub(super) settled: bool,
    /// From here on: what older versions neither wrote nor read.
    #[prost(message, repeated, tag = "4")]
    steps: Vec<OutsideStep>,
    #[prost(uint32, tag = "5")]
    left_out: u32,
    #[prost(string, tag = "6")]
    remote: String,
    #[prost(bool, tag = "7")]
    allow_private: bool,
}

impl OutsideRecord {
    pub(super) fn of(outside: &Outside) -> Self {
        Self {
            url: outside.url.clone(),
            place: outside.place.clone(),
            settled: outside.settled,
            steps: outside.trail.steps.clone(),
            left_out: outside.trail.left_out,
            remote: outside.trail.remote.clone(),
            allow_private: outside.allow_private,
        }
    }

    pub(super) fn outside(&self) -> Outside {
        Outside {
            url: self.url.clone(),
            allow_private: self.allow_private,
            place: self.place.clone(),
            settled: self.settled,
            trail: Trail {
                steps: self.steps.clone(),
                left_out: self.left_out,
                remote: self.remote.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{decode, encode},
        *,
    };

    /// What versions without a trail have of [`OutsideRecord`].
    #[derive(Clone, PartialEq, prost::Message)]
    struct Older {
        #[prost(string, tag = "1")]
        url: String,
        #[prost(bytes = "vec", tag = "2")]
        place: Vec<u8>,
        #[prost(bool, tag = "3")]
        settled: bool,
    }

    #[test]
    fn an_older_version_reads_it_and_is_read() {
        let older = Older {
            url: "https://agents.example".to_owned(),
            place: vec![7],
            settled: true,
        };
        let read: OutsideRecord = decode(&encode(&older)).unwrap();
        let mut outside = read.outside();
        let expected = (older.url.as_str(), &older.place[..], older.settled);
        assert_eq!(
            (outside.url.as_str(), &outside.place[..], outside.settled),
            expected
        );
        assert_eq!(outside.trail, Trail::default());
        assert!(!outside.allow_private);
        outside.allow_private = true;
        outside.trail.put(OutsideStep {
            count: 1,
            ..OutsideStep::default()
        });
        let record = OutsideRecord::of(&outside);
        assert_eq!(decode::<Older>(&encode(&record)), Some(older));
        assert_eq!(
            decode::<OutsideRecord>(&encode(&record)).unwrap().outside(),
            outside
        );
    }
}
