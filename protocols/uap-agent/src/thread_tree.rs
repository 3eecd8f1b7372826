//! Thread trees: conversations that branch. Each node holds a state; a branch begins with the state of its
//! origin.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::state::{AgentState, StateError};

/// How many nodes a tree may have when it is read. A tree that people made has a few hundred.
const MAX_NODES: usize = 100_000;

/// Why a tree refuses an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadTreeError {
    /// The tree has no node with this id.
    #[error("the tree has no node `{0}`")]
    UnknownNode(String),
    /// The JSON is not a tree.
    #[error("`{field}`: {problem}")]
    Malformed {
        /// Where the problem is, for example `nodes[2].state`.
        field: String,
        /// What is wrong.
        problem: String,
    },
}

/// A node of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadNode {
    id: String,
    parent_id: Option<String>,
    state: AgentState,
    name: Option<String>,
    children: Vec<String>,
}

impl ThreadNode {
    fn new(parent_id: Option<String>, state: AgentState, name: Option<String>) -> Self {
        let id = Uuid::new_v4().to_string();
        Self {
            id,
            parent_id,
            state,
            name,
            children: Vec::new(),
        }
    }

    /// The id, an UUID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The id of the node that it branched from; `None` for the root.
    pub fn parent_id(&self) -> Option<&str> {
        self.parent_id.as_deref()
    }

    /// The state.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    /// The name of the branch.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The ids of the nodes that branched from it, oldest first.
    pub fn children(&self) -> &[String] {
        &self.children
    }
}

/// A conversation that branches.
///
/// ```
/// use agentanycast_uap::{AgentState, ThreadTree};
/// use agentanycast_upp::UserMessage;
///
/// let mut tree = ThreadTree::new(AgentState::initial().with_message(UserMessage::text("hi")));
/// let root = tree.root().id().to_owned();
/// let branch = tree.branch(&root, Some("another way"))?;
/// tree.checkout(&branch)?;
/// tree.update(tree.current().state().with_message(UserMessage::text("more")));
/// assert_eq!((tree.root().state().messages().len(), tree.history().messages().len()), (1, 2));
/// assert_eq!(ThreadTree::from_json(&tree.to_json())?, tree);
/// # Ok::<(), agentanycast_uap::ThreadTreeError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadTree {
    root: ThreadNode,
    /// All nodes but the root.
    others: BTreeMap<String, ThreadNode>,
    current_id: String,
}

impl ThreadTree {
    /// A tree of one node.
    pub fn new(state: AgentState) -> Self {
        let root = ThreadNode::new(None, state, None);
        Self {
            current_id: root.id.clone(),
            root,
            others: BTreeMap::new(),
        }
    }

    /// The first node.
    pub fn root(&self) -> &ThreadNode {
        &self.root
    }

    /// The active node.
    pub fn current(&self) -> &ThreadNode {
        // `checkout` lets existing nodes in only, and no node is removed.
        self.node(&self.current_id).unwrap_or(&self.root)
    }

    /// The node with this id.
    pub fn node(&self, id: &str) -> Option<&ThreadNode> {
        if id == self.root.id {
            Some(&self.root)
        } else {
            self.others.get(id)
        }
    }

    /// Makes a branch that begins with the state of the node `from_id`, and returns its id. The active node
    /// stays.
    pub fn branch(&mut self, from_id: &str, name: Option<&str>) -> Result<String, ThreadTreeError> {
        let origin = self.node_mut(from_id)?;
        let node = ThreadNode::new(
            Some(origin.id.clone()),
            origin.state.clone(),
            name.map(str::to_owned),
        );
        let id = node.id.clone();
        origin.children.push(id.clone());
        self.others.insert(id.clone(), node);
        Ok(id)
    }

    /// Makes a node the active one.
    pub fn checkout(&mut self, id: &str) -> Result<(), ThreadTreeError> {
        self.node_mut(id)?;
        id.clone_into(&mut self.current_id);
        Ok(())
    }

    /// Sets the state of the active node, for example to the one that an agent returned.
    pub fn update(&mut self, state: AgentState) {
        let id = self.current_id.clone();
        if let Ok(node) = self.node_mut(&id) {
            node.state = state;
        }
    }

    /// The state from the root to the active node. A branch copies the state of its origin, so that the state
    /// of the active node holds all of it.
    pub fn history(&self) -> AgentState {
        self.current().state.clone()
    }

    /// The nodes from the root to the active one.
    pub fn path(&self) -> Vec<&ThreadNode> {
        let mut path = vec![self.current()];
        while let Some(parent) = path
            .last()
            .and_then(|node| node.parent_id())
            .and_then(|id| self.node(id))
        {
            path.push(parent);
        }
        path.reverse();
        path
    }

