//! The filter against a recorded gRPC client, against every way to encode a request, and against noise.

use std::ops::Range;

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;

mod http2_encoder;

use http2_encoder::{Http2Encoder, TestField, frame, huffman_code};

/// What grpcio 1.85 (Python) sends on `unix:///tmp/a b/daemon.sock`: preface, SETTINGS, two calls, the
/// second of which has its authority by place in the dynamic table.
const GRPCIO: &str = "
    505249202a20485454502f322e300d0a0d0a534d0d0a0d0a000024040000000000000200000000000300000000000400
    400000000500400000000600004000fe0300000001000004080000000000003f000100000004010000000000010a0104
    0000000140053a70617468282f6167656e74616e79636173742e76312e4e6f6465536572766963652f4765744e6f6465
    496e666f400a3a617574686f7269747919746d7025324661253230622532466461656d6f6e2e736f636b8386400c636f
    6e74656e742d74797065106170706c69636174696f6e2f677270634002746508747261696c6572734014677270632d61
    63636570742d656e636f64696e67176964656e746974792c206465666c6174652c20677a6970400c677270632d74696d
    656f757405313530306d400a757365722d6167656e7430677270632d707974686f6e2f312e38352e3120677270632d63
    2f35382e302e3020286c696e75783b20636874747032290003782d610162000004080000000001000000050000050001
    00000001000000000000000408000000000000000005000023010400000003c4c38386c2c1c0400c677270632d74696d
    656f757405313531306dbf0003782d610162000004080000000003000000050000050001000000030000000000
";

