//! Is an audit log whole? Each line a JSON object, and in a chained one each tied to the line before it.
//!
//! The rule: a line that was changed, removed, added or moved breaks the chain at the line after it, so only lines at
//! the very end can go unnoticed; who keeps the last hash elsewhere notices these too.

use std::io::{self, BufRead};

use super::log_line::{LineHash, hash, hex};

/// Longest line that is read, in bytes: many times what is ever written.
const MAX_LINE: u64 = 1 << 20;

/// A log that is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Its lines.
    pub lines: u64,
    /// Lines that have the hash of the one before.
    pub chained: u64,
    /// What the first line says the hash of the line before it is; None: it is not chained. Zeros: there was none.
    pub first_prev: Option<String>,
    /// The hash of the last line, which the next one will have.
    pub last: Option<String>,
    /// Whether the hash that was kept elsewhere is that of a line, or of the one before the first.
    pub has_kept: bool,
}

impl LogSummary {
    /// Both as one: `next` was read behind this one.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self {
            lines: self.lines + next.lines,
            chained: self.chained + next.chained,
            first_prev: self.first_prev.or(next.first_prev),
            last: next.last.or(self.last),
            has_kept: self.has_kept || next.has_kept,
        }
    }
}

/// Why a log is not whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// It cannot be read.
    #[error("line {line}: {error}")]
    Unreadable {
        /// Where, from 1.
        line: u64,
        /// The system's reason.
        error: io::Error,
    },
    /// This line is none that was written.
    #[error("line {line} is no line of an audit log: {why}")]
    NoEntry {
        /// Where, from 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// The line before this one is not the one that was there.
    #[error(
        "line {line}: its prev is {found}, the line before has {expected}; that line was changed, or lines between \
         them removed or added"
    )]
    Chain {
        /// Where, from 1.
        line: u64,
        /// What it says.
        found: String,
        /// What the line before has.
        expected: String,
    },
    /// A line without a hash follows on one with.
    #[error("line {line} has no prev, and the lines before it have")]
    Unchained {
        /// Where, from 1.
        line: u64,
    },
    /// It goes on behind a line, and what was read before it has none.
    #[error("line 1: its prev is {found}, and before it there is no line; those before were removed")]
    Missing {
        /// What it says.
        found: String,
    },
}

/// What the first line that was ever written says the hash of the one before is.
const NO_LINE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Whether a log's first line may say `found` behind the logs that were read before it. It begins behind a line, and
/// then that one is the last of theirs, whether or not they are chained; or it is the first of a chain that was switched
/// on with a new file.
fn goes_on(before: &LogSummary, found: &str) -> Result<(), VerifyError> {
    match &before.last {
        Some(last) if last == found => Ok(()),
        _ if before.chained == 0 && found == NO_LINE => Ok(()),
        Some(last) => Err(VerifyError::Chain {
            line: 1,
            found: found.to_owned(),
            expected: last.clone(),
        }),
        None => Err(VerifyError::Missing {
            found: found.to_owned(),
        }),
    }
}

/// Reads a log from its beginning to its end. `before` is what the logs before it had, if there are any: it has to go on
/// behind them. `kept` is a hash that was shown for a line earlier.
///
/// # Errors
/// At the first line that is not as it should be.
pub fn verify(
    mut log: impl BufRead,
    before: Option<&LogSummary>,
    kept: Option<&str>,
) -> Result<LogSummary, VerifyError> {
    let mut verified = LogSummary::default();
    let mut last: Option<LineHash> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        let number = verified.lines + 1;
        let unreadable = |error| VerifyError::Unreadable { line: number, error };
        let read = io::Read::take(&mut log, MAX_LINE)
            .read_until(b'\n', &mut line)
            .map_err(unreadable)?;
        if read == 0 {
            verified.last = last.map(|hash| hex(&hash));
            return Ok(verified);
        }
        let no_entry = |why: &str| VerifyError::NoEntry {
            line: number,
            why: why.to_owned(),
        };
        let Some(entry) = line.strip_suffix(b"\n") else {
            return Err(no_entry("it is cut off, or longer than 1 MiB"));
        };
        match prev(entry).map_err(|why| no_entry(&why))? {
            Some(found) => {
                if let Some(expected) = last.map(|hash| hex(&hash))
                    && expected != found
                {
                    return Err(VerifyError::Chain {
                        line: number,
                        found,
                        expected,
                    });
                }
                if number == 1 {
                    before.map_or(Ok(()), |before| goes_on(before, &found))?;
                    verified.has_kept |= kept == Some(&*found);
                    verified.first_prev = Some(found);
                }
                verified.chained += 1;
            }
            None if verified.chained > 0
                || number == 1 && before.is_some_and(|before| before.chained > 0) =>
            {
                return Err(VerifyError::Unchained { line: number });
            }
            None => {}
        }
        let own = hash(entry);
        verified.has_kept |= kept.is_some_and(|kept| kept == hex(&own));
        last = Some(own);
        verified.lines = number;
    }
}