    fn node_mut(&mut self, id: &str) -> Result<&mut ThreadNode, ThreadTreeError> {
        let node = if id == self.root.id {
            Some(&mut self.root)
        } else {
            self.others.get_mut(id)
        };
        node.ok_or_else(|| ThreadTreeError::UnknownNode(id.chars().take(40).collect()))
    }

    /// The JSON of the tree, the root first.
    pub fn to_json(&self) -> Value {
        let nodes = std::iter::once(&self.root)
            .chain(self.others.values())
            .map(|node| {
                let mut json = json!({
                    "id": node.id,
                    "parentId": node.parent_id,
                    "state": node.state.to_json(),
                    "children": node.children,
                });
                if let Some(name) = &node.name {
                    json["name"] = name.as_str().into();
                }
                json
            });
        json!({"rootId": self.root.id, "currentId": self.current_id, "nodes": nodes.collect::<Vec<_>>()})
    }

    /// Reads the JSON of a tree, and checks that it is one: one root, and each node a child of its parent.
    pub fn from_json(json: &Value) -> Result<Self, ThreadTreeError> {
        let root_id = text(json, "rootId", "rootId")?;
        let current_id = text(json, "currentId", "currentId")?;
        let nodes = json["nodes"]
            .as_array()
            .ok_or_else(|| malformed("nodes", "it is not a list"))?;
        if nodes.len() > MAX_NODES {
            return Err(malformed(
                "nodes",
                &format!("it has {} nodes; at most {MAX_NODES} are read", nodes.len()),
            ));
        }
        let mut others = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            let node = read_node(node, &format!("nodes[{index}]"))?;
            if others.insert(node.id.clone(), node).is_some() {
                return Err(malformed(
                    &format!("nodes[{index}].id"),
                    "another node has it too",
                ));
            }
        }
        let root = others
            .remove(&root_id)
            .ok_or(ThreadTreeError::UnknownNode(root_id))?;
        let tree = Self {
            root,
            others,
            current_id,
        };
        tree.check()?;
        Ok(tree)
    }

    fn check(&self) -> Result<(), ThreadTreeError> {
        if self.root.parent_id.is_some() {
            return Err(malformed("rootId", "the root has a parent"));
        }
        if self.node(&self.current_id).is_none() {
            return Err(ThreadTreeError::UnknownNode(self.current_id.clone()));
        }
        // Walking down from the root meets each node once if this is a tree.
        let mut met = 0;
        let mut open = vec![&self.root];
        while let Some(node) = open.pop() {
            for id in &node.children {
                let child = self
                    .others
                    .get(id)
                    .ok_or_else(|| ThreadTreeError::UnknownNode(id.clone()))?;
                met += 1;
                if child.parent_id() != Some(node.id.as_str()) || met > self.others.len() {
                    return Err(malformed(
                        "nodes",
                        &format!("node `{id}` is not the child of one parent"),
                    ));
                }
                open.push(child);
            }
        }
        if met != self.others.len() {
            return Err(malformed("nodes", "a node cannot be reached from the root"));
        }
        Ok(())
    }
}

fn read_node(json: &Value, place: &str) -> Result<ThreadNode, ThreadTreeError> {
    let optional = |name: &str| match &json[name] {
        Value::Null => Ok(None),
        _ => text(json, name, &format!("{place}.{name}")).map(Some),
    };
    let children = json["children"]
        .as_array()
        .ok_or_else(|| malformed(&format!("{place}.children"), "it is not a list"))?;
    let child = |child: &Value| child.as_str().map(str::to_owned);
    let children: Option<Vec<String>> = children.iter().map(child).collect();
    let state = AgentState::from_json(&json["state"])
        .map_err(|error: StateError| malformed(&format!("{place}.state"), &error.to_string()))?;
    Ok(ThreadNode {
        id: text(json, "id", &format!("{place}.id"))?,
        parent_id: optional("parentId")?,
        state,
        name: optional("name")?,
        children: children
            .ok_or_else(|| malformed(&format!("{place}.children"), "an entry is not a text"))?,
    })
}

fn text(json: &Value, name: &str, place: &str) -> Result<String, ThreadTreeError> {
    json[name]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| malformed(place, "it is not a text"))
}

fn malformed(field: &str, problem: &str) -> ThreadTreeError {
    ThreadTreeError::Malformed {
        field: field.to_owned(),
        problem: problem.to_owned(),
    }
}
