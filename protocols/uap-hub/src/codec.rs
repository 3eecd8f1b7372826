//! How the generated clients and servers read and write messages. Before a message is decoded, it is counted what decoding makes of
//! it: on the wire an empty attachment takes 2 bytes, in memory a hundred.

use std::{marker::PhantomData, sync::LazyLock};

use agentanycast_proto::{
    codec::SizedEncoder,
    decoded_size::{DecodeLimit, MessageShape, MessageShapes},
};
use bytes::Buf as _;
use prost::Message;
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder},
};

use crate::v1;

/// Largest message, in bytes.
pub const MAX_MESSAGE: usize = 64 << 20;

/// Most steps, attachments, values and entries of one message: some 32 MiB besides their content.
pub const MOST_ELEMENTS: usize = 250_000;

static SHAPES: LazyLock<MessageShapes> = LazyLock::new(|| MessageShapes::read(&[crate::FILE_DESCRIPTOR_SET]));

/// A message that is read from a connection.
pub trait IncomingMessage: Message + Default + 'static {
    /// Its full name.
    const NAME: &'static str;
}

macro_rules! incoming {
    ($($message:ident),+) => {
        $(impl IncomingMessage for v1::$message {
            const NAME: &'static str = concat!("uap.v1.", stringify!($message));
        })+
        /// All of them.
        #[cfg(test)]
        const INCOMING: &[&str] = &[$(<v1::$message as IncomingMessage>::NAME),+];
    };
}

incoming!(
    AgentRegistration,
    AgentRegistrationResponse,
    ListenRequest,
    ListenResponse,
    TestInit,
    TestResponse,
    TranslationInit,
    TranslationResponse
);

/// The codec of the generated clients and servers.
#[derive(Debug)]
pub struct BoundedCodec<E, D>(PhantomData<fn() -> (E, D)>);

impl<E, D> Default for BoundedCodec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E: Message + 'static, D: IncomingMessage> Codec for BoundedCodec<E, D> {
    type Encode = E;
    type Decode = D;
    type Encoder = SizedEncoder<E>;
    type Decoder = BoundedDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        SizedEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder {
            shape: SHAPES.message(D::NAME),
            of: PhantomData,
        }
    }
}

/// Reads messages.
#[derive(Debug)]
pub struct BoundedDecoder<D> {
    /// `None`: the descriptors do not have it, and nothing is read. A test keeps that from happening.
    shape: Option<MessageShape>,
    of: PhantomData<fn() -> D>,
}

impl<D: IncomingMessage> Decoder for BoundedDecoder<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        let bytes = source.copy_to_bytes(source.remaining());
        let counted = match self.shape {
            Some(shape) => SHAPES.elements(shape, &bytes, MOST_ELEMENTS),
            None => Err(DecodeLimit::Malformed),
        };
        match counted {
            Ok(_) => {}
            Err(DecodeLimit::TooMany(most)) => {
                let text = format!(
                    "{} has more than {most} steps, attachments, values and entries",
                    D::NAME
                );
                return Err(Status::resource_exhausted(text));
            }
            Err(_) => return Err(Status::invalid_argument(format!("this is no {}", D::NAME))),
        }
        let decoded = D::decode(bytes);
        decoded
            .map(Some)
            .map_err(|error| Status::invalid_argument(format!("this is no {}: {error}", D::NAME)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{Attachment, Telemetry, TestResponse, test_response::Event};

    #[test]
    fn the_descriptors_have_each_message_that_is_read() {
        assert_eq!(INCOMING.len(), 8);
        for name in INCOMING {
            assert!(SHAPES.message(name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_unfolds_is_counted_before_it_is_decoded() {
        let with = |attachments: usize| {
            let telemetry = Telemetry {
                attachments: vec![Attachment::default(); attachments],
                ..Telemetry::default()
            };
            let message = TestResponse {
                event: Some(Event::Telemetry(telemetry)),
                ..TestResponse::default()
            };
            let shape = SHAPES.message(TestResponse::NAME).unwrap();
            SHAPES.elements(shape, &message.encode_to_vec(), MOST_ELEMENTS)
        };
        assert_eq!(with(10), Ok(11));
        assert_eq!(with(MOST_ELEMENTS), Err(DecodeLimit::TooMany(MOST_ELEMENTS)));
    }
}