pub(in crate::grpc) fn recorded() -> Vec<u8> {
    let digits: Vec<u8> = GRPCIO
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn filtered(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    AuthorityFilter::default().feed(&mut out);
    out
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> (Vec<u8>, usize) {
    let mut out = bytes.to_vec();
    let found: Vec<usize> = (0..bytes.len())
        .filter(|&at| bytes[at..].starts_with(from))
        .collect();
    for &at in &found {
        out[at..at + to.len()].copy_from_slice(to);
    }
    (out, found.len())
}

fn field(name: &str, value: &str) -> TestField {
    TestField {
        name: name.into(),
        value: value.into(),
        huffman_name: false,
        huffman_value: false,
        indexed: true,
        by_index: true,
        whole: true,
    }
}

/// A connection that sends one header block in one frame.
fn connection(block: &[u8]) -> Vec<u8> {
    [
        PREFACE.to_vec(),
        frame(0x4, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, block),
    ]
    .concat()
}

#[test]
fn a_recorded_grpcio_client_gets_a_legal_authority_and_nothing_else_changes() {
    let (expected, found) = replaced(
        &recorded(),
        b"tmp%2Fa%20b%2Fdaemon.sock",
        b"tmp-2Fa-20b-2Fdaemon.sock",
    );
    assert_eq!(found, 1);
    assert_eq!(filtered(&recorded()), expected);
}

#[test]
fn a_recorded_client_byte_by_byte() {
    assert_eq!(byte_by_byte(&recorded()), filtered(&recorded()));
}

/// What the filter makes of bytes that come one by one.
fn byte_by_byte(bytes: &[u8]) -> Vec<u8> {
    let mut filter = AuthorityFilter::default();
    let (mut out, mut held) = (bytes.to_vec(), 0);
    for at in 0..out.len() {
        held = filter.feed(&mut out[at - held..=at]);
    }
    out
}

/// A field of the static table is one byte. Behind pseudo-fields an empty `:authority` is an empty field that means
/// nothing; those that come after it go before it.
#[test]
fn an_empty_authority_becomes_an_empty_field_behind_the_pseudo_fields() {
    // `:path` as text, and a field that is none of the pseudo-fields.
    let (path, other) = (&b"\x44\x02/a"[..], &b"\x5f\x03a/b"[..]);
    for (sent, expected) in [
        (
            [&b"\x83\x86"[..], path, b"\x81", other],
            [&b"\x83\x86"[..], path, b"\x91", other],
        ),
        (
            [b"\x81\x83\x86\x84", b"", b"", other],
            [b"\x83\x86\x84\x91", b"", b"", other],
        ),
        // One that has a value, or is a part of a value, stays.
        (
            [b"\x83\x86", path, b"\x41\x01h", other],
            [b"\x83\x86", path, b"\x41\x01h", other],
        ),
        (
            [b"\x83\x86", b"\x44\x03/\x81\x82", b"", other],
            [b"\x83\x86", b"\x44\x03/\x81\x82", b"", other],
        ),
        // Nothing follows in its frame.
        (
            [b"\x83\x86", path, b"", b"\x81"],
            [b"\x83\x86", path, b"", b"\x81"],
        ),
    ] {
        let (sent, expected) = (connection(&sent.concat()), connection(&expected.concat()));
        assert_eq!(filtered(&sent), expected);
        assert_eq!(byte_by_byte(&sent), expected);
    }
}

#[test]
fn a_percent_sign_elsewhere_stays() {
    let block = Http2Encoder::default().block(&[
        field(":path", "/a%2Fb"),
        field("x-authority", "a%2Fb"),
        field(":authorities", "a%2Fb"),
        field(":authorit", "a%2Fb"),
        field("host", "a%2Fb"),
    ]);
    let mut bytes = connection(&block);
    bytes.extend(frame(0x0, 0, 1, b"\x41\x04a%2Fb"));
    assert_eq!(filtered(&bytes), bytes);
}

#[test]
fn a_later_name_by_its_place_in_the_dynamic_table_counts() {
    let mut encoder = Http2Encoder::default();
    let others: Vec<TestField> = (0..70).map(|n| field(&format!("x-{n}"), "%")).collect();
    let blocks = [
        encoder.block(&[field(":authority", "fine")]),
        encoder.block(&others),
        encoder.block(&[field(":authority", "not%fine")]),
    ];
    let mut bytes = PREFACE.to_vec();
    for block in blocks {
        bytes.extend(frame(HEADERS, END_HEADERS, 1, &block));
    }
    let (expected, found) = replaced(&bytes, b"not%fine", b"not-fine");
    assert_eq!(found, 1);
    assert_eq!(filtered(&bytes), expected);
}

#[test]
fn a_raw_path_becomes_a_host() {
    for (given, plain, coded) in [
        (
            "/tmp/a b/daemon.sock",
            "-tmp-a-b-daemon.sock",
            "3tmp3a-b3daemon.sock",
        ),
        ("/a:b@c/[d]:1", "-a-b-c--d--1", "3a:b@c3[d]:1"),
        ("run/d.sock", "run-d.sock", "run3d.sock"),
        // What is legal stays.
        ("localhost:50051", "localhost:50051", "localhost:50051"),
        ("[::1]:443", "[::1]:443", "[::1]:443"),
        ("user@host:1", "user@host:1", "user@host:1"),
    ] {
        for (huffman_value, legal) in [(false, plain), (true, coded)] {
            let of = |value: &str| {
                let field = TestField {
                    huffman_value,
                    ..field(":authority", value)
                };
                connection(&Http2Encoder::default().block(&[field]))
            };
            assert_eq!(filtered(&of(given)), of(legal), "{given} {huffman_value}");
        }
    }
}

#[test]
fn huffman_code_agrees_with_the_examples_of_the_rfc() {
    assert_eq!(
        huffman_code(b"www.example.com"),
        *b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"
    );
    assert_eq!(huffman_code(b"custom-key"), *b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f");
    assert_eq!(huffman_code(b":authority"), *b"\xb8\x3b\x53\x39\xec\x32\x7d\x7f");
}

#[test]
fn what_is_not_http2_passes() {
    for bytes in [
        &b"GET /%2F HTTP/1.1\r\n:authority: %\r\n\r\n"[..],
        b"PRI * HTTP/1.1",
        b"",
        b"%%%%",
    ] {
        assert_eq!(filtered(bytes), bytes);
    }
}

#[test]
fn what_is_not_well_formed_passes_from_there_on() {
    let block = Http2Encoder::default().block(&[field(":authority", "a%b")]);
    let good = frame(HEADERS, END_HEADERS, 1, &block);
    let bad = [
        frame(HEADERS, END_HEADERS | PADDED, 1, &[]),
        frame(HEADERS, END_HEADERS | PADDED, 1, &[9, 0x82]),
        frame(HEADERS, END_HEADERS | PRIORITY, 1, &[0, 0, 0, 0]),
        frame(CONTINUATION, END_HEADERS, 1, &[]),
        frame(HEADERS, END_HEADERS, 1, &block[..block.len() - 1]),
        frame(HEADERS, END_HEADERS, 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        [frame(HEADERS, 0, 1, &[]), frame(0x0, 0, 1, &[])].concat(),
    ];
    for bad in bad {
        let bytes = [PREFACE.to_vec(), bad, good.clone()].concat();
        let (_, percents) = replaced(&filtered(&bytes)[bytes.len() - good.len()..], b"a%b", b"");
        assert_eq!(percents, 1, "{bytes:02x?}");
    }
}

/// What the filter makes of a value of `:authority`.
fn corrected(field: &TestField) -> TestField {
    let is_path = field.value.first() == Some(&b'/');
    let legal = |&byte: &u8| match (byte, field.huffman_value) {
        (b'%', true) => b'.',
        (b' ', true) => b'-',
        (b'/', true) => b'3',
        (_, true) => byte,
        (b':' | b'@' | b'[' | b']', false) if !is_path => byte,
        (_, false) if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte) => byte,
        (_, false) => b'-',
    };
    let value = field.value.iter().map(legal).collect();
    TestField {
        value,
        ..field.clone()
    }
}

fn any_field() -> impl Strategy<Value = TestField> {
    let names = select(vec![
        ":authority",
        ":authority",
        ":path",
        "host",
        "x-trace",
        ":authorit",
    ]);
    let value = prop_oneof![
        vec(select(b"%% -.2Fa//~:@[]\xff\x00".to_vec()), 0..40),
        vec(any::<u8>(), 0..300)
    ];
    (names, value, any::<[bool; 5]>()).prop_map(|(name, value, flags)| TestField {
        name: name.into(),
        value,
        huffman_name: flags[0],
        huffman_value: flags[1],
        indexed: flags[2],
        by_index: flags[3],
        whole: flags[4],
    })
}

/// One block of fields and how it is put into frames.
#[derive(Clone, Debug)]
struct BlockShape {
    cuts: Vec<u16>,
    padding: Option<u8>,
    priority: bool,
    data: Vec<u8>,
}

fn any_shape() -> impl Strategy<Value = BlockShape> {
    (
        vec(any::<u16>(), 0..4),
        option::of(any::<u8>()),
        any::<bool>(),
        vec(any::<u8>(), 0..50),
    )
        .prop_map(|(cuts, padding, priority, data)| BlockShape {
            cuts,
            padding,
            priority,
            data,
        })
}

/// HEADERS, CONTINUATION as often as cut, DATA.
fn frames(block: &[u8], shape: &BlockShape) -> Vec<u8> {
    let pieces = cut(block.len(), &shape.cuts);
    let flag = |last: bool| if last { END_HEADERS } else { 0 };
    let (mut flags, mut first) = (flag(pieces.len() == 1), Vec::new());
    if let Some(padding) = shape.padding {
        flags |= PADDED;
        first.push(padding);
    }
    if shape.priority {
        flags |= PRIORITY;
        first.extend([0x80, 0, 0, 0x25, 0x25]);
    }
    first.extend(&block[pieces[0].clone()]);
    first.extend(vec![b'%'; shape.padding.unwrap_or(0).into()]);
    let mut out = frame(HEADERS, flags, 1, &first);
    for (place, piece) in pieces.iter().enumerate().skip(1) {
        out.extend(frame(
            CONTINUATION,
            flag(place + 1 == pieces.len()),
            1,
            &block[piece.clone()],
        ));
    }
    out.extend(frame(0x0, 0x1, 1, &shape.data));
    out
}

/// The parts of `0..length` between the cuts; at least one part.
fn cut(length: usize, cuts: &[u16]) -> Vec<Range<usize>> {
    let mut ends: Vec<usize> = cuts.iter().map(|&at| usize::from(at) % (length + 1)).collect();
    ends.push(length);
    ends.sort_unstable();
    let starts = [0].into_iter().chain(ends.clone());
    starts.zip(ends.clone()).map(|(start, end)| start..end).collect()
}

fn feed_in_parts(bytes: &[u8], cuts: &[u16]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut filter = AuthorityFilter::default();
    let mut held = 0;
    for part in cut(bytes.len(), cuts) {
        held = filter.feed(&mut out[part.start - held..part.end]);
    }
    out
}

proptest! {
    #[test]
    fn exactly_the_values_of_authority_are_corrected(
        blocks in vec((vec(any_field(), 0..12), any_shape()), 1..8),
        cuts in vec(any::<u16>(), 0..30),
    ) {
        let (mut sent, mut expected) = (PREFACE.to_vec(), PREFACE.to_vec());
        let mut encoder = Http2Encoder::default();
        for (fields, shape) in &blocks {
            let (block, ideal) = encode_both(&mut encoder, fields);
            sent.extend(frames(&block, shape));
            expected.extend(frames(&ideal, shape));
        }
        prop_assert_eq!(feed_in_parts(&sent, &cuts), expected);
    }

    #[test]
    fn how_noise_is_cut_does_not_matter(noise in vec(any::<u8>(), 0..400), cuts in vec(any::<u16>(), 0..30)) {
        let blocks = [frame(HEADERS, END_HEADERS, 1, &noise), noise.clone()];
        for bytes in [[PREFACE.to_vec(), blocks.concat()].concat(), noise] {
            let whole = filtered(&bytes);
            prop_assert_eq!(whole.len(), bytes.len());
            prop_assert_eq!(feed_in_parts(&bytes, &cuts), whole);
        }
    }

    #[test]
    fn a_second_pass_finds_nothing_left(blocks in vec((vec(any_field(), 0..12), any_shape()), 1..8)) {
        let mut encoder = Http2Encoder::default();
        let mut sent = PREFACE.to_vec();
        for (fields, shape) in &blocks {
            sent.extend(frames(&encoder.block(fields), shape));
        }
        let once = filtered(&sent);
        prop_assert_eq!(filtered(&once), once);
    }
}

/// A block as sent, and as it is to leave the filter.
fn encode_both(encoder: &mut Http2Encoder, fields: &[TestField]) -> (Vec<u8>, Vec<u8>) {
    let (mut sent, mut ideal) = (Vec::new(), Vec::new());
    for field in fields {
        let bytes = encoder.block(std::slice::from_ref(field));
        if field.name == ":authority" && bytes[0] & 0x80 == 0 {
            let value = |field: &TestField| {
                if field.huffman_value {
                    huffman_code(&field.value)
                } else {
                    field.value.clone()
                }
            };
            let head = bytes.len() - value(field).len();
            ideal.extend(&bytes[..head]);
            ideal.extend(value(&corrected(field)));
        } else {
            ideal.extend(&bytes);
        }
        sent.extend(bytes);
    }
    (sent, ideal)
}
