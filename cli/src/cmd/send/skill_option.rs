//! `--skill` of `anycast send`, which says what TARGET is, or which skill a peer is asked for. PURE but for clap.
//!
//! The rule goes by where the option stands among the words:
//!
//! | typed | TARGET | skill |
//! |---|---|---|
//! | `--skill=S TARGET PART…`, in any order | a peer | S |
//! | `--skill TARGET PART…` | a skill | |
//! | `TARGET --skill PART`, `TARGET PART… --skill` | a skill | |
//! | `TARGET --skill S PART…`, `TARGET PART… --skill S` | a peer | S, the word behind the option |

use clap::{ArgMatches, Args, Command, FromArgMatches};

/// The value of the option where none is given behind `=`. No argument of a process has this character.
pub(super) const WITHOUT_VALUE: &str = "\0";

/// Where the option stands: how many words are before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SkillPlace {
    words_before: usize,
}

/// What the option says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SkillOption {
    /// It is not there.
    Absent,
    /// TARGET is a skill. `other`: what it would say with a further part behind it.
    OfAnyAgent {
        /// The word behind the option, where TARGET stands before it.
        other: Option<String>,
    },
    /// TARGET is a peer, and this is the skill that it is asked for.
    OfPeer(String),
}

impl SkillOption {
    /// `given` is the option's value; a part that is the skill is taken out of `parts`, unless nothing would be left to send.
    pub(super) fn new(
        given: Option<&str>,
        place: SkillPlace,
        parts: &mut Vec<String>,
        has_data: bool,
    ) -> Self {
        let behind = match (given, place.words_before) {
            (None, _) => return Self::Absent,
            (Some(WITHOUT_VALUE), 0) => return Self::OfAnyAgent { other: None },
            // TARGET is the first of the words.
            (Some(WITHOUT_VALUE), before) => before - 1,
            (Some(skill), _) => return Self::OfPeer(skill.to_owned()),
        };
        match parts.get(behind) {
            Some(_) if parts.len() > 1 || has_data => Self::OfPeer(parts.remove(behind)),
            other => Self::OfAnyAgent {
                other: other.cloned(),
            },
        }
    }
}

impl FromArgMatches for SkillPlace {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let places = |name: &str| matches.indices_of(name).into_iter().flatten();
        let Some(option) = places("skill").next() else {
            return Ok(Self::default());
        };
        let words = places("target").chain(places("parts"));
        Ok(Self {
            words_before: words.filter(|word| *word < option).count(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// It has no arguments of its own: it looks at those of `anycast send`.
impl Args for SkillPlace {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::{AnyCommand, Args as Line, Command as Typed};

    /// TARGET, what the option says, and what is sent.
    fn read(words: &[&str]) -> (String, SkillOption, Vec<String>) {
        let line = Line::parse_from_words(["anycast", "send"].iter().chain(words).map(Into::into).collect());
        let AnyCommand::Own(Typed::Send(mut args)) = line.unwrap().command else {
            panic!("another command")
        };
        let said = args.take_skill();
        (args.target, said, args.content.parts)
    }

    #[test]
    fn target_is_a_skill_as_before() {
        for (words, parts, other) in [
            (&["--skill", "S", "a"][..], &["a"][..], None),
            (&["--skill", "S", "a", "b"], &["a", "b"], None),
            (&["--skill", "S", "--data", "1"], &[], None),
            (&["--skill", "--no-wait", "S", "a"], &["a"], None),
            (
                &["--timeout", "1s", "--skill", "--output", "d", "S", "a"],
                &["a"],
                None,
            ),
            (&["S", "--skill", "a"], &["a"], Some("a")),
            (&["S", "a", "--skill"], &["a"], None),
            (&["S", "a", "b", "--skill"], &["a", "b"], None),
            (&["S", "--data", "1", "--skill"], &[], None),
        ] {
            let (target, said, sent) = read(words);
            let other = other.map(str::to_owned);
            assert_eq!(
                (target.as_str(), said),
                ("S", SkillOption::OfAnyAgent { other }),
                "{words:?}"
            );
            assert_eq!(sent, parts, "{words:?}");
        }
    }

    #[test]
    fn a_peer_is_asked_for_a_skill() {
        for (words, parts) in [
            (&["P", "--skill", "S", "a"][..], &["a"][..]),
            (&["P", "--skill", "S", "a", "b"], &["a", "b"]),
            (
                &["P", "--output", "d", "--skill", "S", "--timeout", "1s", "a"],
                &["a"],
            ),
            (&["P", "a", "--skill", "S"], &["a"]),
            (&["P", "a", "b", "--skill", "S"], &["a", "b"]),
            (&["P", "--skill", "S", "--data", "1"], &[]),
            (&["P", "--skill=S", "a"], &["a"]),
            (&["--skill=S", "P", "a"], &["a"]),
            (&["--skill=S", "P", "a", "b"], &["a", "b"]),
            (&["P", "a", "--skill=S"], &["a"]),
            (&["P", "--data", "1", "--skill=S"], &[]),
        ] {
            let (target, said, sent) = read(words);
            assert_eq!(
                (target.as_str(), said),
                ("P", SkillOption::OfPeer("S".to_owned())),
                "{words:?}"
            );
            assert_eq!(sent, parts, "{words:?}");
        }
        assert_eq!(read(&["P", "a"]).1, SkillOption::Absent);
    }

    #[test]
    fn what_cannot_be_read_is_an_error_of_usage() {
        for words in [
            &["send", "--skill", "S"][..],
            &["send", "--skill=", "P", "a"],
            &["send", "--skill=S", "P"],
            &["send", "--skill", "S", "a", "--skill"],
            &["send", "--skill=S", "--url", "P", "a"],
        ] {
            let words = ["anycast"].iter().chain(words).map(Into::into);
            let error = Line::parse_from_words(words.collect()).err();
            assert_eq!(error.map(|error| error.exit_code()), Some(2));
        }
    }
}
