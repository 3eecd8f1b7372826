//! Files and payloads that arrive whole, in part or changed.

use proptest::prelude::*;

use super::*;

const LARGEST: u64 = 8 << 20;

/// Feeds frames; what came, or the first error.
fn receive(frames: Vec<Vec<WireFrame>>) -> Result<Vec<u8>, TransferError> {
    let mut receiver = FileReceiver::new(LARGEST);
    let mut found = Vec::new();
    let mut announced = None;
    for frame in frames.into_iter().flatten() {
        let progress = match frame {
            WireFrame::Binary(bytes) => receiver.binary(announced.take().unwrap(), bytes)?,
            WireFrame::Text(text) => match serde_json::from_str(&text).unwrap() {
                TransferFrame::Binary(header) => {
                    announced = Some(header);
                    continue;
                }
                frame => receiver.frame(frame)?,
            },
        };
        match progress {
            FileProgress::Chunk(bytes) | FileProgress::Payload(_, bytes) => {
                found.extend_from_slice(&bytes);
            }
            FileProgress::Started(_) | FileProgress::Complete(_) | FileProgress::Aborted(_) => {}
        }
    }
    assert!(!receiver.is_open());
    Ok(found)
}

fn frames(size: usize) -> (Vec<u8>, Vec<Vec<WireFrame>>) {
    let bytes: Vec<u8> = (0..size).map(|at| (at / 251) as u8).collect();
    let frames = file_frames("a.bin", None, bytes.clone().into()).collect();
    (bytes, frames)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn files_arrive_whole_or_not_at_all(size in 0..(3 * CHUNK + 10), at in any::<prop::sample::Index>()) {
        let (bytes, whole) = frames(size);
        prop_assert_eq!(whole.len(), size.div_ceil(CHUNK) + 2);
        prop_assert_eq!(receive(whole.clone()).unwrap(), bytes);
        // Without one of its frames but the last, a file is refused.
        let mut part = whole.clone();
        part.remove(at.index(whole.len() - 1));
        prop_assert!(receive(part).is_err());
        // With one byte changed too.
        let mut changed = whole;
        let chunk = changed.iter_mut().flatten().find_map(|frame| match frame {
            WireFrame::Binary(bytes) => Some(bytes),
            WireFrame::Text(_) => None,
        });
        if let Some(chunk) = chunk {
            let mut other = chunk.to_vec();
            let last = other.len() - 1;
            other[last] ^= 1;
            *chunk = other.into();
            let refused = receive(changed);
            prop_assert!(matches!(refused, Err(TransferError::Checksum { .. })), "{refused:?}");
        }
    }
}

#[test]
fn payloads_have_their_size_and_checksum() {
    let bytes = Bytes::from_static(b"payload");
    assert_eq!(
        receive(vec![payload_frames(bytes.clone(), None, None)]).unwrap(),
        bytes
    );
    let mut receiver = FileReceiver::new(LARGEST);
    let header = |size, checksum: &str| BinaryHeader {
        size: Some(size),
        checksum: Some(checksum.to_owned()),
        ..BinaryHeader::default()
    };
    let refused = receiver.binary(header(7, "00"), bytes.clone()).unwrap_err();
    assert!(matches!(refused, TransferError::Checksum { .. }), "{refused}");
    assert!(receiver.binary(header(8, &md5_hex(&bytes)), bytes).is_err());
}

#[test]
fn announcements_that_do_not_fit_are_refused() {
    let start = |filename: &str, size, chunk_size, total_chunks| FileStart {
        filename: filename.to_owned(),
        size,
        chunk_size,
        total_chunks,
        mime_type: None,
    };
    for refused in [
        start("../a", 1, 1, 1),
        start("", 1, 1, 1),
        start("a", LARGEST + 1, 1 << 20, 9),
        start("a", 10, 0, 0),
        start("a", 10, 4, 2),
        start("a", 10, u64::MAX, 1),
    ] {
        let mut receiver = FileReceiver::new(LARGEST);
        assert!(
            receiver.frame(TransferFrame::Start(refused.clone())).is_err(),
            "{refused:?}"
        );
        assert!(!receiver.is_open());
    }
}
