//! Callers of a gateway: the labels by which their tasks are known again, and what their conversations are called. PURE, but
//! for the names of new conversations.
//!
//! A task that began by a gateway carries labels that say so: who asked, whom, and what the caller calls the conversation.
//! They stay with the task on this node and are as durable as it, so a gateway keeps nothing of its own. The one rule: a
//! caller sees the tasks that carry its own labels, and no others.
//!
//! A caller's conversations are its own too. What it calls one stays with the task; the mesh, and with it the agent, is given
//! a name that is made of that, of the caller and of its further labels. So two callers that say the same have two
//! conversations, and nothing has to be looked up or remembered. Whoever has not said who it is, and whoever uses the daemon
//! itself, shares the names with all who have not: there they are as they are given.
//!
//! A caller counts as the own node, or is a stranger to it, who sees and may use its open agents alone. Strangers of one name, as
//! those have that have not said who they are, have their own tasks: they never see those of callers who count as the own node.

use std::{borrow::Cow, collections::BTreeMap};

use agentanycast_front::auth::{ANONYMOUS, FrontCaller};
use agentanycast_proto::v1;
use uuid::{Builder, Uuid};

use crate::{
    Target, TaskGroup,
    labels::{CALLER, CONTEXT, STRANGER, TARGET, group_of},
};

/// What the share and the keys of a stranger count by, before its name. No name has a space.
const STRANGERS: &str = "stranger ";

/// The value of [`STRANGER`].
const IS_STRANGER: &str = "true";

/// Who calls a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallerIdentity {
    /// The name under which it is known; `None`: it uses the daemon itself.
    name: Option<String>,
    is_stranger: bool,
}

impl CallerIdentity {
    /// Whoever uses the daemon itself, such as the program that has started the gateway for itself alone.
    pub const fn local() -> Self {
        Self {
            name: None,
            is_stranger: false,
        }
    }

    /// One that has shown the gateway that it has this name, or that the owner of the node has named so.
    pub fn identified(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            is_stranger: false,
        }
    }

    /// One of this name that may be anybody.
    pub fn stranger(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            is_stranger: true,
        }
    }

    /// The name under which it is known; `None`: it uses the daemon itself.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it is a stranger to the node.
    pub fn is_stranger(&self) -> bool {
        self.is_stranger
    }

    /// By what it is told from others where they share something, such as memory.
    pub fn share(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        if self.is_stranger {
            format!("{STRANGERS}{name}")
        } else {
            name.to_owned()
        }
    }
}

impl From<&FrontCaller> for CallerIdentity {
    fn from(caller: &FrontCaller) -> Self {
        Self {
            name: Some(caller.as_str().to_owned()),
            is_stranger: caller.is_stranger(),
        }
    }
}

/// How the tasks of one gateway are labelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayLabels {
    /// The gateway's name: its callers are `NAME:SUBJECT` to the node's policy.
    pub name: &'static str,
    /// What the labels were called before, where the gateway has tasks from then.
    pub former: Option<LabelNames>,
}

/// The names of the labels of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelNames {
    /// Who asked: then the subject alone.
    pub caller: &'static str,
    /// What the caller calls the conversation.
    pub context: &'static str,
    /// Whom it asked.
    pub target: &'static str,
}

/// The names of today.
const NAMES: LabelNames = LabelNames {
    caller: CALLER,
    context: CONTEXT,
    target: TARGET,
};

impl GatewayLabels {
    /// Those of a gateway of this name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, former: None }
    }

    /// With tasks that have labels of these names.
    #[must_use]
    pub const fn with_former(mut self, former: LabelNames) -> Self {
        self.former = Some(former);
        self
    }

    /// What groups and conversations are made of: a gateway goes on with the names that it began with, or its older tasks
    /// would be in other lists and conversations.
    fn hashed_names(&self) -> LabelNames {
        self.former.unwrap_or(NAMES)
    }

    /// The label of a task by its name of today, else by the former one.
    fn label<'a>(&self, task: &'a v1::Task, name: fn(&LabelNames) -> &'static str) -> Option<&'a str> {
        let today = task.metadata.get(name(&NAMES));
        let former = || task.metadata.get(name(self.former.as_ref()?));
        today.or_else(former).map(String::as_str)
    }

    /// Who asked for a task by this gateway; `None`: whoever uses the daemon itself, or a caller of another gateway.
    fn subject_of<'a>(&self, task: &'a v1::Task) -> Option<Cow<'a, str>> {
        if let Some(caller) = task.metadata.get(CALLER) {
            let (name, subject) = caller.split_once(':')?;
            return (name == self.name).then_some(Cow::Borrowed(subject));
        }
        let former = task.metadata.get(self.former?.caller)?;
        Some(Cow::Borrowed(former))
    }

    /// Whether a task has a caller's label at all.
    fn has_caller(&self, task: &v1::Task) -> bool {
        let former = self.former.map_or(CALLER, |former| former.caller);
        task.metadata.contains_key(CALLER) || task.metadata.contains_key(former)
    }

    /// What the caller of a task calls its conversation.
    pub fn context_of<'a>(&self, task: &'a v1::Task) -> &'a str {
        self.label(task, |names| names.context)
            .unwrap_or(&task.context_id)
    }

    /// Whether a label is one that only gateways write.
    fn is_reserved(&self, name: &str) -> bool {
        let is_of = |names: LabelNames| [names.caller, names.context, names.target].contains(&name);
        name == STRANGER || is_of(NAMES) || self.former.is_some_and(is_of)
    }
}

