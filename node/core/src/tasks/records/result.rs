//! A result of a task, in the task's record or in one of its own.

use agentanycast_proto::v1::Artifact;
use prost::{Message as _, encoding::WireType};

use super::weight_of;
use crate::task::{Output, StreamOutcome, Streamed};

/// The field of a [`ResultRecord`] with the artifact.
const WHOLE: u32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ResultRecord {
    #[prost(message, optional, tag = "1")]
    whole: Option<Artifact>,
    #[prost(string, tag = "2")]
    artifact_id: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    media_type: String,
    #[prost(uint64, tag = "5")]
    bytes: u64,
    #[prost(uint32, tag = "6")]
    ended: u32,
}

impl ResultRecord {
    pub(crate) fn from_output(result: &Output) -> Self {
        match result {
            Output::Whole(artifact) => Self {
                whole: Some(artifact.clone()),
                ..Self::default()
            },
            Output::Streamed(streamed) => Self {
                whole: None,
                artifact_id: streamed.artifact_id.clone(),
                name: streamed.name.clone(),
                media_type: streamed.media_type.clone(),
                bytes: streamed.bytes,
                ended: match streamed.outcome {
                    None => 0,
                    Some(StreamOutcome::Complete) => 1,
                    Some(StreamOutcome::Canceled) => 2,
                    Some(StreamOutcome::Error) => 3,
                },
            },
        }
    }

    /// Bytes of the record of a result, without making it: a whole artifact may be large.
    pub(crate) fn encoded_len_of(result: &Output) -> usize {
        match result {
            Output::Whole(artifact) => prost::encoding::message::encoded_len(WHOLE, artifact),
            Output::Streamed(_) => Self::from_output(result).encoded_len(),
        }
    }

    /// The encoded record of a result, without a copy of its artifact in between.
    pub(crate) fn encode_of(result: &Output) -> Vec<u8> {
        match result {
            Output::Whole(artifact) => {
                let mut bytes = Vec::with_capacity(Self::encoded_len_of(result));
                prost::encoding::message::encode(WHOLE, artifact, &mut bytes);
                bytes
            }
            Output::Streamed(_) => Self::from_output(result).encode_to_vec(),
        }
    }

    /// The record of a result as this field of another one, without a copy of its artifact in between.
    pub(crate) fn encode_as(field: u32, result: &Output, bytes: &mut Vec<u8>) {
        match result {
            Output::Whole(artifact) => {
                prost::encoding::encode_key(field, WireType::LengthDelimited, bytes);
                prost::encoding::encode_varint(Self::encoded_len_of(result) as u64, bytes);
                prost::encoding::message::encode(WHOLE, artifact, bytes);
            }
            Output::Streamed(_) => prost::encoding::message::encode(field, &Self::from_output(result), bytes),
        }
    }

    pub(crate) fn output(self) -> Output {
        if let Some(artifact) = self.whole {
            return Output::Whole(artifact);
        }
        Output::Streamed(Streamed {
            artifact_id: self.artifact_id,
            name: self.name,
            media_type: self.media_type,
            bytes: self.bytes,
            outcome: match self.ended {
                0 => None,
                1 => Some(StreamOutcome::Complete),
                2 => Some(StreamOutcome::Canceled),
                _ => Some(StreamOutcome::Error),
            },
        })
    }
}

/// Bytes that a result counts against the quota, without those that were streamed.
pub(crate) fn weight_of_result(result: &Output) -> u64 {
    weight_of(ResultRecord::encoded_len_of(result))
}
