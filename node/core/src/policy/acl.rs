//! Ordered rules: who may call which skill. The first rule that matches decides; where there are rules and none
//! matches, nobody may. A rule may be about one agent of the node alone.
//!
//! PURE. A source has several names (peer id, DIDs, `http:NAME`, `local`) and besides them those of the groups that
//! any of its names is in; a rule matches if its pattern matches one of them. A task without a skill has the skill "".

use super::glob::Glob;

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Who calls.
    pub source: Glob,
    /// What they call.
    pub skill: Glob,
    /// Which agent of the node they call.
    pub agent: Glob,
    /// Whether they may.
    pub allow: bool,
}

/// What a task is for, as rules see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedFor<'a> {
    /// The skill; empty: none.
    pub skill: &'a str,
    /// The agent of the node; empty: it is not known, or the node has none.
    pub agent: &'a str,
    /// It is for sources only that were let in.
    pub is_private: bool,
}

impl<'a> From<&'a str> for AskedFor<'a> {
    /// Of a skill alone.
    fn from(skill: &'a str) -> Self {
        Self {
            skill,
            ..Self::default()
        }
    }
}

impl Rule {
    /// Whether it is about tasks for this.
    pub fn covers(&self, asked: AskedFor<'_>) -> bool {
        self.skill.matches(asked.skill) && self.agent.matches(asked.agent)
    }
}

/// A name for several sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclGroup {
    /// Its name, which rules use.
    pub name: String,
    /// Who is in it: patterns over names that are no groups.
    pub members: Vec<Glob>,
}

/// The rules in their order, and the groups that they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// First match wins.
    pub rules: Vec<Rule>,
    /// In any order.
    pub groups: Vec<AclGroup>,
}

/// What the rules say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclDecision {
    /// There are none.
    NoRules,
    /// This one decides, from 1.
    Rule(usize),
    /// There are some, and none matches.
    NoMatch,
}

impl Acl {
    /// The names of a source with those of its groups.
    pub fn with_groups<'a>(&'a self, own: &[&'a str]) -> Vec<&'a str> {
        let is_member = |group: &&AclGroup| {
            let mut patterns = group.members.iter();
            patterns.any(|pattern| own.iter().any(|name| pattern.matches(name)))
        };
        let groups = self.groups.iter().filter(is_member);
        own.iter()
            .copied()
            .chain(groups.map(|group| group.name.as_str()))
            .collect()
    }

    /// Which rule decides; `names` are those of [`Acl::with_groups`].
    pub fn decide<'a>(&self, names: &[&str], asked: impl Into<AskedFor<'a>>) -> AclDecision {
        if self.rules.is_empty() {
            return AclDecision::NoRules;
        }
        let asked = asked.into();
        let matches = |rule: &Rule| rule.covers(asked) && names.iter().any(|name| rule.source.matches(name));
        match self.rules.iter().position(matches) {
            Some(at) => AclDecision::Rule(at + 1),
            None => AclDecision::NoMatch,
        }
    }

    /// Whether a source may, by this ruling of these rules.
    pub fn allows(&self, ruling: AclDecision) -> bool {
        match ruling {
            AclDecision::NoRules => true,
            AclDecision::Rule(number) => self.rules.get(number - 1).is_some_and(|rule| rule.allow),
            AclDecision::NoMatch => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn glob(text: &str) -> Glob {
        Glob::new(text).unwrap()
    }

    fn acl(rules: &[(&str, &str, bool)], groups: &[(&str, &[&str])]) -> Acl {
        Acl {
            rules: rules
                .iter()
                .map(|(source, skill, allow)| Rule {
                    source: glob(source),
                    skill: glob(skill),
                    agent: glob("*"),
                    allow: *allow,
                })
                .collect(),
            groups: groups
                .iter()
                .map(|(name, members)| AclGroup {
                    name: (*name).to_owned(),
                    members: members.iter().map(|member| glob(member)).collect(),
                })
                .collect(),
        }
    }

    #[test]
    fn the_first_match_decides_and_the_rest_may_not() {
        let acl = acl(
            &[
                ("http:*", "admin/*", false),
                ("http:alice", "*", true),
                ("ops", "*", true),
            ],
            &[("ops", &["did:key:z6Mk*", "12D3KooWops"])],
        );
        let ruling = |own: &[&str], skill| acl.decide(&acl.with_groups(own), skill);
        assert_eq!(ruling(&["http:alice"], "admin/users"), AclDecision::Rule(1));
        assert_eq!(ruling(&["http:alice"], "echo"), AclDecision::Rule(2));
        assert_eq!(ruling(&["http:bob"], "echo"), AclDecision::NoMatch);
        assert_eq!(ruling(&["12D3KooWx", "did:key:z6Mkx"], ""), AclDecision::Rule(3));
        assert_eq!(ruling(&["12D3KooWx"], ""), AclDecision::NoMatch);
        assert!(
            !acl.allows(AclDecision::Rule(1))
                && acl.allows(AclDecision::Rule(2))
                && !acl.allows(AclDecision::NoMatch)
        );
        let mut acl = acl;
        acl.rules[0].agent = glob("vault");
        let of = |agent| AskedFor {
            skill: "admin/x",
            agent,
            is_private: false,
        };
        assert_eq!(acl.decide(&["http:alice"], of("vault")), AclDecision::Rule(1));
        assert_eq!(acl.decide(&["http:alice"], of("painter")), AclDecision::Rule(2));
        assert_eq!(Acl::default().decide(&["x"], "y"), AclDecision::NoRules);
        assert!(Acl::default().allows(AclDecision::NoRules));
    }

    #[test]
    fn a_group_is_no_member_of_a_group() {
        let acl = acl(&[("b", "*", true)], &[("a", &["x"]), ("b", &["a"])]);
        assert_eq!(acl.decide(&acl.with_groups(&["x"]), ""), AclDecision::NoMatch);
    }

    /// A pattern that is `*`, a text, or a text with a star at its end.
    fn model_matches(pattern: &str, text: &str) -> bool {
        match pattern.strip_suffix('*') {
            Some(begin) => text.starts_with(begin),
            None => text == pattern,
        }
    }

    proptest! {
        /// Against asking each rule in turn, in plain words.
        #[test]
        fn as_if_each_rule_were_asked_in_turn(
            rules in prop::collection::vec(("[ab]{0,2}\\*?|g", "[ab]{0,2}\\*?", any::<bool>()), 0..6),
            members in prop::collection::vec("[ab]{0,2}\\*?", 0..3),
            own in prop::collection::vec("[ab]{1,3}", 1..3),
            skill in "[ab]{0,3}",
        ) {
            let legal = |text: &String| !text.is_empty();
            let rules: Vec<_> = rules
                .into_iter()
                .filter(|(source, skill, _)| legal(source) && legal(skill))
                .collect();
            let members: Vec<_> = members.into_iter().filter(legal).collect();
            let in_group = members.iter().any(|member| own.iter().any(|name| model_matches(member, name)));
            let mut expected = rules.is_empty();
            for (source, wanted, allow) in &rules {
                let is_source = own.iter().any(|name| model_matches(source, name))
                    || (in_group && model_matches(source, "g"));
                if is_source && model_matches(wanted, &skill) {
                    expected = *allow;
                    break;
                }
            }
            let rules: Vec<_> = rules.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), *c)).collect();
            let members: Vec<&str> = members.iter().map(String::as_str).collect();
            let acl = acl(&rules, &[("g", &members)]);
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            let names = acl.with_groups(&own);
            prop_assert_eq!(acl.allows(acl.decide(&names, skill.as_str())), expected);
        }
    }
}