/// A caller of a gateway, and whom it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    labels: GatewayLabels,
    identity: CallerIdentity,
    /// By what its share of memory counts.
    share: String,
    /// Whom it calls, in the words of its gateway.
    target: String,
    /// Whether [`Caller::target`] says which agent.
    is_per_agent: bool,
    /// Labels of the gateway itself that a task of the caller has, or does not have.
    further: BTreeMap<&'static str, Option<String>>,
    /// Whose its idempotency keys are; `None`: its own.
    keys_of: Option<String>,
}

impl Caller {
    /// One whose tasks with each agent are a list of their own.
    pub fn with_target(labels: GatewayLabels, identity: CallerIdentity, target: &Target) -> Self {
        Self {
            is_per_agent: true,
            ..Self::new(labels, identity, target.label())
        }
    }

    /// One whose tasks are one list, whomever it calls.
    pub fn with_one_list(labels: GatewayLabels, identity: CallerIdentity) -> Self {
        Self::new(labels, identity, labels.name.to_owned())
    }

    fn new(labels: GatewayLabels, identity: CallerIdentity, target: String) -> Self {
        Self {
            labels,
            share: identity.share(),
            identity,
            target,
            is_per_agent: false,
            further: BTreeMap::new(),
            keys_of: None,
        }
    }

    /// Whose tasks have this label of the gateway's own too; `None`: do not have it.
    #[must_use]
    pub fn with_label(mut self, name: &'static str, value: Option<String>) -> Self {
        self.further.insert(name, value);
        self
    }

    /// Whose idempotency keys are those of this owner: all callers with the same owner use the same keys. A key that
    /// another of them used is refused as one that named another message.
    #[must_use]
    pub fn with_keys_of(mut self, owner: String) -> Self {
        self.keys_of = Some(owner);
        self
    }

    /// By what its share of memory counts.
    pub fn share(&self) -> &str {
        &self.share
    }

    /// By what its idempotency keys count.
    pub(crate) fn key_owner(&self) -> &str {
        self.keys_of.as_deref().unwrap_or_else(|| self.share())
    }

    /// Whether it has said who it is, or need not.
    pub fn is_known(&self) -> bool {
        !self.identity.is_stranger && self.identity.name() != Some(ANONYMOUS)
    }

    /// Who it is.
    pub fn identity(&self) -> &CallerIdentity {
        &self.identity
    }

    /// Whether its list of tasks is that with one agent.
    pub(crate) fn is_per_agent(&self) -> bool {
        self.is_per_agent
    }

    /// How its tasks are labelled.
    pub fn gateway_labels(&self) -> &GatewayLabels {
        &self.labels
    }

