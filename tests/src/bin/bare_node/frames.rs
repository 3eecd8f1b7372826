//! Frames of the bare road: a length, a number that joins an answer to its question, and bytes. What waits is
//! written together and flushed once, as the node does; nothing is bounded but by who asks.

use std::io;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::{
    AsyncReadExt as _, SinkExt, StreamExt as _,
    io::{ReadHalf, WriteHalf},
};
use libp2p::Stream;
use tokio::sync::mpsc;
use tokio_util::{
    codec::{FramedRead, FramedWrite, LengthDelimitedCodec},
    compat::{Compat, FuturesAsyncReadCompatExt as _, FuturesAsyncWriteCompatExt as _},
};

/// Read and written at once at most, about.
const BUFFER: usize = 64 << 10;

/// The reading end of a stream.
pub(crate) type BareFrameReader = FramedRead<Compat<ReadHalf<Stream>>, LengthDelimitedCodec>;
/// The writing end of a stream.
pub(crate) type BareFrameWriter = FramedWrite<Compat<WriteHalf<Stream>>, LengthDelimitedCodec>;

/// Both ends.
pub(crate) fn split(stream: Stream) -> (BareFrameReader, BareFrameWriter) {
    let (read, write) = stream.split();
    let read = FramedRead::with_capacity(read.compat(), LengthDelimitedCodec::new(), BUFFER);
    let mut write = FramedWrite::new(write.compat_write(), LengthDelimitedCodec::new());
    write.set_backpressure_boundary(BUFFER);
    (read, write)
}

/// A numbered payload, and back.
pub(crate) fn numbered(number: u64, payload: &Bytes) -> Bytes {
    let mut frame = BytesMut::with_capacity(8 + payload.len());
    frame.put_u64(number);
    frame.put_slice(payload);
    frame.freeze()
}

/// As [`numbered`], the other way.
pub(crate) fn number_of(frame: BytesMut) -> io::Result<(u64, Bytes)> {
    if frame.len() < 8 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut frame = frame.freeze();
    Ok((frame.get_u64(), frame))
}

/// Writes what comes; flushes when nothing more waits.
pub(crate) async fn write(
    mut queue: mpsc::UnboundedReceiver<(u64, Bytes)>,
    mut writer: BareFrameWriter,
) -> anyhow::Result<()> {
    while let Some((number, payload)) = queue.recv().await {
        writer.feed(numbered(number, &payload)).await?;
        while let Ok((number, payload)) = queue.try_recv() {
            writer.feed(numbered(number, &payload)).await?;
        }
        SinkExt::<Bytes>::flush(&mut writer).await?;
    }
    Ok(())
}

/// The next frame, or `None` at the end.
pub(crate) async fn next(reader: &mut BareFrameReader) -> io::Result<Option<(u64, Bytes)>> {
    reader.next().await.transpose()?.map(number_of).transpose()
}
