//! How calls are read and written: a request with its bytes, which is what a peer signs, and answers that are
//! encoded already.
//!
//! The one rule: nothing is decoded before it is known how much memory that takes.

use std::marker::PhantomData;

use agentanycast_proto::{
    codec::{EncodedMessage, SizedEncoder},
    decoded_size::{self, MessageKind},
};
use bytes::{Buf as _, BufMut as _, Bytes};
use prost::{EncodeError, Message};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf},
};

/// A message and what it was decoded from.
#[derive(Clone, Debug)]
pub(super) struct RawRequest<M> {
    pub(super) message: M,
    pub(super) bytes: Bytes,
}

/// A message that is encoded already.
#[derive(Debug)]
pub(super) struct PreEncoded(pub(super) Vec<u8>);

impl EncodedMessage for PreEncoded {
    fn write(&self, target: &mut EncodeBuf<'_>) -> Result<(), EncodeError> {
        target.reserve(self.0.len());
        target.put_slice(&self.0);
        Ok(())
    }
}

/// What a message may unfold to, or None where its size says it.
pub(super) type ElementBound = Option<(MessageKind, usize)>;

/// Reads `D` with its bytes, writes `E`.
#[derive(Debug)]
pub(super) struct RawRequestCodec<E, D> {
    bound: ElementBound,
    messages: PhantomData<fn() -> (E, D)>,
}

impl<E, D> RawRequestCodec<E, D> {
    pub(super) fn new(bound: ElementBound) -> Self {
        Self {
            bound,
            messages: PhantomData,
        }
    }
}

impl<E: EncodedMessage + Send + 'static, D: Message + Default + 'static> Codec for RawRequestCodec<E, D> {
    type Encode = E;
    type Decode = RawRequest<D>;
    type Encoder = SizedEncoder<E>;
    type Decoder = RawRequestDecoder<D>;

    fn encoder(&mut self) -> SizedEncoder<E> {
        SizedEncoder::default()
    }

    fn decoder(&mut self) -> RawRequestDecoder<D> {
        RawRequestDecoder(self.bound, PhantomData)
    }
}

/// Reads one message.
#[derive(Debug)]
pub(super) struct RawRequestDecoder<D>(ElementBound, PhantomData<fn() -> D>);

impl<D: Message + Default> Decoder for RawRequestDecoder<D> {
    type Item = RawRequest<D>;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<RawRequest<D>>, Status> {
        let bytes = source.copy_to_bytes(source.remaining());
        if let Some((kind, most)) = self.0 {
            decoded_size::elements(kind, &bytes, most)
                .map_err(|refused| Status::invalid_argument(refused.to_string()))?;
        }
        let message = D::decode(bytes.clone())
            .map_err(|error| Status::invalid_argument(format!("the request cannot be decoded: {error}")))?;
        Ok(Some(RawRequest { message, bytes }))
    }
}
