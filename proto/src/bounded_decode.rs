//! Calls whose answers may be hostile: an answer is decoded only once it is known how much memory that takes
//! ([`decoded_size`]). 8 MiB of empty agents would be a gigabyte.

use std::marker::PhantomData;

use prost::{Message, bytes::Buf as _};
use tonic::{
    Request, Response, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};

use crate::{
    codec::SizedEncoder,
    decoded_size::{self, MessageKind},
};

/// What an answer may be.
#[derive(Clone, Copy, Debug)]
pub struct DecodeBound {
    /// Its kind.
    pub kind: MessageKind,
    /// Most elements ([`decoded_size::elements`]).
    pub elements: usize,
    /// Most bytes, encoded.
    pub bytes: usize,
}

/// Makes the call at `path`, `/package.Service/Method`.
///
/// # Errors
/// What the call fails with; OUT_OF_RANGE when the answer is beyond its bound.
pub async fn unary<E, D>(
    channel: Channel,
    path: &'static str,
    request: Request<E>,
    bound: DecodeBound,
) -> Result<Response<D>, Status>
where
    E: Message + 'static,
    D: Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel).max_decoding_message_size(bound.bytes);
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(format!("the service is not ready: {error}")))?;
    let codec = BoundedCodec::<E, D>(bound, PhantomData);
    grpc.unary(request, PathAndQuery::from_static(path), codec).await
}

struct BoundedCodec<E, D>(DecodeBound, PhantomData<fn() -> (E, D)>);

impl<E: Message + 'static, D: Message + Default + 'static> Codec for BoundedCodec<E, D> {
    type Encode = E;
    type Decode = D;
    type Encoder = SizedEncoder<E>;
    type Decoder = BoundedDecoder<D>;

    fn encoder(&mut self) -> SizedEncoder<E> {
        SizedEncoder::default()
    }

    fn decoder(&mut self) -> BoundedDecoder<D> {
        BoundedDecoder(self.0, PhantomData)
    }
}

struct BoundedDecoder<D>(DecodeBound, PhantomData<fn() -> D>);

impl<D: Message + Default> Decoder for BoundedDecoder<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        let bytes = source.copy_to_bytes(source.remaining());
        decoded_size::elements(self.0.kind, &bytes, self.0.elements)
            .map_err(|refused| Status::out_of_range(format!("the answer is not read: {refused}")))?;
        let message = D::decode(bytes)
            .map_err(|error| Status::internal(format!("the answer cannot be decoded: {error}")))?;
        Ok(Some(message))
    }
}
