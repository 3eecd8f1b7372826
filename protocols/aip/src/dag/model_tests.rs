//! The graph against simple models: what follows from outcomes, and which edits make a circle.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

const TYPES: [DependencyType; 4] = [
    DependencyType::Unconditional,
    DependencyType::Conditional,
    DependencyType::SuccessOnly,
    DependencyType::CompletionOnly,
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Completes,
    Fails,
    LosesItsDevice,
}

#[derive(Clone, Debug)]
struct Plan {
    outcomes: Vec<Outcome>,
    /// From, to, type, whether its condition holds.
    lines: Vec<(usize, usize, DependencyType, bool)>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let outcome = prop_oneof![
        4 => Just(Outcome::Completes),
        2 => Just(Outcome::Fails),
        1 => Just(Outcome::LosesItsDevice),
    ];
    prop::collection::vec(outcome, 1..9).prop_flat_map(|outcomes| {
        let count = outcomes.len();
        let line = (
            0..count,
            0..count,
            prop::sample::select(&TYPES[..]),
            any::<bool>(),
        );
        prop::collection::vec(line, 0..14).prop_map(move |lines| {
            // Lines go from lower to higher numbers, one between two tasks.
            let lines = lines.into_iter().filter(|(from, to, ..)| from < to);
            let lines: BTreeMap<(usize, usize), (DependencyType, bool)> = lines
                .map(|(from, to, kind, holds)| ((from, to), (kind, holds)))
                .collect();
            let lines = lines
                .into_iter()
                .map(|((from, to), (kind, holds))| (from, to, kind, holds))
                .collect();
            Plan {
                outcomes: outcomes.clone(),
                lines,
            }
        })
    })
}

/// What the statuses are in the end, by the meaning of the types alone.
fn expected(plan: &Plan) -> Vec<TaskStarStatus> {
    use TaskStarStatus::{Cancelled, Completed, Failed};
    let mut statuses = Vec::new();
    for (task, outcome) in plan.outcomes.iter().enumerate() {
        let met = plan
            .lines
            .iter()
            .filter(|(_, to, ..)| *to == task)
            .all(|(from, _, kind, holds)| {
                let from: TaskStarStatus = statuses[*from];
                match kind {
                    DependencyType::Unconditional => true,
                    DependencyType::CompletionOnly => from != Cancelled,
                    DependencyType::SuccessOnly => from == Completed,
                    DependencyType::Conditional => from == Completed && *holds,
                }
            });
        statuses.push(match outcome {
            _ if !met => Cancelled,
            Outcome::Completes => Completed,
            Outcome::Fails | Outcome::LosesItsDevice => Failed,
        });
    }
    statuses
}

fn id(task: usize) -> String {
    format!("t{task}")
}

fn graph(plan: &Plan) -> TaskConstellation {
    let mut graph = TaskConstellation::new("g", "graph");
    for task in 0..plan.outcomes.len() {
        graph.add_task(TaskStar::new(&id(task), "x")).unwrap();
    }
    for (from, to, kind, _) in &plan.lines {
        graph
            .add_line(TaskStarLine::new(&id(*from), &id(*to), *kind))
            .unwrap();
    }
    graph
}