    fn further_labels(&self) -> impl Iterator<Item = (String, String)> {
        let said = self.further.iter();
        let said = said.filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?)));
        let stranger = self.identity.is_stranger;
        said.chain(stranger.then(|| (STRANGER.to_owned(), IS_STRANGER.to_owned())))
    }

    /// The labels of a task that it sends, without the conversation.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels: BTreeMap<_, _> = self.further_labels().collect();
        labels.insert(TARGET.to_owned(), self.target.clone());
        if let Some(subject) = self.identity.name() {
            labels.insert(CALLER.to_owned(), format!("{}:{subject}", self.labels.name));
        }
        labels
    }

    /// What groups and conversations are made of.
    fn hashed_labels(&self) -> BTreeMap<String, String> {
        let names = self.labels.hashed_names();
        let mut labels: BTreeMap<_, _> = self.further_labels().collect();
        labels.insert(names.target.to_owned(), self.target.clone());
        if let Some(subject) = self.identity.name() {
            let value = match self.labels.former {
                Some(_) => subject.to_owned(),
                None => format!("{}:{subject}", self.labels.name),
            };
            labels.insert(names.caller.to_owned(), value);
        }
        labels
    }

    /// By what the node lists its tasks.
    pub fn group(&self) -> TaskGroup {
        group_of(&self.hashed_labels())
    }

    /// Whether names of conversations are those of this caller alone.
    fn has_own_contexts(&self) -> bool {
        self.identity.name().is_some_and(|name| name != ANONYMOUS)
    }

    /// What the mesh calls the conversation that this caller calls so.
    pub fn mesh_context(&self, name: &str) -> String {
        if !self.has_own_contexts() {
            return name.to_owned();
        }
        let names = self.labels.hashed_names();
        let mut owner = self.hashed_labels();
        // It may ask several agents in one conversation.
        owner.remove(names.target);
        owner.insert(names.context.to_owned(), name.to_owned());
        Builder::from_custom_bytes(group_of(&owner))
            .into_uuid()
            .to_string()
    }

    /// Notes in a new task's labels what this caller calls the conversation, an empty name being a new one; what the mesh
    /// calls it.
    pub(crate) fn new_context(&self, labels: &mut BTreeMap<String, String>, name: &str) -> String {
        if !self.has_own_contexts() {
            return name.to_owned();
        }
        let name = if name.is_empty() {
            Uuid::new_v4().to_string()
        } else {
            name.to_owned()
        };
        let named = self.mesh_context(&name);
        labels.insert(CONTEXT.to_owned(), name);
        named
    }

    /// Takes out of a message's labels those that only gateways write.
    pub(crate) fn remove_reserved(&self, labels: &mut BTreeMap<String, String>) {
        labels.retain(|name, _| !self.labels.is_reserved(name) && !self.further.contains_key(name.as_str()));
    }

    /// Whether this caller began a task, through the node `me`. Tasks of other nodes have labels too, those of gateways
    /// there or of anybody's making.
    pub fn owns(&self, task: &v1::Task, me: &str) -> bool {
        let subject = self.labels.subject_of(task);
        let is_callers = match self.identity.name() {
            Some(own) => subject.as_deref() == Some(own),
            None => !self.labels.has_caller(task),
        };
        let is_strangers = task.metadata.contains_key(STRANGER);
        let target = self.labels.label(task, |names| names.target);
        let has_further = self
            .further
            .iter()
            .all(|(name, value)| task.metadata.get(*name) == value.as_ref());
        task.originator_peer_id == me
            && is_callers
            && is_strangers == self.identity.is_stranger
            && target == Some(&self.target)
            && has_further
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: LabelNames = LabelNames {
        caller: "old.caller",
        context: "old.context",
        target: "old.target",
    };
    const LABELS: GatewayLabels = GatewayLabels::new("echo");
    const WITH_FORMER: GatewayLabels = LABELS.with_former(OLD);

    fn caller(labels: GatewayLabels, subject: &str) -> Caller {
        Caller::with_target(labels, CallerIdentity::identified(subject), &Target::Own)
    }

    fn task(metadata: &[(&str, &str)]) -> v1::Task {
        let metadata = metadata.iter();
        v1::Task {
            originator_peer_id: "me".to_owned(),
            metadata: metadata
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..v1::Task::default()
        }
    }

    #[test]
    fn each_caller_and_each_further_label_has_conversations_of_its_own() {
        for labels in [LABELS, WITH_FORMER] {
            let alice = caller(labels, "alice");
            let name = alice.mesh_context("c");
            assert_eq!(name.len(), 36, "it is as long as any other");
            let skill = Caller::with_target(
                labels,
                CallerIdentity::identified("alice"),
                &Target::Skill("x".to_owned()),
            );
            assert_eq!(name, skill.mesh_context("c"));
            for other in [
                alice.mesh_context("d"),
                caller(labels, "bob").mesh_context("c"),
                alice
                    .clone()
                    .with_label("t", Some("1".to_owned()))
                    .mesh_context("c"),
            ] {
                assert_ne!(name, other);
            }
            let everybody = [
                Caller::with_target(labels, CallerIdentity::local(), &Target::Own),
                caller(labels, ANONYMOUS),
            ];
            for everybody in everybody {
                assert_eq!(everybody.mesh_context("c"), "c");
            }
        }
    }

    #[test]
    fn callers_share_the_keys_of_an_owner_and_nothing_else() {
        let (alice, bob) = (caller(LABELS, "alice"), caller(LABELS, "bob"));
        assert_ne!(alice.key_owner(), bob.key_owner());
        let [a, b] = [&alice, &bob].map(|one| one.clone().with_keys_of("owner".to_owned()));
        assert_eq!((a.key_owner(), b.key_owner()), ("owner", "owner"));
        assert_eq!((a.share(), b.share()), ("alice", "bob"));
        assert_eq!((a.group(), b.group()), (alice.group(), bob.group()));
    }

    #[test]
    fn a_conversation_goes_on_by_the_name_that_is_shown() {
        let alice = caller(LABELS, "alice");
        let mut first = alice.labels();
        let task = v1::Task {
            context_id: alice.new_context(&mut first, ""),
            metadata: first,
            ..v1::Task::default()
        };
        assert_ne!(LABELS.context_of(&task), task.context_id);
        let mut second = alice.labels();
        let named = alice.new_context(&mut second, LABELS.context_of(&task));
        assert_eq!(named, task.context_id);
        let nobody = caller(LABELS, ANONYMOUS);
        let mut labels = nobody.labels();
        assert_eq!(
            (nobody.new_context(&mut labels, "").as_str(), labels.len()),
            ("", 2)
        );
    }

    #[test]
    fn a_caller_owns_what_carries_its_labels() {
        let alice = caller(LABELS, "alice");
        let mut own = task(&[(CALLER, "echo:alice"), (TARGET, "own")]);
        assert!(alice.owns(&own, "me"));
        assert!(!alice.owns(&own, "other"), "it began at another node");
        assert!(!caller(LABELS, "bob").owns(&own, "me"));
        assert!(!caller(GatewayLabels::new("else"), "alice").owns(&own, "me"));
        assert!(!Caller::with_target(LABELS, CallerIdentity::local(), &Target::Own).owns(&own, "me"));
        assert!(!Caller::with_one_list(LABELS, CallerIdentity::identified("alice")).owns(&own, "me"));
        let labelled = alice.clone().with_label("t", Some("1".to_owned()));
        assert!(!labelled.owns(&own, "me"));
        own.metadata.insert("t".to_owned(), "1".to_owned());
        assert!(labelled.owns(&own, "me"));
        assert!(!alice.clone().with_label("t", None).owns(&own, "me"));
        let local = task(&[(TARGET, "own")]);
        assert!(Caller::with_target(LABELS, CallerIdentity::local(), &Target::Own).owns(&local, "me"));
        assert!(!alice.owns(&local, "me"));
    }

    #[test]
    fn tasks_with_former_labels_stay_their_callers() {
        let old = task(&[
            ("old.caller", "alice"),
            ("old.target", "own"),
            ("old.context", "c"),
        ]);
        let alice = caller(WITH_FORMER, "alice");
        assert!(alice.owns(&old, "me"));
        assert_eq!(WITH_FORMER.context_of(&old), "c");
        assert!(!caller(WITH_FORMER, "bob").owns(&old, "me"));
        assert!(
            !caller(LABELS, "alice").owns(&old, "me"),
            "it never had such labels"
        );
        assert!(!Caller::with_target(WITH_FORMER, CallerIdentity::local(), &Target::Own).owns(&old, "me"));
        // The lists and conversations of then go on.
        let then = BTreeMap::from([
            ("old.caller".to_owned(), "alice".to_owned()),
            ("old.target".to_owned(), "own".to_owned()),
        ]);
        assert_eq!(alice.group(), group_of(&then));
        assert_ne!(alice.group(), caller(LABELS, "alice").group());
        // What is written today wins, whatever a former label says.
        let forged = task(&[(CALLER, "echo:bob"), (TARGET, "own"), ("old.caller", "alice")]);
        assert!(!alice.owns(&forged, "me"));
    }

    #[test]
    fn nobody_writes_the_labels_of_gateways() {
        let mut labels: BTreeMap<String, String> = [CALLER, CONTEXT, TARGET, STRANGER, OLD.caller, "t", "x"]
            .map(|name| (name.to_owned(), "v".to_owned()))
            .into();
        let alice = caller(WITH_FORMER, "alice").with_label("t", None);
        alice.remove_reserved(&mut labels);
        assert_eq!(labels.into_keys().collect::<Vec<_>>(), ["x"]);
    }
    #[test]
    fn strangers_and_callers_of_this_host_have_tasks_of_their_own() {
        for labels in [LABELS, WITH_FORMER] {
            let of = |identity| Caller::with_target(labels, identity, &Target::Own);
            let here = of(CallerIdentity::identified(ANONYMOUS));
            let stranger = of(CallerIdentity::stranger(ANONYMOUS));
            assert_eq!(stranger.labels()[STRANGER], "true");
            assert_eq!(stranger.labels()[CALLER], here.labels()[CALLER]);
            assert!(!here.labels().contains_key(STRANGER));
            let pairs = [(&here, &stranger), (&stranger, &here)];
            for (one, other) in pairs {
                let begun = v1::Task {
                    metadata: one.labels(),
                    ..task(&[])
                };
                assert!(one.owns(&begun, "me") && !other.owns(&begun, "me"));
                assert_ne!(one.group(), other.group());
                assert_ne!(one.share(), other.share());
                assert_ne!(one.key_owner(), other.key_owner());
                assert!(!one.is_known());
            }
        }
    }
}
