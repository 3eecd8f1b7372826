//! A line that has no end yet, and where it ends. PURE.

/// What is kept of a line that is too long: its beginning and its end, in bytes.
const KEPT_OF_LONG: usize = 4 << 10;

/// A line; of one that is too long its ends.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) head: Vec<u8>,
    pub(super) tail: Vec<u8>,
    length: usize,
}

impl Line {
    pub(super) const fn is_cut(&self) -> bool {
        self.length > self.head.len()
    }

    fn push(&mut self, bytes: &[u8], most: usize) {
        self.length += bytes.len();
        if self.length <= most {
            return self.head.extend_from_slice(bytes);
        }
        let kept = KEPT_OF_LONG.min(most);
        self.head.truncate(kept);
        let room = kept - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.tail
            .extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT_OF_LONG)..]);
        let surplus = self.tail.len().saturating_sub(KEPT_OF_LONG);
        self.tail.drain(..surplus);
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct OpenLine {
    line: Line,
    scan: Scan,
    most: usize,
    /// The last line ended with CR: an LF behind it is part of the same end.
    after_cr: bool,
}

impl OpenLine {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            line: Line {
                head: Vec::new(),
                tail: Vec::new(),
                length: 0,
            },
            scan: Scan::new(),
            most,
            after_cr: false,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.line.length == 0
    }

    pub(super) const fn is_cut(&self) -> bool {
        self.line.is_cut()
    }

    /// Its bytes; of a line that is too long the first ones.
    pub(super) fn text(&self) -> &[u8] {
        &self.line.head
    }

    /// Whether it is an object that has its end, with nothing behind.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_cut() && self.scan.form == Form::Object && self.scan.is_closed
    }

    /// Takes bytes up to the end of the line: how many, and the line.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, Option<Line>) {
        let begin = usize::from(std::mem::take(&mut self.after_cr) && bytes.first() == Some(&b'\n'));
        for (at, byte) in bytes.iter().enumerate().skip(begin) {
            let taken = match self.scan.step(*byte) {
                ByteRole::Inside => continue,
                ByteRole::End => at + 1,
                ByteRole::Before => at,
            };
            self.line.push(&bytes[begin..at], self.most);
            self.after_cr = taken > at && *byte == b'\r';
            return (taken, Some(self.end()));
        }
        self.line.push(&bytes[begin..], self.most);
        (bytes.len(), None)
    }

    /// Ends the line here.
    pub(super) fn end(&mut self) -> Line {
        self.scan = Scan::new();
        std::mem::take(&mut self.line)
    }
}

/// What a byte is to its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteRole {
    /// A part of it.
    Inside,
    /// Its end.
    End,
    /// The line ended before it.
    Before,
}

/// What a line is by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Blank,
    /// It begins with `[`, and may be a list of objects.
    Bracket,
    /// It begins as an object, or as a list of objects.
    Object,
    Text,
}

/// A sequence of bytes that is read over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    No,
    /// One byte: that behind a backslash of a string, or the last one of a choice of characters.
    Next,
    /// The byte behind ESC.
    Escape,
    /// A control sequence of a terminal, up to its last byte.
    Control,
    /// A command to the system of a terminal, up to BEL or ESC.
    System,
}

/// Follows strings and brackets.
#[derive(Debug)]
struct Scan {
    form: Form,
    skip: Skip,
    depth: usize,
    in_string: bool,
    /// The last byte that is not blank closed the outermost bracket.
    is_closed: bool,
    /// A text has gone back to the beginning of its line.
    after_cr: bool,
}

impl Scan {
    const fn new() -> Self {
        Self {
            form: Form::Blank,
            skip: Skip::No,
            depth: 0,
            in_string: false,
            is_closed: false,
            after_cr: false,
        }
    }

    fn step(&mut self, byte: u8) -> ByteRole {
        if byte == b'\n' {
            return ByteRole::End;
        }
        match self.form {
            Form::Text => return self.step_in_text(byte),
            Form::Object if byte == b'\r' && self.depth == 0 && !self.in_string => return ByteRole::End,
            Form::Blank | Form::Bracket | Form::Object => {}
        }
        match self.skip {
            Skip::No if self.in_string => self.step_in_string(byte),
            Skip::No => self.step_outside(byte),
            // UTF-16.
            Skip::Next if byte == 0 => {}
            Skip::Next => self.skip = Skip::No,
            Skip::Escape => {
                self.skip = match byte {
                    b'[' => Skip::Control,
                    b']' => Skip::System,
                    b'(' | b')' => Skip::Next,
                    _ => Skip::No,
                }
            }
            Skip::Control if matches!(byte, 0x40..=0x7e) => self.skip = Skip::No,
            Skip::System if byte == 7 => self.skip = Skip::No,
            Skip::System if byte == 0x1b => self.skip = Skip::Escape,
            Skip::Control | Skip::System => {}
        }
        ByteRole::Inside
    }

    /// A progress bar draws its line again and again: it is one line until an object begins.
    fn step_in_text(&mut self, byte: u8) -> ByteRole {
        match byte {
            b'\r' => self.after_cr = true,
            b'{' if self.after_cr => return ByteRole::Before,
            _ => self.after_cr &= is_blank(byte),
        }
        ByteRole::Inside
    }

