//! How far a message unfolds when it is decoded: on the wire an empty part takes 2 bytes, in memory a hundred.
//!
//! Pure. It walks the encoded form by the descriptors of the messages, without decoding anything, and counts
//! what decoding would make: nested messages, map entries, repeated texts. The one rule: the walk never takes
//! more memory than a fixed depth, and never counts less than decoding would make.

use std::{collections::HashMap, sync::LazyLock};

use prost::{
    Message as _,
    encoding::{WireType, decode_key, decode_varint},
};
use prost_types::{
    FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

/// Memory that one counted element takes at most, in bytes, besides its encoded content: the largest structure
/// (a skill of a card) and the allocator's share. A test compares it with the generated types.
pub const ELEMENT_BYTES: usize = 128;

/// Deepest nesting that is followed; the decoder refuses what is deeper.
const MAX_DEPTH: usize = 100;

/// What is about to be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// An `A2AEnvelope`.
    Envelope,
    /// An `AgentCard`.
    Card,
    /// A `RegisterSkillsRequest`.
    Registration,
    /// A `PushRegistrationsRequest`.
    Registrations,
    /// A `DiscoverBySkillResponse`.
    Discovered,
    /// A `SyncRegistrationsResponse`.
    Synced,
    /// A `SendMessageRequest` of A2A 1.0.
    Send,
    /// A `SendMessageRequest` of A2A 0.3.
    OldSend,
    /// A `CreateTaskPushNotificationConfigRequest` of A2A 0.3.
    OldSetPush,
    /// A `SealedContent`.
    Sealed,
}

/// Why a message should not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeLimit {
    /// It has more elements than this.
    TooMany(usize),
    /// It is no encoded message, or is nested too deeply.
    Malformed,
}

impl std::fmt::Display for DecodeLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany(most) => write!(f, "a message of more than {most} parts, values and entries"),
            Self::Malformed => f.write_str("a message that cannot be decoded"),
        }
    }
}

impl std::error::Error for DecodeLimit {}

/// Number of elements in an encoded message; it stops counting above `most`.
///
/// # Errors
/// See [`DecodeLimit`]. What passes may still fail to decode.
pub fn elements(kind: MessageKind, bytes: &[u8], most: usize) -> Result<usize, DecodeLimit> {
    OWN.shapes.elements_of(OWN.roots[kind as usize], bytes, most)
}

/// Takes the content of one field off; that of a length-delimited one is given back.
fn content<'a>(rest: &mut &'a [u8], wire: WireType) -> Result<&'a [u8], DecodeLimit> {
    let length = match wire {
        WireType::Varint => {
            decode_varint(rest).map_err(|_| DecodeLimit::Malformed)?;
            0
        }
        WireType::ThirtyTwoBit => 4,
        WireType::SixtyFourBit => 8,
        WireType::LengthDelimited => {
            let length = decode_varint(rest).map_err(|_| DecodeLimit::Malformed)?;
            usize::try_from(length).map_err(|_| DecodeLimit::Malformed)?
        }
        // No message of ours has ever had a group, and a walk by lengths cannot skip one.
        WireType::StartGroup | WireType::EndGroup => return Err(DecodeLimit::Malformed),
    };
    let (content, after) = rest.split_at_checked(length).ok_or(DecodeLimit::Malformed)?;
    *rest = after;
    Ok(content)
}

/// What a field of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// A scalar or a single text: takes no more memory than on the wire.
    Flat,
    /// One of many texts.
    Text,
    /// A message, with the place of its own shape.
    Nested(usize),
}

/// The messages of some descriptor sets, each as its fields by number.
#[derive(Debug)]
pub struct MessageShapes {
    all: Vec<Vec<Field>>,
    /// By full name, with a dot before the package.
    places: HashMap<String, usize>,
}

/// One of these messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageShape(usize);

/// The messages of this crate.
struct OwnShapes {
    shapes: MessageShapes,
    /// In the order of [`MessageKind`].
    roots: [usize; 10],
}