fn holds(plan: &Plan, line_id: &str) -> bool {
    plan.lines
        .iter()
        .any(|(from, to, _, holds)| line_id == format!("{}->{}", id(*from), id(*to)) && *holds)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_order_ends_as_the_types_say(plan in plan(), picks in prop::collection::vec(any::<usize>(), 64)) {
        let mut graph = graph(&plan);
        let mut picks = picks.into_iter();
        let mut started = Vec::new();
        prop_assert_eq!(graph.state(), ConstellationState::Ready);
        while !graph.is_ended() {
            let pick = picks.next().unwrap_or(0);
            let open: Vec<String> = graph.open_conditions().iter().map(|line| line.line_id.clone()).collect();
            let ready: Vec<String> = graph.ready().iter().map(|task| task.task_id.clone()).collect();
            let running: Vec<String> =
                graph.tasks().filter(|task| task.status == TaskStarStatus::Running).map(|task| task.task_id.clone()).collect();
            // A graph that has not ended goes on.
            let steps = open.len() + ready.len() + running.len();
            prop_assert!(steps > 0, "stuck: {:?}", graph);
            match pick % steps {
                step if step < open.len() => {
                    let line_id = &open[step];
                    graph.set_condition(line_id, holds(&plan, line_id)).unwrap();
                }
                step if step < open.len() + ready.len() => {
                    let task_id = ready[step - open.len()].clone();
                    for line in graph.lines_into(&task_id) {
                        prop_assert_eq!(graph.line_state(&line.line_id), Some(LineState::Met));
                    }
                    prop_assert!(!started.contains(&task_id));
                    graph.start(&task_id, &format!("device of {task_id}")).unwrap();
                    prop_assert!(graph.start(&task_id, "d").is_err() && graph.remove_task(&task_id).is_err());
                    started.push(task_id);
                }
                step => {
                    let task_id = running[step - open.len() - ready.len()].clone();
                    let number: usize = task_id[1..].parse().unwrap();
                    match plan.outcomes[number] {
                        Outcome::Completes => graph.complete(&task_id, Some(json!(number))).unwrap(),
                        Outcome::Fails => prop_assert!(!graph.fail(&task_id, "no").unwrap()),
                        Outcome::LosesItsDevice => {
                            prop_assert_eq!(graph.device_lost(&format!("device of {task_id}")), [task_id.clone()]);
                        }
                    }
                    prop_assert!(graph.complete(&task_id, None).is_err());
                }
            }
            // What is written down comes back; what runs begins anew.
            let again = TaskConstellation::from_document(graph.to_document()).unwrap();
            for task in graph.tasks() {
                let status = again.task(&task.task_id).unwrap().status;
                let expected =
                    if task.status == TaskStarStatus::Running { TaskStarStatus::Pending } else { task.status };
                prop_assert_eq!(status, expected);
            }
        }
        let found: Vec<TaskStarStatus> =
            (0..plan.outcomes.len()).map(|task| graph.task(&id(task)).unwrap().status).collect();
        let expected = expected(&plan);
        prop_assert_eq!(&found, &expected);
        let count = |status| expected.iter().filter(|found| **found == status).count();
        let state = match (count(TaskStarStatus::Completed), count(TaskStarStatus::Failed)) {
            (0, 0) => ConstellationState::Cancelled,
            (0, _) => ConstellationState::Failed,
            (_, 0) => ConstellationState::Completed,
            _ => ConstellationState::PartiallyFailed,
        };
        prop_assert_eq!(graph.state(), state);
    }

    #[test]
    fn edits_never_make_a_circle(edits in prop::collection::vec((any::<bool>(), 0_usize..6, 0_usize..6), 0..40)) {
        let mut graph = TaskConstellation::new("g", "graph");
        for task in 0..6 {
            graph.add_task(TaskStar::new(&id(task), "x")).unwrap();
        }
        let mut lines: Vec<(usize, usize)> = Vec::new();
        for (adds, from, to) in edits {
            let line_id = format!("{}->{}", id(from), id(to));
            if adds {
                let added = graph.add_line(TaskStarLine::new(&id(from), &id(to), DependencyType::SuccessOnly));
                let circle = path(&lines, to, from, 6);
                prop_assert_eq!(added.is_ok(), !lines.contains(&(from, to)) && !circle);
                if added.is_ok() {
                    lines.push((from, to));
                }
            } else {
                let there = lines.contains(&(from, to));
                prop_assert_eq!(graph.remove_line(&line_id).is_ok(), there);
                lines.retain(|line| *line != (from, to));
            }
            for task in 0..6 {
                let waits = lines.iter().any(|(_, to)| *to == task);
                let expected = if waits { TaskStarStatus::WaitingDependency } else { TaskStarStatus::Pending };
                prop_assert_eq!(graph.task(&id(task)).unwrap().status, expected);
            }
        }
    }
}

/// Whether `to` is reached from `from`, by trying all ways.
fn path(lines: &[(usize, usize)], from: usize, to: usize, left: usize) -> bool {
    from == to
        || left > 0
            && lines
                .iter()
                .any(|line| line.0 == from && path(lines, line.1, to, left - 1))
}

