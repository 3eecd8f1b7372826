//! PURE: what a typed line of a chat is: a command, or a message with the files that are named in it.

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Only white space.
    Nothing,
    Help,
    Context,
    Quit,
    /// A command that there is not.
    Unknown(String),
    /// The parts of a message.
    Message(Vec<Typed>),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Text(String),
    /// The path of a file.
    File(String),
}

/// Reads a line. A word that begins with `@` names a file, with `@@` it is the word without the first of them; a line that
/// begins with `//` is a message without the first of them.
pub(super) fn parse(line: &str) -> Line {
    let line = line.trim();
    if line.is_empty() {
        return Line::Nothing;
    }
    match line.strip_prefix('/') {
        None => message(line),
        Some(escaped) if escaped.starts_with('/') => message(escaped),
        Some("help") => Line::Help,
        Some("context") => Line::Context,
        Some("quit" | "exit") => Line::Quit,
        Some(_) => Line::Unknown(line.split_whitespace().next().unwrap_or_default().to_owned()),
    }
}

/// Texts and files in their order; what is between two files is one text, as it was typed.
fn message(line: &str) -> Line {
    let (mut parts, mut text) = (Vec::new(), String::new());
    let mut rest = line;
    while !rest.is_empty() {
        let gap = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        let (space, after) = rest.split_at(gap);
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (word, after) = after.split_at(end);
        rest = after;
        match word.strip_prefix('@') {
            Some(file) if !file.is_empty() && !file.starts_with('@') => {
                flush(&mut text, &mut parts);
                parts.push(Typed::File(file.to_owned()));
            }
            escaped => {
                text.push_str(space);
                text.push_str(escaped.filter(|rest| rest.starts_with('@')).unwrap_or(word));
            }
        }
    }
    flush(&mut text, &mut parts);
    Line::Message(parts)
}

/// Ends a text.
fn flush(text: &mut String, parts: &mut Vec<Typed>) {
    let part = std::mem::take(text);
    let part = part.trim();
    if !part.is_empty() {
        parts.push(Typed::Text(part.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(line: &str) -> Vec<Typed> {
        match parse(line) {
            Line::Message(parts) => parts,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    fn text(text: &str) -> Typed {
        Typed::Text(text.to_owned())
    }

    fn file(path: &str) -> Typed {
        Typed::File(path.to_owned())
    }

    #[test]
    fn files_are_taken_out_of_a_line() {
        assert_eq!(parts(" what is  this? "), [text("what is  this?")]);
        assert_eq!(
            parts("compare @a.txt with @b/c.txt, please"),
            [
                text("compare"),
                file("a.txt"),
                text("with"),
                file("b/c.txt,"),
                text("please")
            ]
        );
        assert_eq!(parts("@a"), [file("a")]);
        assert_eq!(
            parts("mail me@example.com @ noon"),
            [text("mail me@example.com @ noon")]
        );
        assert_eq!(parts("tell @@bob"), [text("tell @bob")]);
        assert_eq!(parts("@@bob"), [text("@bob")]);
        assert_eq!(parts("-"), [text("-")]);
        assert_eq!(parts("//etc"), [text("/etc")]);
    }

    #[test]
    fn commands_are_told_apart() {
        assert_eq!(parse("  "), Line::Nothing);
        assert_eq!(parse("/help"), Line::Help);
        assert_eq!(parse(" /quit "), Line::Quit);
        assert_eq!(parse("/context"), Line::Context);
        assert_eq!(parse("/qiut now"), Line::Unknown("/qiut".to_owned()));
    }

    proptest! {
        #[test]
        fn no_part_is_empty(line in "[-@/a ]{0,20}|.{0,40}") {
            if let Line::Message(parts) = parse(&line) {
                prop_assert!(!parts.is_empty());
                let is_empty = |part: &Typed| matches!(part, Typed::Text(text) | Typed::File(text) if text.is_empty());
                prop_assert!(!parts.iter().any(is_empty));
            }
        }

        #[test]
        fn a_text_without_files_stays_as_it_is(line in "[a-z][a-z ]{0,30}[a-z]") {
            prop_assert_eq!(parts(&line), [text(&line)]);
        }
    }
}
