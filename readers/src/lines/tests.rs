use proptest::prelude::*;

use super::*;

/// What a program writes, with pauses between.
enum Does<'a> {
    Writes(&'a [u8]),
    Waits(u64),
    Ends,
}

use Does::{Ends, Waits, Writes};

fn pieces(steps: &[Does<'_>]) -> Vec<Piece> {
    let (mut text, mut now, mut pieces) = (ProgramText::new(1000), Instant::now(), Vec::new());
    for step in steps {
        match step {
            Writes(bytes) => pieces.extend(text.take(bytes, now)),
            Ends => pieces.extend(text.finish()),
            Waits(millis) => {
                let end = now + Duration::from_millis(*millis);
                while let Some(due) = text.due().filter(|due| *due <= end) {
                    now = due;
                    pieces.extend(text.pass(now));
                }
                now = end;
            }
        }
    }
    pieces
}

fn line(text: &[u8]) -> Piece {
    Piece::Line(text.to_vec())
}

const ANSWER: &[u8] = br#"{"type":"result","id":"t"}"#;
const OTHER: &[u8] = br#"{"type":"result","id":"u"}"#;

#[test]
fn a_whole_object_without_an_end_of_line_is_taken_in_half_a_second() {
    assert_eq!(pieces(&[Writes(ANSWER), Waits(499)]), []);
    assert_eq!(pieces(&[Writes(ANSWER), Waits(500)]), [line(ANSWER)]);
    // The end of its line, and what follows, is no part of it.
    let both = [line(ANSWER), line(OTHER)];
    assert_eq!(
        pieces(&[
            Writes(ANSWER),
            Waits(500),
            Writes(b"\r\n"),
            Writes(OTHER),
            Waits(500)
        ]),
        both
    );
    assert_eq!(
        pieces(&[Writes(ANSWER), Waits(500), Writes(OTHER), Writes(b"\n")]),
        both
    );
    assert_eq!(
        pieces(&[Writes(ANSWER), Waits(500), Writes(b" and so\n")]),
        [line(ANSWER), line(b" and so")]
    );
    // Without the pause they are one line, which its reader refuses.
    assert_eq!(
        pieces(&[Writes(ANSWER), Waits(100), Writes(OTHER), Waits(500)]),
        [line(&[ANSWER, OTHER].concat())]
    );
}

#[test]
fn half_a_line_of_a_slow_writer_is_never_cut() {
    for (first, second) in [
        (&br#"{"type":"result","#[..], &br#""id":"t"}"#[..]),
        (br#"{"a":{"b":"}"#, br#""}}"#),
        (b"Star", b"ting..."),
        (b"[INFO]", b" x"),
        (b"INFO: {\"type\":\"other\",\"n\":1,", b"\"n\":1} sent"),
    ] {
        let whole = [first, second].concat();
        assert_eq!(
            pieces(&[Writes(first), Waits(5000), Writes(second), Writes(b"\n")]),
            [line(&whole)]
        );
    }
}

#[test]
fn what_is_left_at_the_end_is_said() {
    assert_eq!(pieces(&[Writes(ANSWER), Ends]), [line(ANSWER)]);
    assert_eq!(pieces(&[Writes(b"{\"a"), Waits(900), Ends]), [line(b"{\"a")]);
    assert_eq!(
        pieces(&[Writes(b"{\n\"a"), Ends]),
        [Piece::Spread(b"{\n\"a".to_vec())]
    );
    assert_eq!(pieces(&[Writes(b" \r\n\0\n"), Ends]), []);
}

#[test]
fn an_object_on_several_lines_ends_with_its_last_bracket() {
    let spread = Piece::Spread(b"{\n\"id\": \"t\"\n}".to_vec());
    assert_eq!(
        pieces(&[
            Writes(b"{\n\"id\": \"t\"\n}"),
            Waits(500),
            Writes(OTHER),
            Writes(b"\n")
        ]),
        [spread, line(OTHER)]
    );
    let begun = Piece::Spread(b"{\n\"id\": \"t\"".to_vec());
    assert_eq!(
        pieces(&[Writes(b"{\n\"id\": \"t\"\n\"te"), Waits(500), Writes(b"xt\"\n")]),
        [begun, line(b"\"text\"")]
    );
    // CR alone ends no line within an object.
    let by_cr = b"{\r\"id\": \"t\"\r}";
    assert_eq!(
        pieces(&[Writes(by_cr), Writes(b"\r"), Writes(ANSWER), Writes(b"\r")]),
        [line(by_cr), line(ANSWER)]
    );
}

#[test]
fn colours_are_left_out_and_utf_16_and_utf_32_are_named() {
    let within =
        "\x1b[1;39m{\x1b[34;1m\"type\"\x1b[0m:\x1b[32m\"result\"\x1b[0m,\"id\":\"t\"\x1b[1;39m}\x1b[0m\n";
    let around = [b"\x1b[32m", ANSWER, b"\x1b[0m\n"].concat();
    for coloured in [&around[..], within.as_bytes()] {
        assert_eq!(pieces(&[Writes(coloured)]), [line(ANSWER)]);
        let unended = [Writes(coloured.trim_ascii_end()), Waits(500)];
        assert_eq!(pieces(&unended), [line(ANSWER)]);
        let logged = [b"INFO: ", coloured.trim_ascii_end()].concat();
        let echoed = [Writes(&logged), Writes(b"\n"), Writes(coloured), Waits(900)];
        assert_eq!(pieces(&echoed), [line(ANSWER)]);
        let [Piece::Prefixed { .. }] = &pieces(&[Writes(&logged), Waits(500)])[..] else {
            panic!("the line of the log is handed on");
        };
    }
    let spread = b"\x1b[1;39m{\n  \x1b[34;1m\"id\"\x1b[0m: \x1b[32m[]\x1b[0m\n\x1b[1;39m}\x1b[0m";
    let plain = Piece::Spread(b"{\n\"id\": []\n}".to_vec());
    assert_eq!(pieces(&[Writes(spread), Waits(500)]), [plain]);
    let text = String::from_utf8_lossy(ANSWER);
    let units = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let utf16 = Piece::Utf16(ANSWER.to_vec());
    let lines = [&b"\xff\xfe"[..], &units(&format!("{text}\r\n{text}\n"))].concat();
    assert_eq!(pieces(&[Writes(&lines)]), [utf16.clone(), utf16.clone()]);
    assert_eq!(pieces(&[Writes(&units(&text)), Waits(500)]), [utf16]);
    let units = |text: &str| -> Vec<u8> {
        text.chars()
            .flat_map(|one| u32::from(one).to_le_bytes())
            .collect()
    };
    let utf32 = Piece::Utf32(ANSWER.to_vec());
    let lines = [&units(&format!("{text}\n")), OTHER, b"\n"].concat();
    assert_eq!(pieces(&[Writes(&lines)]), [utf32.clone(), line(OTHER)]);
    assert_eq!(pieces(&[Writes(&units(&text)), Waits(500)]), [utf32]);
}

#[test]
fn a_message_behind_other_text_is_handed_on_unless_it_is_the_echo_of_a_log() {
    let logged = [b"INFO: ", ANSWER, b"\n"].concat();
    let prefixed = Piece::Prefixed {
        text: logged.trim_ascii_end().to_vec(),
        at: 6..6 + ANSWER.len(),
    };
    assert_eq!(prefixed.message(), ANSWER);
    assert_eq!(pieces(&[Writes(&logged), Waits(499)]), []);
    let handed_on = std::slice::from_ref(&prefixed);
    assert_eq!(pieces(&[Writes(&logged), Waits(500)]), handed_on);
    let unended = [Writes(logged.trim_ascii_end()), Waits(500)];
    assert_eq!(pieces(&unended), handed_on);
    assert_eq!(pieces(&[Writes(&logged), Ends]), handed_on);
    let said = [ANSWER, b"\n"].concat();
    let other = [OTHER, b"\n"].concat();
    assert_eq!(
        pieces(&[Writes(&logged), Writes(&other), Writes(&said), Waits(900)]),
        [line(OTHER), line(ANSWER)]
    );
    let slow = [Writes(&logged), Waits(100), Writes(ANSWER), Waits(900)];
    assert_eq!(pieces(&slow), [line(ANSWER)]);
    // Other lines do not put it off, and another line about its call comes behind it.
    assert_eq!(
        pieces(&[Writes(&logged), Waits(300), Writes(b"log\n"), Waits(200)]),
        [line(b"log"), prefixed.clone()]
    );
    let more = br#"{"type":"working","id":"t"}"#;
    assert_eq!(
        pieces(&[Writes(&logged), Writes(more), Writes(b"\n")]),
        [prefixed, line(more)]
    );
    let sent = [b"INFO: ", ANSWER, b" is sent\n"].concat();
    assert_eq!(
        pieces(&[Writes(&sent), Writes(&said), Waits(900)]),
        [line(ANSWER)]
    );
    assert_eq!(pieces(&[Writes(&sent), Waits(500)])[0].message(), ANSWER);
}

#[test]
fn a_message_behind_other_text_waits_while_others_are_about_other_sessions() {
    let update = |session: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}"}}}}"#)
    };
    let (one, two) = (update("1"), update("2"));
    let steps = format!("INFO: {one}\n{two}\n{one}\n");
    assert_eq!(
        pieces(&[Writes(steps.as_bytes()), Waits(900)]),
        [line(two.as_bytes()), line(one.as_bytes())]
    );
    let mut text = ProgramText::new(1000);
    text.take(
        steps.split_inclusive('\n').next().unwrap().as_bytes(),
        Instant::now(),
    );
    assert_eq!(text.doubts().count(), 1);
}

#[test]
fn a_line_that_is_too_long_is_told_by_its_ends() {
    let long = [&br#"{"id":1,"x":""#[..], "x".repeat(20_000).as_bytes(), br#""}"#].concat();
    let told = pieces(&[
        Writes(b"{\n"),
        Writes(&long),
        Waits(900),
        Writes(b"\n"),
        Writes(ANSWER),
        Writes(b"\n"),
    ]);
    let [Piece::Spread(_), Piece::TooLong { head, tail }, last] = &told[..] else {
        panic!("{told:?}");
    };
    assert!(head.starts_with(b"{\"id\":1") && tail.ends_with(b"x\"}"));
    assert_eq!(*last, line(ANSWER));
}

proptest! {
    /// However the bytes are cut, the pieces are the same, and no byte is lost.
    #[test]
    fn cuts_do_not_matter(
        text in prop::collection::vec(prop_oneof![
            Just(ANSWER.to_vec()), Just(b"INFO: ".to_vec()), Just(b"\x1b[1m".to_vec()),
            "[{}\\[\\]\":a\r\n ]{1,3}".prop_map(String::into_bytes),
        ], 0..20),
        step in 1_usize..9,
    ) {
        let text = text.concat();
        let all = pieces(&[Writes(&text), Ends]);
        let cut: Vec<Does<'_>> = text.chunks(step).map(Writes).chain([Ends]).collect();
        prop_assert_eq!(&pieces(&cut), &all);
        let letters = |bytes: &[u8]| bytes.iter().map(|byte| usize::from(*byte == b'a')).sum::<usize>();
        prop_assert!(all.iter().map(|piece| letters(piece.text())).sum::<usize>() <= letters(&text));
        // A message behind other text may be the echo of a log.
        if !text.windows(ANSWER.len()).any(|bytes| bytes == ANSWER) {
            prop_assert_eq!(all.iter().map(|piece| letters(piece.text())).sum::<usize>(), letters(&text));
        }
    }

    #[test]
    fn hostile_bytes_do_no_harm(text in prop::collection::vec(any::<u8>(), 0..200), step in 1_usize..50) {
        let steps: Vec<Does<'_>> = text.chunks(step).flat_map(|piece| [Writes(piece), Waits(600)]).chain([Ends]).collect();
        let _ = pieces(&steps);
    }
}
