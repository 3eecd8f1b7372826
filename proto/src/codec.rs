//! How calls write their messages: with all the room that one takes made at once. tonic's own encoder begins with
//! 8 KiB and doubles, which copies a large message several times.

use std::marker::PhantomData;

use prost::{EncodeError, Message};
use tonic::{
    Status,
    codec::{BufferSettings, Codec, EncodeBuf, Encoder},
};
use tonic_prost::{ProstCodec, ProstDecoder};

/// The codec of the generated clients and servers.
#[derive(Debug)]
pub struct SizedCodec<E, D>(PhantomData<fn() -> (E, D)>);

impl<E, D> Default for SizedCodec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E: Message + 'static, D: Message + Default + 'static> Codec for SizedCodec<E, D> {
    type Encode = E;
    type Decode = D;
    type Encoder = SizedEncoder<E>;
    type Decoder = ProstDecoder<D>;

    fn encoder(&mut self) -> SizedEncoder<E> {
        SizedEncoder::default()
    }

    fn decoder(&mut self) -> ProstDecoder<D> {
        ProstCodec::<E, D>::raw_decoder(BufferSettings::default())
    }
}

/// Writes messages.
#[derive(Debug)]
pub struct SizedEncoder<E>(PhantomData<fn(E)>);

impl<E> Default for SizedEncoder<E> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E: EncodedMessage> Encoder for SizedEncoder<E> {
    type Item = E;
    type Error = Status;

    fn encode(&mut self, item: E, target: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.write(target)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

/// What can be written: a message, or what a server has encoded already.
pub trait EncodedMessage {
    /// Writes all of it, the room made at once.
    ///
    /// # Errors
    /// When the room does not suffice.
    fn write(&self, target: &mut EncodeBuf<'_>) -> Result<(), EncodeError>;
}

impl<M: Message> EncodedMessage for M {
    fn write(&self, target: &mut EncodeBuf<'_>) -> Result<(), EncodeError> {
        target.reserve(self.encoded_len());
        self.encode(target)
    }
}