    const fn step_in_string(&mut self, byte: u8) {
        match byte {
            b'"' => self.in_string = false,
            b'\\' => self.skip = Skip::Next,
            _ => {}
        }
    }

    fn step_outside(&mut self, byte: u8) {
        match (self.form, byte) {
            (_, 0x1b) => self.skip = Skip::Escape,
            (_, byte) if is_blank(byte) => {}
            // Marks of byte order.
            (Form::Blank, 0xef | 0xbb | 0xbf | 0xfe | 0xff) => {}
            (Form::Blank, b'[') => (self.form, self.depth) = (Form::Bracket, 1),
            (Form::Blank | Form::Bracket, b'{') => {
                self.form = Form::Object;
                self.depth += 1;
            }
            (Form::Blank | Form::Bracket, _) => self.form = Form::Text,
            (_, b'{' | b'[') => {
                self.depth += 1;
                self.is_closed = false;
            }
            (_, b'}' | b']') => match self.depth.checked_sub(1) {
                Some(depth) => {
                    self.depth = depth;
                    self.is_closed = depth == 0;
                }
                None => self.form = Form::Text,
            },
            (_, byte) => {
                self.in_string = byte == b'"';
                self.is_closed = false;
            }
        }
    }
}

/// White space, and the other half of it in UTF-16.
const fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a text, and the line that has no end.
    fn lines(text: &[u8], step: usize) -> (Vec<String>, String) {
        let (mut open, mut lines) = (OpenLine::new(1000), Vec::new());
        for mut piece in text.chunks(step) {
            while !piece.is_empty() {
                let (taken, line) = open.take(piece);
                piece = &piece[taken..];
                lines.extend(line.map(|line| String::from_utf8_lossy(&line.head).trim().to_owned()));
            }
        }
        let rest = String::from_utf8_lossy(open.text()).into_owned();
        (lines, rest)
    }

    #[test]
    fn a_carriage_return_ends_a_line_outside_of_objects() {
        for (text, ended, rest) in [
            (
                "{\"a\":1}\r{\"b\":2}\r\n\r{\"c\"",
                &["{\"a\":1}", "{\"b\":2}"][..],
                "\r{\"c\"",
            ),
            ("{\r \"a\": [\r1]\r}\r", &["{\r \"a\": [\r1]\r}"], ""),
            ("{\"a\":\"x\\\"}\ry\"}\r", &["{\"a\":\"x\\\"}\ry\"}"], ""),
            ("[{\"a\":1},\r{}]\rx", &["[{\"a\":1},\r{}]"], "x"),
            ("\x1b[32m{\"a\":1}\x1b[0m\rx", &["\x1b[32m{\"a\":1}\x1b[0m"], "x"),
            ("\x1b]0;{\x07{}\r", &["\x1b]0;{\x07{}"], ""),
            // A bar is one line.
            (" 1%\r 2%\r[#]\r\n", &["1%\r 2%\r[#]"], ""),
            ("[# ]\r[##]\r", &[], "[# ]\r[##]\r"),
            (
                "bar 1%\rbar 2%\r {\"a\":1}\r",
                &["bar 1%\rbar 2%", "{\"a\":1}"],
                "",
            ),
            ("a } {\rb", &[], "a } {\rb"),
        ] {
            for step in [1, 2, 3, 1000] {
                let (found, left) = lines(text.as_bytes(), step);
                assert_eq!(
                    (&found[..], left.as_str()),
                    (
                        &ended.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()[..],
                        rest
                    ),
                    "{text:?} {step}"
                );
            }
        }
    }

    #[test]
    fn only_an_object_with_its_end_is_whole() {
        for (text, is_whole) in [
            ("{}", true),
            (" {\"a\":[1]} ", true),
            ("[{}]", true),
            ("{\"a\":NaN}", true),
            ("\x1b[1m{}\x1b[0m", true),
            ("\x1b[1m{}\x1b(B\x1b[m", true),
            ("{\x1b[34m\"a\"\x1b[0m:\x1b[1m[\x1b[0m1]}", true),
            ("{\0\"\0a\0\\\0\"\0\"\0:\x001\0}\0", true),
            ("{\"a\":{}", false),
            ("{\"a\":\"}", false),
            ("{} x", false),
            ("{}}", false),
            ("[INFO]", false),
            ("[]", false),
            ("x {}", false),
            ("", false),
        ] {
            let mut open = OpenLine::new(1000);
            assert!(text.is_empty() || open.take(text.as_bytes()).1.is_none());
            assert_eq!(open.is_whole(), is_whole, "{text:?}");
        }
    }

    #[test]
    fn the_ends_of_a_long_line_are_kept() {
        let mut open = OpenLine::new(100);
        for piece in ["{\"result\":", &"x".repeat(3 * KEPT_OF_LONG), ",\"id\":5}"] {
            assert!(open.take(piece.as_bytes()).1.is_none());
        }
        assert!(open.is_cut() && !open.is_whole());
        let line = open.take(b"\nx").1.unwrap();
        assert!(line.is_cut() && line.tail.len() == KEPT_OF_LONG);
        assert!(line.head.starts_with(b"{\"result\":") && line.tail.ends_with(b",\"id\":5}"));
    }
}
