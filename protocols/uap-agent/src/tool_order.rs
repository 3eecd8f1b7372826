//! The order of the tools that a model calls in one message. Pure.
//!
//! Three things order calls: a tool that is sequential is a barrier, a tool may depend on others by name, and
//! a call may name calls to wait for. Calls that wait for each other in a circle run at once, without
//! waiting.

use std::collections::BTreeSet;

use agentanycast_upp::{Tool, ToolCall, ToolOrder};

/// The order that agents use.
///
/// ```
/// use agentanycast_uap::DependencyOrder;
/// use agentanycast_upp::{Tool, ToolCall, ToolOrder};
/// use serde_json::json;
///
/// let tool = |name: &str| Tool::new(name, "", json!({}), |_, _| async { Ok("done") });
/// let tools = [tool("read"), tool("write").depends_on(["read"])];
/// let calls = ["write", "read", "read"].map(|name| ToolCall::new(name, name, json!({})));
/// assert_eq!(DependencyOrder.groups(&calls, &tools), [vec![1, 2], vec![0]]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DependencyOrder;

impl ToolOrder for DependencyOrder {
    fn groups(&self, calls: &[ToolCall], tools: &[Tool]) -> Vec<Vec<usize>> {
        let graph = CallGraph::new(calls, tools);
        let mut waiting: BTreeSet<usize> = (0..calls.len()).collect();
        let mut groups = Vec::new();
        while !waiting.is_empty() {
            let begin = groups.len();
            graph.round(&mut waiting, &mut groups);
            if groups.len() == begin {
                graph.rest(&mut waiting, &mut groups);
            }
        }
        groups
    }
}

struct CallGraph {
    sequential: Vec<bool>,
    /// The calls that each call waits for, without itself.
    needs: Vec<BTreeSet<usize>>,
}

impl CallGraph {
    fn new(calls: &[ToolCall], tools: &[Tool]) -> Self {
        let tool_of = |call: &ToolCall| tools.iter().find(|tool| tool.name() == call.tool_name);
        let needs = |(index, call): (usize, &ToolCall)| {
            let dependencies = tool_of(call).map_or(&[][..], Tool::dependencies);
            let needed = |other: &ToolCall| {
                dependencies.contains(&other.tool_name) || call.after.contains(&other.tool_call_id)
            };
            (0..calls.len())
                .filter(|other| *other != index && needed(&calls[*other]))
                .collect()
        };
        Self {
            sequential: calls
                .iter()
                .map(|call| tool_of(call).is_some_and(Tool::is_sequential))
                .collect(),
            needs: calls.iter().enumerate().map(needs).collect(),
        }
    }

    /// One pass over the waiting calls in the order of the model. It adds the groups that may run now.
    fn round(&self, waiting: &mut BTreeSet<usize>, groups: &mut Vec<Vec<usize>>) {
        let mut ready = Vec::new();
        // A barrier that waits holds up the later calls, except those that it waits for itself.
        let mut allowed: Option<BTreeSet<usize>> = None;
        let begin = waiting.clone();
        for index in &begin {
            if allowed.as_ref().is_some_and(|allowed| !allowed.contains(index)) {
                continue;
            }
            let free = self.needs[*index].is_disjoint(waiting);
            if self.sequential[*index] {
                if free {
                    finish(&mut ready, waiting, groups);
                    groups.push(vec![*index]);
                    waiting.remove(index);
                    // The barrier may free calls before it, so that the next pass begins anew.
                    return;
                }
                allowed = Some(self.all_needs(*index));
            } else if free {
                ready.push(*index);
            }
        }
        finish(&mut ready, waiting, groups);
    }

    /// Breaks a circle: what waits runs now, barriers alone.
    fn rest(&self, waiting: &mut BTreeSet<usize>, groups: &mut Vec<Vec<usize>>) {
        let mut ready = Vec::new();
        for index in std::mem::take(waiting) {
            if self.sequential[index] {
                finish(&mut ready, waiting, groups);
                groups.push(vec![index]);
            } else {
                ready.push(index);
            }
        }
        finish(&mut ready, waiting, groups);
    }

    fn all_needs(&self, index: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = vec![index];
        while let Some(index) = open.pop() {
            open.extend(
                self.needs[index]
                    .iter()
                    .copied()
                    .filter(|need| found.insert(*need)),
            );
        }
        found
    }
}

fn finish(ready: &mut Vec<usize>, waiting: &mut BTreeSet<usize>, groups: &mut Vec<Vec<usize>>) {
    if ready.is_empty() {
        return;
    }
    for index in ready.iter() {
        waiting.remove(index);
    }
    groups.push(std::mem::take(ready));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

    fn tool() -> impl Strategy<Value = (bool, Vec<usize>)> {
        (
            prop::bool::weighted(0.25),
            prop::collection::vec(0..NAMES.len(), 0..2),
        )
    }

    fn tools() -> impl Strategy<Value = Vec<Tool>> {
        prop::collection::vec(tool(), NAMES.len()).prop_map(|tools| {
            let make = |(name, (sequential, depends)): (&str, (bool, Vec<usize>))| {
                let tool = Tool::new(name, "", json!({}), |_, _| async { Ok("done") });
                let tool = tool.depends_on(depends.into_iter().map(|index| NAMES[index]));
                if sequential { tool.sequential() } else { tool }
            };
            NAMES.into_iter().zip(tools).map(make).collect()
        })
    }

    fn calls() -> impl Strategy<Value = Vec<ToolCall>> {
        prop::collection::vec((0..NAMES.len(), prop::collection::vec(0_usize..8, 0..2)), 0..7).prop_map(
            |calls| {
                let make = |(index, (name, after)): (usize, (usize, Vec<usize>))| {
                    let mut call = ToolCall::new(index.to_string(), NAMES[name], json!({}));
                    call.after = after.into_iter().map(|after| after.to_string()).collect();
                    call
                };
                calls.into_iter().enumerate().map(make).collect()
            },
        )
    }

    fn acyclic(graph: &CallGraph) -> bool {
        (0..graph.needs.len()).all(|index| !graph.all_needs(index).contains(&index))
    }

    proptest! {
        #[test]
        fn each_call_runs_once_and_barriers_run_alone(calls in calls(), tools in tools()) {
            let groups = DependencyOrder.groups(&calls, &tools);
            let graph = CallGraph::new(&calls, &tools);
            let mut all: Vec<usize> = groups.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..calls.len()).collect::<Vec<_>>());
            for group in &groups {
                prop_assert!(!group.is_empty());
                prop_assert!(group.len() == 1 || group.iter().all(|index| !graph.sequential[*index]));
            }
        }

        #[test]
        fn without_circles_each_call_runs_behind_those_it_needs(calls in calls(), tools in tools()) {
            let graph = CallGraph::new(&calls, &tools);
            prop_assume!(acyclic(&graph));
            let groups = DependencyOrder.groups(&calls, &tools);
            let place = |index: usize| groups.iter().position(|group| group.contains(&index)).unwrap();
            for index in 0..calls.len() {
                for need in &graph.needs[index] {
                    prop_assert!(place(*need) < place(index));
                }
            }
            // A single barrier runs before all later calls, except those it needs.
            let barriers: Vec<_> = (0..calls.len()).filter(|index| graph.sequential[*index]).collect();
            if let [barrier] = barriers[..] {
                let needed = graph.all_needs(barrier);
                for later in barrier + 1..calls.len() {
                    prop_assert_eq!(place(later) < place(barrier), needed.contains(&later));
                }
            }
        }
    }
}