static OWN: LazyLock<OwnShapes> = LazyLock::new(|| {
    let shapes = MessageShapes::read(&[crate::FILE_DESCRIPTOR_SET, crate::A2A_DESCRIPTOR_SET]);
    let place = |name: &str| shapes.places.get(name).copied().unwrap_or_default();
    let roots = [
        place(".agentanycast.v1.A2AEnvelope"),
        place(".agentanycast.v1.AgentCard"),
        place(".agentanycast.v1.RegisterSkillsRequest"),
        place(".agentanycast.v1.PushRegistrationsRequest"),
        place(".agentanycast.v1.DiscoverBySkillResponse"),
        place(".agentanycast.v1.SyncRegistrationsResponse"),
        place(".lf.a2a.v1.SendMessageRequest"),
        place(".a2a.v1.SendMessageRequest"),
        place(".a2a.v1.CreateTaskPushNotificationConfigRequest"),
        place(".agentanycast.v1.SealedContent"),
    ];
    OwnShapes { shapes, roots }
});

impl MessageShapes {
    /// Of encoded descriptor sets, which are part of a program; one that cannot be decoded counts as empty, and so should be
    /// decoded by a test. All imports of their files must be in them.
    pub fn read(descriptor_sets: &[&[u8]]) -> Self {
        let sets: Vec<_> = descriptor_sets
            .iter()
            .map(|bytes| FileDescriptorSet::decode(*bytes).unwrap_or_default())
            .collect();
        let mut messages = Vec::new();
        for file in sets.iter().flat_map(|set| &set.file) {
            for message in &file.message_type {
                flatten(&format!(".{}", file.package()), message, &mut messages);
            }
        }
        let places: HashMap<String, usize> = messages
            .iter()
            .enumerate()
            .map(|(place, (name, _))| (name.clone(), place))
            .collect();
        let place = |name: &str| places.get(name).copied().unwrap_or_default();
        let all = messages.iter().map(|(_, message)| {
            let most = message
                .field
                .iter()
                .map(prost_types::FieldDescriptorProto::number)
                .max();
            let mut fields = vec![Field::Flat; most.unwrap_or_default() as usize + 1];
            for field in &message.field {
                fields[field.number() as usize] = match field.r#type() {
                    Type::Message => Field::Nested(place(field.type_name())),
                    Type::String | Type::Bytes if field.label() == Label::Repeated => Field::Text,
                    _ => Field::Flat,
                };
            }
            fields
        });
        Self {
            all: all.collect(),
            places,
        }
    }

    /// The message of this full name (`package.Message`), if the descriptors have it.
    pub fn message(&self, full_name: &str) -> Option<MessageShape> {
        let place = self.places.get(&format!(".{full_name}"));
        place.copied().map(MessageShape)
    }

    /// Number of elements in an encoded message of this shape, which is of these descriptors; it stops counting above `most`.
    ///
    /// # Errors
    /// See [`DecodeLimit`]. What passes may still fail to decode.
    pub fn elements(&self, shape: MessageShape, bytes: &[u8], most: usize) -> Result<usize, DecodeLimit> {
        self.elements_of(shape.0, bytes, most)
    }

    fn elements_of(&self, root: usize, bytes: &[u8], most: usize) -> Result<usize, DecodeLimit> {
        let mut count = 0;
        let mut above: Vec<(&[u8], usize)> = Vec::new();
        let (mut rest, mut shape) = (bytes, root);
        loop {
            while rest.is_empty() {
                let Some(outer) = above.pop() else {
                    return Ok(count);
                };
                (rest, shape) = outer;
            }
            let (number, wire) = decode_key(&mut rest).map_err(|_| DecodeLimit::Malformed)?;
            let content = content(&mut rest, wire)?;
            let field = self.all[shape]
                .get(number as usize)
                .copied()
                .unwrap_or(Field::Flat);
            if wire != WireType::LengthDelimited || field == Field::Flat {
                continue;
            }
            count += 1;
            if count > most {
                return Err(DecodeLimit::TooMany(most));
            }
            if let Field::Nested(inner) = field {
                if above.len() >= MAX_DEPTH {
                    return Err(DecodeLimit::Malformed);
                }
                above.push((rest, shape));
                (rest, shape) = (content, inner);
            }
        }
    }
}

