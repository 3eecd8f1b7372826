//! Random runs of three nodes: whatever is lost, and whoever restarts, dies or is away, one agent works on each task.

use super::*;

#[derive(Clone, Copy, Debug)]
enum FailoverStep {
    Send {
        first: usize,
    },
    /// What `from` says to `to` arrives from now on, or no longer.
    Join {
        from: usize,
        to: usize,
        up: bool,
    },
    LoseAcks(bool),
    Wait(u64),
    Restart(usize),
    /// The agent at this node claims what it is given from now on and finishes nothing, or finishes everything at once.
    Slow {
        node: usize,
        dawdles: bool,
    },
    /// The agent at this node dies, and another one comes that finishes everything at once.
    Die(usize),
    /// The agent at this node is away for longer than it may be.
    Leave(usize),
}

fn step() -> impl Strategy<Value = FailoverStep> {
    let node = 0..3_usize;
    prop_oneof![
        3 => (1..3_usize).prop_map(|first| FailoverStep::Send { first }),
        6 => (node.clone(), node.clone(), any::<bool>()).prop_map(|(from, to, up)| FailoverStep::Join { from, to, up }),
        2 => any::<bool>().prop_map(FailoverStep::LoseAcks),
        5 => (100..4_000_u64).prop_map(FailoverStep::Wait),
        1 => node.prop_map(FailoverStep::Restart),
        2 => (1..3_usize, any::<bool>()).prop_map(|(node, dawdles)| FailoverStep::Slow { node, dawdles }),
        1 => (1..3_usize).prop_map(FailoverStep::Die),
        1 => (1..3_usize).prop_map(FailoverStep::Leave),
    ]
}

/// What agents do.
#[derive(Default)]
struct AgentWork {
    /// How much of what was handed over they have seen.
    read: usize,
    slow: BTreeSet<usize>,
    /// What was claimed and not finished, and where.
    claimed: BTreeSet<(usize, String)>,
    /// What agents were told OK for when they completed it, and where.
    completed: Vec<(String, usize)>,
}

impl AgentWork {
    fn go_on(&mut self, lab: &mut TestCluster) {
        while let Some((at, listener, task)) = lab.incoming.get(self.read).cloned() {
            self.read += 1;
            lab.call(at, |core, now| core.credit(now, listener, 1)).unwrap();
            if task.status != Status::Submitted {
                continue;
            }
            if self.slow.contains(&at) {
                // Handed over again after a restart it may have ended; so below.
                if lab.update(at, &task.id, Status::Working).is_ok() {
                    self.claimed.insert((at, task.id.clone()));
                }
            } else {
                self.complete(lab, at, &task.id);
            }
        }
    }

    fn complete(&mut self, lab: &mut TestCluster, at: usize, id: &str) {
        if lab.complete(at, id, "done").is_ok() {
            self.completed.push((id.to_owned(), at));
        }
    }

    fn finish(&mut self, lab: &mut TestCluster, node: usize) {
        self.slow.remove(&node);
        let (claimed, others) = std::mem::take(&mut self.claimed)
            .into_iter()
            .partition(|(at, _): &(usize, String)| *at == node);
        self.claimed = others;
        let claimed: BTreeSet<(usize, String)> = claimed;
        for (at, id) in claimed {
            self.complete(lab, at, &id);
        }
    }

    /// What it had claimed is never finished by it.
    fn die(&mut self, lab: &mut TestCluster, node: usize) {
        self.slow.remove(&node);
        self.claimed.retain(|(at, _)| *at != node);
        lose_agent(lab, node);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is lost and whoever restarts or dies: no task is completed at two nodes, none is worked on at two unless an
    /// agent died, and once all can talk, each ends, and well unless nobody else was there when its agent died.
    #[test]
    fn one_agent_works_on_each_task(steps in prop::collection::vec(step(), 1..40)) {
        let mut lab = lab();
        let mut listeners = BTreeMap::from([B, C].map(|node| (node, lab.listen(node))));
        let (mut ids, mut agents, mut died) = (Vec::new(), AgentWork::default(), false);
        for step in steps {
            match step {
                FailoverStep::Send { first } => {
                    let request = SendTask {
                        others: Some(vec![lab.id(3 - first)]),
                        ..SendTask::default()
                    };
                    ids.push(lab.send(A, lab.id(first), request).unwrap().id);
                }
                FailoverStep::Join { from, to, up } if from != to => {
                    let to = lab.id(to);
                    if up { lab.join(from, to) } else { lab.part(from, to) }
                }
                FailoverStep::Join { .. } => {}
                FailoverStep::LoseAcks(lost) => lab.acks_are_lost = lost,
                FailoverStep::Wait(ms) => lab.advance(Duration::from_millis(ms)),
                FailoverStep::Restart(node) => {
                    lab.restart(node);
                    if node != A {
                        listeners.insert(node, lab.listen(node));
                    }
                }
                FailoverStep::Slow { node, dawdles: true } => {
                    agents.slow.insert(node);
                }
                FailoverStep::Slow { node, dawdles: false } => agents.finish(&mut lab, node),
                FailoverStep::Die(node) => {
                    agents.die(&mut lab, node);
                    died = true;
                }
                FailoverStep::Leave(node) => {
                    let listener = listeners[&node];
                    lab.call(node, |core, now| core.detach(now, listener)).unwrap();
                    lab.advance(2 * limits().agent_grace);
                    listeners.insert(node, lab.listen(node));
                    died = true;
                }
            }
            agents.go_on(&mut lab);
        }
        lab.acks_are_lost = false;
        for (one, other) in [(A, B), (A, C)] {
            let (a, b) = (lab.id(one), lab.id(other));
            lab.part(one, b);
            lab.part(other, a);
            join(&mut lab, one, other);
        }
        for _ in 0..4 {
            lab.advance(Duration::from_secs(20));
            for node in [B, C] {
                agents.finish(&mut lab, node);
            }
            agents.go_on(&mut lab);
        }
        for id in ids {
            let workers: Vec<usize> = [B, C]
                .into_iter()
                .filter(|node| lab.handed_over(*node, &id).contains(&Status::Submitted))
                .collect();
            let by: Vec<usize> = agents.completed.iter().filter(|(done, _)| *done == id).map(|(_, at)| *at).collect();
            if lab.status(A, &id) == Status::Completed {
                prop_assert_eq!(by.len(), 1, "{} was completed at {:?}", id, by);
            } else {
                prop_assert!(died && by.is_empty(), "{} was completed at {:?}", id, by);
                prop_assert_eq!((lab.status(A, &id), lab.reason(A, &id)), (Status::Failed, "agent went away".into()));
            }
            prop_assert!(workers.len() == 1 || died, "{} was given to {:?}", id, workers);
        }
    }
}