#[test]
fn a_graph_is_edited_while_it_runs() {
    let mut graph = TaskConstellation::new("g", "graph");
    for task_id in ["a", "b", "c"] {
        graph.add_task(TaskStar::new(task_id, "x")).unwrap();
    }
    graph
        .add_line(TaskStarLine::new("a", "b", DependencyType::SuccessOnly))
        .unwrap();
    graph
        .add_line(TaskStarLine::new("b", "c", DependencyType::SuccessOnly))
        .unwrap();
    graph.start("a", "d").unwrap();
    assert_eq!(graph.state(), ConstellationState::Executing);
    // What runs is not edited; what waits is.
    let status = |result: Result<(), DagError>| matches!(result, Err(DagError::Status { .. }));
    assert!(status(
        graph.edit_task("a", |task| task.description = "y".to_owned())
    ));
    assert!(status(graph.add_line(TaskStarLine::new(
        "c",
        "a",
        DependencyType::Unconditional
    ))));
    graph
        .edit_task("c", |task| task.description = "y".to_owned())
        .unwrap();
    graph.remove_task("b").unwrap();
    assert_eq!(graph.ready()[0].task_id, "c");
    let mut urgent = TaskStar::new("z", "now");
    urgent.priority = TaskPriority::Critical;
    graph.add_task(urgent).unwrap();
    assert_eq!(
        graph
            .ready()
            .iter()
            .map(|task| task.task_id.as_str())
            .collect::<Vec<_>>(),
        ["z", "c"]
    );
    // A dependency on what has ended counts at once.
    graph.complete("a", Some(json!(1))).unwrap();
    graph
        .add_line(TaskStarLine::new("a", "c", DependencyType::Conditional))
        .unwrap();
    assert_eq!(graph.open_conditions().len(), 1);
    graph.set_condition("a->c", false).unwrap();
    assert_eq!(graph.task("c").unwrap().status, TaskStarStatus::Cancelled);
    graph.cancel_all();
    assert_eq!(graph.state(), ConstellationState::Cancelled);
    assert_eq!(graph.add_task(TaskStar::new("n", "x")), Err(DagError::Cancelled));
}

#[test]
fn a_task_is_tried_again_as_often_as_it_may_be() {
    let mut graph = TaskConstellation::new("g", "graph");
    let mut task = TaskStar::new("a", "x");
    task.retry_count = 1;
    graph.add_task(task).unwrap();
    graph.start("a", "d").unwrap();
    graph.reassign("a", "e").unwrap();
    graph.start("a", "e").unwrap();
    assert!(graph.fail("a", "no").unwrap());
    graph.start("a", "e").unwrap();
    assert!(!graph.fail("a", "no").unwrap());
    assert_eq!(graph.state(), ConstellationState::Failed);
}

#[test]
fn a_document_that_is_not_a_graph_is_refused() {
    let document = |dependencies: serde_json::Value| -> ConstellationDocument {
        let task = |id: &str| json!({ "task_id": id, "priority": 3 });
        serde_json::from_value(json!({
            "constellation_id": "g", "state": "created", "tasks": { "a": task("a"), "b": task("b") },
            "dependencies": dependencies,
        }))
        .unwrap()
    };
    let line = |id: &str, from: &str, to: &str| json!({ "line_id": id, "from_task_id": from, "to_task_id": to, "dependency_type": "success_only" });
    let graph = TaskConstellation::from_document(document(json!({ "l": line("l", "a", "b") }))).unwrap();
    assert_eq!(graph.task("b").unwrap().status, TaskStarStatus::WaitingDependency);
    let circle = document(json!({ "l": line("l", "a", "b"), "m": line("m", "b", "a") }));
    assert!(matches!(
        TaskConstellation::from_document(circle),
        Err(DagError::Circle { .. })
    ));
    let missing = document(json!({ "l": line("l", "a", "z") }));
    assert!(matches!(
        TaskConstellation::from_document(missing),
        Err(DagError::NoTask(_))
    ));
}
