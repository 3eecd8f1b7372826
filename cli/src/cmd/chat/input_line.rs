//! PURE: what a typed line of a chat is: a command, or a message with the files that are named in it.

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChatInput {
    /// Only white space.
    Nothing,
    Help,
    Context,
    Quit,
    /// A command that there is not.
    Unknown(String),
    /// The parts of a message.
    Message(Vec<ChatPart>),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChatPart {
    Text(String),
    /// The path of a file.
    File(String),
}

/// Reads a line. A word that begins with `@` names a file, with `@@` it is the word without the first of them; a line that
/// begins with `//` is a message without the first of them.
pub(super) fn parse(line: &str) -> ChatInput {
    let line = line.trim();
    if line.is_empty() {
        return ChatInput::Nothing;
    }
    match line.strip_prefix('/') {
        None => message(line),
        Some(escaped) if escaped.starts_with('/') => message(escaped),
        Some("help") => ChatInput::Help,
        Some("context") => ChatInput::Context,
        Some("quit" | "exit") => ChatInput::Quit,
        Some(_) => ChatInput::Unknown(line.split_whitespace().next().unwrap_or_default().to_owned()),
    }
}

/// Texts and files in their order; what is between two files is one text, as it was typed.
fn message(line: &str) -> ChatInput {
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
                parts.push(ChatPart::File(file.to_owned()));
            }
            escaped => {
                text.push_str(space);
                text.push_str(escaped.filter(|rest| rest.starts_with('@')).unwrap_or(word));
            }
        }
    }
    flush(&mut text, &mut parts);
    ChatInput::Message(parts)
}

/// Ends a text.
fn flush(text: &mut String, parts: &mut Vec<ChatPart>) {
    let part = std::mem::take(text);
    let part = part.trim();
    if !part.is_empty() {
        parts.push(ChatPart::Text(part.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(line: &str) -> Vec<ChatPart> {
        match parse(line) {
            ChatInput::Message(parts) => parts,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    fn text(text: &str) -> ChatPart {
        ChatPart::Text(text.to_owned())
    }

    fn file(path: &str) -> ChatPart {
        ChatPart::File(path.to_owned())
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
        assert_eq!(parse("  "), ChatInput::Nothing);
        assert_eq!(parse("/help"), ChatInput::Help);
        assert_eq!(parse(" /quit "), ChatInput::Quit);
        assert_eq!(parse("/context"), ChatInput::Context);
        assert_eq!(parse("/qiut now"), ChatInput::Unknown("/qiut".to_owned()));
    }

    proptest! {
        #[test]
        fn no_part_is_empty(line in "[-@/a ]{0,20}|.{0,40}") {
            if let ChatInput::Message(parts) = parse(&line) {
                prop_assert!(!parts.is_empty());
                let is_empty = |part: &ChatPart| matches!(part, ChatPart::Text(text) | ChatPart::File(text) if text.is_empty());
                prop_assert!(!parts.iter().any(is_empty));
            }
        }

        #[test]
        fn a_text_without_files_stays_as_it_is(line in "[a-z][a-z ]{0,30}[a-z]") {
            prop_assert_eq!(parts(&line), [text(&line)]);
        }
    }
}
