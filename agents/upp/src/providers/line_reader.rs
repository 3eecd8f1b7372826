//! Cuts the bytes of a streamed answer into lines and server-sent events, with bounds.
//!
//! tokio-util's `LinesCodec` bounds a line before it is read; the libraries for server-sent events do not.
//! What an event is needs few lines on top: data lines up to an empty line.

use std::io;

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use tokio_util::{
    codec::{FramedRead, LinesCodec, LinesCodecError},
    io::StreamReader,
};

use crate::error::{ErrorCode, UppError};

/// How long one line may be: an image as base64.
const MAX_LINE_BYTES: usize = 32 << 20;

/// How long a whole streamed answer may be.
pub(super) const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The lines of an answer.
pub(super) fn lines<S, B, E>(bytes: S) -> impl Stream<Item = Result<String, UppError>> + Send + use<S, B, E>
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: bytes::Buf + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let mut left = MAX_ANSWER_BYTES;
    let bounded = bytes.map_err(io::Error::other).map(move |piece: io::Result<B>| {
        let piece = piece?;
        left = left
            .checked_sub(piece.remaining())
            .ok_or(io::ErrorKind::FileTooLarge)?;
        Ok::<_, io::Error>(piece)
    });
    let codec = LinesCodec::new_with_max_length(MAX_LINE_BYTES);
    FramedRead::new(StreamReader::new(bounded), codec).map_err(line_error)
}

fn line_error(error: LinesCodecError) -> UppError {
    match error {
        LinesCodecError::MaxLineLengthExceeded => UppError::invalid_response(format!(
            "a line of the answer has more than {MAX_LINE_BYTES} bytes"
        )),
        LinesCodecError::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            UppError::invalid_response(format!("the answer has more than {MAX_ANSWER_BYTES} bytes"))
        }
        LinesCodecError::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            UppError::invalid_response("the answer is not UTF-8").with_source(error)
        }
        LinesCodecError::Io(error) => {
            UppError::new(ErrorCode::NetworkError, format!("the answer broke off: {error}"))
                .with_source(error)
        }
    }
}

/// The data of the server-sent events among these lines. Lines of an event are joined by line ends; an event
/// without an empty line behind it counts too.
pub(super) fn event_data<S>(lines: S) -> impl Stream<Item = Result<String, UppError>> + Send + use<S>
where
    S: Stream<Item = Result<String, UppError>> + Send + Unpin + 'static,
{
    stream::try_unfold((lines, false), |(mut lines, ended)| async move {
        if ended {
            return Ok(None);
        }
        let mut data: Option<String> = None;
        while let Some(line) = lines.try_next().await? {
            if line.is_empty() {
                if let Some(data) = data.take() {
                    return Ok(Some((data, (lines, false))));
                }
            } else if let Some(value) = line.strip_prefix("data:") {
                let value = value.strip_prefix(' ').unwrap_or(value);
                match &mut data {
                    None => data = Some(value.to_owned()),
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                }
            }
        }
        Ok(data.map(|data| (data, (lines, true))))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn read(pieces: Vec<Vec<u8>>) -> Result<Vec<String>, UppError> {
        let bytes = stream::iter(
            pieces
                .into_iter()
                .map(|piece| Ok::<_, io::Error>(bytes::Bytes::from(piece))),
        );
        event_data(Box::pin(lines(bytes))).try_collect().await
    }

    proptest! {
        #[test]
        fn events_survive_any_cut(
            events in prop::collection::vec("[ -~é]{1,12}", 0..6),
            crlf: bool,
            cut in 1_usize..7,
        ) {
            let end = if crlf { "\r\n" } else { "\n" };
            let mut text = format!(": a comment{end}");
            for event in &events {
                text = format!("{text}event: x{end}data: {event}{end}{end}");
            }
            let pieces = text.as_bytes().chunks(cut).map(<[u8]>::to_vec).collect();
            let read = futures::executor::block_on(read(pieces)).unwrap();
            prop_assert_eq!(read, events);
        }

        #[test]
        fn hostile_bytes_do_no_harm(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
        ) {
            let _ = futures::executor::block_on(read(pieces));
        }
    }

    #[test]
    fn an_answer_without_end_is_refused() {
        let endless = stream::repeat_with(|| Ok::<_, io::Error>(bytes::Bytes::from(vec![b'x'; 1 << 20])));
        let outcome: Result<Vec<_>, _> = futures::executor::block_on(lines(endless).try_collect());
        assert_eq!(outcome.unwrap_err().code(), ErrorCode::InvalidResponse);
    }

    #[test]
    fn many_short_lines_are_bounded_too() {
        let endless = stream::repeat_with(|| {
            Ok::<_, io::Error>(bytes::Bytes::from([vec![b'x'; 1 << 20], vec![b'\n']].concat()))
        });
        let outcome: Result<Vec<_>, _> = futures::executor::block_on(lines(endless).try_collect());
        assert_eq!(outcome.unwrap_err().code(), ErrorCode::InvalidResponse);
    }

    #[test]
    fn data_of_several_lines_is_one_event() {
        let read =
            futures::executor::block_on(read(vec![b"data: a\ndata:b\n\ndata: last".to_vec()])).unwrap();
        assert_eq!(read, ["a\nb", "last"]);
    }
}
