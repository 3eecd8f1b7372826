//! Lists of tasks against a list of all of them, also after a restart.

use std::{cmp::Reverse, time::Duration};

use proptest::prelude::*;

use super::{
    cluster::{A, TestCluster},
    harness::limits,
};
use crate::{
    SendTask, TaskQuery,
    task::{GroupKey, Status},
};

/// What is known of a task that was sent.
#[derive(Clone, Debug)]
struct ListedTask {
    id: String,
    group: Option<GroupKey>,
    context: String,
    status: Status,
    changed: u64,
}

fn filter() -> impl Strategy<Value = (Option<u8>, Option<u8>, bool, Option<usize>, usize)> {
    (
        proptest::option::of(0..3_u8),
        proptest::option::of(0..3_u8),
        any::<bool>(),
        proptest::option::of(0..20_usize),
        0..3_usize,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_page_is_a_piece_of_the_whole(
        steps in proptest::collection::vec((proptest::option::of(0..2_u8), 0..2_u8, any::<bool>()), 1..20),
        filters in proptest::collection::vec(filter(), 1..5),
        size in 1..5_usize,
        restart: bool,
    ) {
        let mut lab = TestCluster::with_limits(&limits());
        let me = lab.id(A);
        let mut sent: Vec<ListedTask> = Vec::new();
        for (group, context, ends) in steps {
            lab.advance(Duration::from_millis(7));
            let group = group.map(|group| [group; 16]);
            let context = format!("c{context}");
            let request = SendTask { group, context_id: context.clone(), ..SendTask::default() };
            let id = lab.send(A, me, request).unwrap().id;
            if ends {
                lab.complete(A, &id, "r").unwrap();
            }
            let task = lab.nodes[A].core.task(&id).unwrap();
            sent.push(ListedTask { id, group, context, status: task.status, changed: task.updated_at });
        }
        if restart {
            lab.restart(A);
        }
        sent.sort_by_key(|task| Reverse((task.changed, task.id.clone())));
        for (group, context, ended, after, digits) in filters {
            let filter = TaskQuery {
                statuses: if ended { vec![Status::Completed] } else { Vec::new() },
                group: group.map(|group| [group; 16]),
                context_id: context.map(|context| format!("c{context}")).unwrap_or_default(),
                changed_after: after.and_then(|at| sent.get(at)).map(|task| task.changed),
                id_prefix: sent.first().map(|task| task.id[..digits].to_owned()).unwrap_or_default(),
            };
            let wanted: Vec<&ListedTask> = sent
                .iter()
                .filter(|task| filter.group.is_none() || task.group == filter.group)
                .filter(|task| filter.context_id.is_empty() || task.context == filter.context_id)
                .filter(|task| filter.statuses.is_empty() || filter.statuses.contains(&task.status))
                .filter(|task| filter.changed_after.is_none_or(|after| task.changed > after))
                .filter(|task| task.id.starts_with(&filter.id_prefix))
                .collect();
            let (mut read, mut place) = (Vec::new(), None);
            loop {
                let page = lab.nodes[A].core.tasks_mut().list(&filter, place.as_ref(), size).unwrap();
                prop_assert!(page.tasks.len() <= size);
                prop_assert_eq!(page.total, if group.is_some() { wanted.len() } else { 0 });
                read.extend(page.tasks.into_iter().map(|task| task.id));
                place = page.next;
                if place.is_none() {
                    break;
                }
            }
            let wanted: Vec<String> = wanted.into_iter().map(|task| task.id.clone()).collect();
            prop_assert_eq!(read, wanted);
        }
    }
}