/// A message and those declared within it (maps have their entries there), with their full names.
fn flatten<'a>(
    outer: &str,
    message: &'a prost_types::DescriptorProto,
    into: &mut Vec<(String, &'a prost_types::DescriptorProto)>,
) {
    let name = format!("{outer}.{}", message.name());
    for inner in &message.nested_type {
        flatten(&name, inner, into);
    }
    into.push((name, message));
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use prost_types::{ListValue, Struct, Value, value};

    use super::*;
    use crate::{
        a2a, a2a_0_3,
        v1::{
            A2aEnvelope, AgentCard, Artifact, DataPart, FederatedRegistration, Message, P2pExtension, Part,
            PushRegistrationsRequest, RegisterSkillsRequest, SendTaskPayload, Skill, SkillInfo, Task,
            TaskCompletePayload, TextPart, a2a_envelope::Payload, part::Content,
        },
    };

    fn envelope(payload: Payload) -> Vec<u8> {
        A2aEnvelope {
            envelope_id: "e".into(),
            payload: Some(payload),
            ..A2aEnvelope::default()
        }
        .encode_to_vec()
    }

    fn with_parts(parts: Vec<Part>) -> Vec<u8> {
        envelope(Payload::SendTask(SendTaskPayload {
            task_id: "t".into(),
            message: Some(Message {
                parts,
                ..Message::default()
            }),
            ..SendTaskPayload::default()
        }))
    }

    fn count(bytes: &[u8]) -> usize {
        elements(MessageKind::Envelope, bytes, usize::MAX).unwrap()
    }

    #[test]
    fn parts_entries_values_and_texts_count() {
        // The payload and its message.
        assert_eq!(count(&with_parts(vec![])), 2);
        assert_eq!(count(&with_parts(vec![Part::default(); 10])), 12);
        let text = Part {
            content: Some(Content::TextPart(TextPart {
                text: "\n\n".repeat(1000),
            })),
            metadata: [("a".to_owned(), "b".to_owned())].into(),
            ..Part::default()
        };
        // The part, its content, its entry; whatever the text looks like.
        assert_eq!(count(&with_parts(vec![text])), 5);
        let list = Value {
            kind: Some(value::Kind::ListValue(ListValue {
                values: vec![Value { kind: None }; 100],
            })),
        };
        let data = Part {
            content: Some(Content::DataPart(DataPart {
                data: Some(Struct {
                    fields: [("list".to_owned(), list)].into(),
                }),
            })),
            ..Part::default()
        };
        // Part, DataPart, Struct, entry, Value, ListValue, and what is in it.
        assert_eq!(count(&with_parts(vec![data])), 2 + 6 + 100);
        let complete = envelope(Payload::TaskComplete(TaskCompletePayload {
            artifacts: vec![Artifact::default(); 7],
            ..TaskCompletePayload::default()
        }));
        assert_eq!(count(&complete), 8);
        let card = AgentCard {
            skills: vec![Skill::default(); 5],
            p2p_extension: Some(P2pExtension {
                relay_addresses: vec![String::new(); 4],
                ..P2pExtension::default()
            }),
            ..AgentCard::default()
        };
        assert_eq!(elements(MessageKind::Card, &card.encode_to_vec(), 100), Ok(10));
        let skill = SkillInfo {
            tags: [("a".to_owned(), "b".to_owned())].into(),
            ..SkillInfo::default()
        };
        let register = RegisterSkillsRequest {
            skills: vec![skill.clone(); 3],
            addresses: vec![String::new(); 2],
            ..RegisterSkillsRequest::default()
        };
        assert_eq!(
            elements(MessageKind::Registration, &register.encode_to_vec(), 100),
            Ok(8)
        );
        let told = FederatedRegistration {
            skills: vec![skill; 3],
            ..FederatedRegistration::default()
        };
        let push = PushRegistrationsRequest {
            registrations: vec![told; 2],
            ..PushRegistrationsRequest::default()
        };
        assert_eq!(
            elements(MessageKind::Registrations, &push.encode_to_vec(), 100),
            Ok(14)
        );
    }

    #[test]
    fn what_gateways_take_counts() {
        let send = a2a::SendMessageRequest {
            message: Some(a2a::Message {
                parts: vec![a2a::Part::default(); 7],
                ..a2a::Message::default()
            }),
            ..a2a::SendMessageRequest::default()
        };
        assert_eq!(elements(MessageKind::Send, &send.encode_to_vec(), 100), Ok(8));
        let send = a2a_0_3::SendMessageRequest {
            request: Some(a2a_0_3::Message {
                content: vec![a2a_0_3::Part::default(); 7],
                extensions: vec![String::new(); 3],
                ..a2a_0_3::Message::default()
            }),
            ..a2a_0_3::SendMessageRequest::default()
        };
        assert_eq!(elements(MessageKind::OldSend, &send.encode_to_vec(), 100), Ok(11));
        let authentication = a2a_0_3::AuthenticationInfo {
            schemes: vec![String::new(); 5],
            ..a2a_0_3::AuthenticationInfo::default()
        };
        let config = a2a_0_3::PushNotificationConfig {
            authentication: Some(authentication),
            ..a2a_0_3::PushNotificationConfig::default()
        };
        let set = a2a_0_3::CreateTaskPushNotificationConfigRequest {
            config: Some(a2a_0_3::TaskPushNotificationConfig {
                push_notification_config: Some(config),
                ..a2a_0_3::TaskPushNotificationConfig::default()
            }),
            ..a2a_0_3::CreateTaskPushNotificationConfigRequest::default()
        };
        assert_eq!(
            elements(MessageKind::OldSetPush, &set.encode_to_vec(), 100),
            Ok(8)
        );
    }

    #[test]
    fn it_stops_at_the_bound_and_at_what_it_cannot_walk() {
        let many = with_parts(vec![Part::default(); 1000]);
        assert_eq!(
            elements(MessageKind::Envelope, &many, 1001),
            Err(DecodeLimit::TooMany(1001))
        );
        assert_eq!(elements(MessageKind::Envelope, &many, 1002), Ok(1002));
        let cut = &many[..many.len() - 1];
        assert_eq!(
            elements(MessageKind::Envelope, cut, 5000),
            Err(DecodeLimit::Malformed)
        );
        // A group of an unknown field, in front of everything else.
        let group = [&[0xFB, 0x01, 0xFC, 0x01][..], &many].concat();
        assert_eq!(
            elements(MessageKind::Envelope, &group, 5000),
            Err(DecodeLimit::Malformed)
        );
        let mut deep = Value { kind: None };
        for _ in 0..MAX_DEPTH {
            deep.kind = Some(value::Kind::ListValue(ListValue {
                values: vec![std::mem::take(&mut deep)],
            }));
        }
        let deep = Part {
            content: Some(Content::DataPart(DataPart {
                data: Some(Struct {
                    fields: [(String::new(), deep)].into(),
                }),
            })),
            ..Part::default()
        };
        assert_eq!(
            elements(MessageKind::Envelope, &with_parts(vec![deep]), usize::MAX),
            Err(DecodeLimit::Malformed)
        );
    }

    #[test]
    fn an_element_is_no_larger_than_stated() {
        let sizes = [
            size_of::<Part>(),
            size_of::<Artifact>(),
            size_of::<Message>(),
            size_of::<Skill>(),
            size_of::<Value>(),
            size_of::<String>(),
            // Of a map: the pair and its share of a node that is half full.
            2 * size_of::<(String, String)>(),
            2 * size_of::<(String, Value)>(),
        ];
        assert!(sizes.iter().all(|size| *size <= ELEMENT_BYTES), "{sizes:?}");
        // Not repeated anywhere.
        assert!(size_of::<Task>() <= 4 * ELEMENT_BYTES);
    }
}