/// What a line says the hash of the one before is.
fn prev(entry: &[u8]) -> Result<Option<String>, String> {
    let entry: serde_json::Value = serde_json::from_slice(entry).map_err(|error| error.to_string())?;
    if entry.get("decision").and_then(|word| word.as_str()).is_none() {
        return Err("it has no decision".to_owned());
    }
    match entry.get("prev") {
        None => Ok(None),
        Some(serde_json::Value::String(hash)) => Ok(Some(hash.clone())),
        Some(_) => Err("its prev is no text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::log_line::{AuditEntry, HashChain, TaskOrigin},
        *,
    };
    use crate::policy::{Decision, DecisionReason, PolicyOutcome};

    fn entry(at: u64, task: &str) -> AuditEntry {
        AuditEntry {
            at,
            decision: Decision {
                outcome: PolicyOutcome::Deny,
                reason: DecisionReason::Rule(2),
            },
            source: "12D3".into(),
            seen_as: None,
            target: "12D4".into(),
            skill: "echo".into(),
            task: task.into(),
            sealed_task: String::new(),
            envelope: "e".into(),
            transport: TaskOrigin::P2p,
        }
    }

    fn log(tasks: &[String]) -> Vec<u8> {
        let mut chain = HashChain(Some([0; 32]));
        let mut lines = Vec::new();
        for (at, task) in tasks.iter().enumerate() {
            chain.write(&entry(at as u64 * 1000, task), &mut lines);
        }
        lines
    }

    #[test]
    fn a_line_says_what_was_decided() {
        let mut lines = Vec::new();
        HashChain(None).write(&entry(1_800_000_000_120, "a\n\"b"), &mut lines);
        assert_eq!(
            String::from_utf8(lines).unwrap(),
            "{\"time\":\"2027-01-15T08:00:00.120Z\",\"decision\":\"deny\",\"source\":\"12D3\",\"target\":\"12D4\",\
             \"skill\":\"echo\",\"task\":\"a\\n\\\"b\",\"envelope\":\"e\",\"transport\":\"p2p\",\"rule\":\"acl 2\",\
             \"reason\":\"not allowed by this node's policy (acl 2)\"}\n"
        );
    }

    #[test]
    fn a_line_says_as_whom_its_source_was_seen() {
        let mut lines = Vec::new();
        let seen = AuditEntry {
            seen_as: Some("did:web:a".to_owned()),
            ..entry(0, "a")
        };
        HashChain(Some([0; 32])).write(&seen, &mut lines);
        assert_eq!(verify(&*lines, None, None).unwrap().chained, 1);
        let line = String::from_utf8(lines).unwrap();
        assert!(
            line.contains("(acl 2)\",\"as\":\"did:web:a\",\"prev\":\"00"),
            "{line}"
        );
    }

    #[test]
    fn what_was_lost_is_said_and_chained() {
        let mut lines = Vec::new();
        let mut chain = HashChain(Some([0; 32]));
        chain.write(&entry(0, "a"), &mut lines);
        chain.write_lost(0, 7, &mut lines);
        chain.write(&entry(0, "b"), &mut lines);
        let verified = verify(&*lines, None, None).unwrap();
        assert_eq!((verified.lines, verified.chained), (3, 3));
        assert!(
            String::from_utf8(lines)
                .unwrap()
                .contains("\"decision\":\"lost\",\"count\":7")
        );
    }

    #[test]
    fn a_second_file_goes_on_where_the_first_ended() {
        let (mut chain, mut one, mut two) = (HashChain(Some([0; 32])), Vec::new(), Vec::new());
        chain.write(&entry(0, "a"), &mut one);
        chain.write(&entry(0, "b"), &mut two);
        let first = verify(&*one, None, None).unwrap();
        assert_eq!(first.first_prev.as_deref(), Some(NO_LINE));
        let second = verify(&*two, Some(&first), None).unwrap();
        assert_eq!(second.first_prev, first.last);
        let another = verify(&*log(&["c".to_owned()]), None, None).unwrap();
        assert!(matches!(
            verify(&*two, Some(&another), None),
            Err(VerifyError::Chain { line: 1, .. })
        ));
        let plain = b"{\"decision\":\"allow\"}\n";
        assert!(matches!(
            verify(&plain[..], Some(&first), None),
            Err(VerifyError::Unchained { line: 1 })
        ));
    }

    fn stripped(log: &[u8]) -> Vec<u8> {
        let text = String::from_utf8(log.to_vec()).unwrap();
        let lines = text
            .lines()
            .map(|line| format!("{}}}\n", line.split_once(",\"prev\"").unwrap().0));
        lines.collect::<String>().into_bytes()
    }

    /// The file after it has the hash of its last line, whatever became of the chain in it.
    #[test]
    fn an_older_file_without_its_chain_or_without_lines_is_noticed() {
        let whole = log(&["a", "b", "c"].map(str::to_owned));
        let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let (one, two) = (lines[..2].concat(), lines[2]);
        let behind = |older: &[u8]| {
            let older = verify(older, None, None).unwrap();
            verify(two, Some(&older), None)
        };
        assert!(behind(&one).is_ok());
        assert!(matches!(
            behind(&stripped(&one)),
            Err(VerifyError::Chain { line: 1, .. })
        ));
        assert!(matches!(behind(b""), Err(VerifyError::Missing { .. })));
        // One that was rotated before anything came into it is none of these: the line before is in the one before it.
        let older = verify(&*one, None, None).unwrap();
        let both = older.then(verify(&b""[..], None, None).unwrap());
        assert!(verify(two, Some(&both), None).is_ok());
    }

    /// In the same file, or with a new one.
    #[test]
    fn a_chain_that_was_switched_on_later_is_whole() {
        let plain = b"{\"decision\":\"allow\"}\n".to_vec();
        let before = verify(&*plain, None, None).unwrap();
        let anew = log(&["a".to_owned()]);
        let next = verify(&*anew, Some(&before), None).unwrap();
        let both = before.clone().then(next);
        assert_eq!((both.lines, both.chained), (2, 1));
        let mut chain = HashChain(Some(hash(&plain[..plain.len() - 1])));
        let mut goes_on = Vec::new();
        chain.write(&entry(0, "a"), &mut goes_on);
        assert!(verify(&*[plain, goes_on.clone()].concat(), None, None).is_ok());
        assert!(verify(&*goes_on, Some(&before), None).is_ok(), "rotated then");
        assert!(
            verify(&*anew, Some(&both), None).is_err(),
            "and does not begin twice"
        );
    }

    /// Whoever kept the hash of a line finds it in the log for ever, unless that line is gone.
    #[test]
    fn a_log_that_was_cut_off_at_its_end_lacks_the_hash_that_was_kept() {
        let tasks = ["a", "b", "c", "d"].map(str::to_owned);
        let (whole, cut) = (log(&tasks), log(&tasks[..2]));
        let kept = verify(&*log(&tasks[..3]), None, None).unwrap().last;
        let has_kept = |log: &[u8]| verify(log, None, kept.as_deref()).unwrap().has_kept;
        assert!(has_kept(&whole), "it has grown since");
        assert!(has_kept(&log(&tasks[..3])));
        assert!(!has_kept(&cut) && !has_kept(b""));
        // Rotated: the rest goes on behind the line.
        let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        assert!(has_kept(lines[3]));
        assert!(!has_kept(&stripped(&whole)));
    }

    #[test]
    fn what_is_no_log_is_refused() {
        for (text, at) in [
            ("x\n", 1),
            ("{}\n", 1),
            ("{\"decision\":\"allow\",\"prev\":1}\n", 1),
        ] {
            assert!(
                matches!(verify(text.as_bytes(), None, None), Err(VerifyError::NoEntry { line, .. }) if line == at)
            );
        }
        let mut cut = log(&["a".to_owned(), "b".to_owned()]);
        cut.pop();
        assert!(matches!(
            verify(&*cut, None, None),
            Err(VerifyError::NoEntry { line: 2, .. })
        ));
        let endless = vec![b'x'; 3 << 20];
        assert!(matches!(
            verify(&*endless, None, None),
            Err(VerifyError::NoEntry { line: 1, .. })
        ));
        let plain = "{\"decision\":\"allow\"}\n";
        assert_eq!(verify(plain.as_bytes(), None, None).unwrap().chained, 0);
        let mixed = [log(&["a".to_owned()]), plain.as_bytes().to_vec()].concat();
        assert!(matches!(
            verify(&*mixed, None, None),
            Err(VerifyError::Unchained { line: 2 })
        ));
        assert_eq!(verify(&b""[..], None, None).unwrap(), LogSummary::default());
    }

    proptest! {
        /// Of a log that is whole any one byte is changed, or a line removed, doubled or moved: it is noticed, but at
        /// the very end.
        #[test]
        fn a_change_is_noticed(
            tasks in prop::collection::vec(".{0,12}", 3..8),
            line in any::<prop::sample::Index>(),
            byte in any::<prop::sample::Index>(),
            how in 0..4_u8,
        ) {
            let whole = log(&tasks);
            prop_assert_eq!(verify(&*whole, None, None).unwrap().lines, tasks.len() as u64);
            let mut lines: Vec<Vec<u8>> = whole.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            // Any but the last.
            let at = line.index(lines.len() - 1);
            match how {
                0 => {
                    let length = lines[at].len() - 1;
                    lines[at][byte.index(length)] ^= 1;
                }
                1 if at > 0 => {
                    lines.remove(at);
                }
                2 => {
                    let doubled = lines[at].clone();
                    lines.insert(at, doubled);
                }
                _ => lines.swap(at, at + 1),
            }
            let nothing = LogSummary::default();
            prop_assert!(verify(&*lines.concat(), Some(&nothing), None).is_err());
        }
    }
}
