//! What a text that cannot be read was meant to be: the members of its outermost objects, found without a
//! parser. PURE.

use agentanycast_readers::lines::{behind_key, has_key, spelled_out};

use crate::message::own_id;

/// The members at the top of a text that looks like JSON-RPC.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    /// The ids that it answers, perhaps.
    pub(crate) ids: Vec<u64>,
    is_rpc: bool,
    has_method: bool,
    has_outcome: bool,
}

/// Most ids of one text.
const MOST_IDS: usize = 16;

impl Outline {
    /// The outline of this text.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut outline = Self::default();
        let (mut depth, mut rest) = (0_usize, text);
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            match first {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let end = string_end(rest);
                    let (key, behind) = rest.split_at(end);
                    rest = behind.get(1..).unwrap_or_default();
                    if depth == 1
                        && let Some(value) = rest.trim_ascii_start().strip_prefix(b":")
                    {
                        outline.member(key, value.trim_ascii_start());
                    }
                }
                _ => {}
            }
        }
        outline
    }

    /// The outline of a text that is no JSON; where that is no answer, what can be cut out of it, if that names an open
    /// request. A key in `'` counts only where an object begins the text: others are of logs of Python.
    pub(crate) fn of_broken(text: &[u8], is_open: impl Fn(u64) -> bool) -> Self {
        let outline = Self::of(text);
        if outline.may_be_answer() {
            return outline;
        }
        let text = &*spelled_out(text);
        let has_outcome = has_key(text, "result") || has_key(text, "error");
        let is_rpc = text.windows(7).any(|seven| seven == b"jsonrpc");
        if !has_outcome || !is_rpc || has_key(text, "method") {
            return outline;
        }
        let mut cut = Self {
            has_outcome,
            ..Self::default()
        };
        // What an answer holds may have ids, too.
        let most = if text.trim_ascii_start().starts_with(b"[") {
            MOST_IDS
        } else {
            1
        };
        for value in behind_key(text, "id").take(most) {
            cut.member(b"id", value);
        }
        if cut.ids.iter().any(|id| is_open(*id)) {
            cut
        } else {
            outline
        }
    }

    /// The outline of a text of which only the beginning and the end are known.
    pub(crate) fn of_ends(head: &[u8], tail: &[u8]) -> Self {
        let mut outline = Self::of(head);
        // Some servers write the id last.
        let last = tail.windows(4).rposition(|four| four == b"\"id\"");
        if outline.ids.is_empty()
            && let Some(value) = last.and_then(|at| tail[at + 4..].trim_ascii_start().strip_prefix(b":"))
        {
            outline.member(b"id", value.trim_ascii_start());
        }
        outline
    }

    fn member(&mut self, key: &[u8], value: &[u8]) {
        match key {
            b"jsonrpc" => self.is_rpc = true,
            b"method" => self.has_method = true,
            b"result" | b"error" => self.has_outcome = true,
            b"id" if self.ids.len() < MOST_IDS => {
                let ends = |byte: &u8| matches!(byte, b',' | b'}') || byte.is_ascii_whitespace();
                let end = value.iter().position(ends).unwrap_or(value.len());
                let id = serde_json::from_slice(&value[..end]).ok();
                self.ids.extend(id.as_ref().and_then(own_id));
            }
            _ => {}
        }
    }

    /// Whether the text is an answer, perhaps. Log lines and notifications are none.
    pub(crate) const fn may_be_answer(&self) -> bool {
        self.has_outcome || self.is_rpc && !self.has_method
    }
}

/// Where the string ends whose text begins here.
fn string_end(text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(text: &str) -> Vec<u64> {
        Outline::of(text.as_bytes()).ids
    }

    #[test]
    fn the_ids_at_the_top_are_found() {
        assert_eq!(ids(r#"{"jsonrpc":"2.0","id":3,"result":{"id":4,"x":NaN}}"#), [3]);
        assert_eq!(ids(r#"{"result":{"text":"a \"id\": 9"}, "id" : "12" }"#), [12]);
        assert_eq!(ids(r#"{"id":1,"result":{}}{"id":2,"result":{}}"#), [1, 2]);
        assert_eq!(ids("{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 5,\n  \"result\""), [5]);
        assert!(ids(r#"{"id":null}"#).is_empty());
        let cut = Outline::of_ends(br#"{"result":{"content":["#, br#"xx"}]},"jsonrpc":"2.0","id":8}"#);
        assert_eq!((cut.may_be_answer(), cut.ids), (true, vec![8]));
    }

    #[test]
    fn ids_are_cut_out_of_broken_answers() {
        let answer = r#"{"jsonrpc": "2.0", "id": 4, "result": {"content": []}}"#;
        for text in [
            answer.replacen("{\"", "{ ", 1),
            answer.replace('"', "'"),
            answer.replace('"', "\\\""),
            format!("[{answer},]"),
            answer.chars().flat_map(|one| [one, '\0']).collect(),
        ] {
            let outline = Outline::of_broken(text.as_bytes(), |id| id == 4);
            assert_eq!((outline.may_be_answer(), outline.ids), (true, vec![4]), "{text}");
        }
        let nested = r#"{ jsonrpc": "2.0", "id": 4, "result": {"id": 5}}"#;
        assert_eq!(Outline::of_broken(nested.as_bytes(), |_| true).ids, [4]);
        assert!(!Outline::of_broken(nested.as_bytes(), |id| id == 5).may_be_answer());
        let list = format!("[{answer}, {},]", answer.replace('4', "5"));
        assert_eq!(Outline::of_broken(list.as_bytes(), |id| id == 5).ids, [4, 5]);
        for text in [
            "request 4 has its result",
            "sends {'jsonrpc': '2.0', 'id': 4, 'result': 1}",
            "{ jsonrpc\": \"2.0\", \"id\": 4, \"method\": \"error\", \"error\": 1}",
            "{ level\": 30, \"id\": 4, \"error\": 1}",
        ] {
            assert!(
                !Outline::of_broken(text.as_bytes(), |_| true).may_be_answer(),
                "{text}"
            );
        }
    }

    #[test]
    fn log_lines_and_notifications_are_no_answers() {
        let may = |text: &str| Outline::of(text.as_bytes()).may_be_answer();
        assert!(!may(r#"{"level":30,"id":3,"msg":"NaN"#));
        assert!(!may(
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":NaN}}"#
        ));
        assert!(!may("[INFO] started"));
        assert!(may(r#"{"jsonrpc":"2.0","id":3"#));
        assert!(may(r#"{"id":3,"result":NaN}"#));
        assert!(may(
            r#"{"jsonrpc":"2.0","method":"x"}{"jsonrpc":"2.0","id":1,"result":{}}"#
        ));
    }

    proptest! {
        #[test]
        fn hostile_text_does_no_harm(text in prop::collection::vec(
            prop_oneof![Just(b'"'), Just(b'{'), Just(b'}'), Just(b'\\'), Just(b':'), any::<u8>()], 0..60)) {
            let _ = Outline::of_broken(&text, |_| true);
            let _ = Outline::of_ends(&text, &text);
        }
    }
}
