//! Everything that exists in a run, and how one thing after the other happens to it: machines, the
//! network between them, the people who use them, and the ledger of what they were told.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{
    agent::SimAgent,
    artifact_streams::ArtifactStreams,
    client::{SimClient, SimSubscriber},
    daemon::{CallAnswer, SimDaemon, SimOutput},
    describe,
    digest::RunDigest,
    history::{CallFate, CallId, History},
    legacy_daemon::LegacyDaemon,
    mutation::Mutation,
    network::{LinkNotice, SimNetwork, StreamReport, StreamUse},
    pending_call::{AgentNotice, PendingCall},
    plan::{RunPlan, SimEvent},
    rng::SimRng,
};
use crate::{
    clock::Now,
    coordinator::Coordinator,
    task::NetworkPath,
    transaction::{DeliverMode, Effect},
};

pub(super) struct SimHost {
    pub(super) daemon: SimDaemon,
    pub(super) client: SimClient,
    pub(super) agents: Vec<SimAgent>,
    pub(super) subscribers: Vec<SimSubscriber>,
    pub(super) streams: ArtifactStreams,
    pub(super) agent_notices: VecDeque<AgentNotice>,
    /// The envelope stream to each peer that is in use.
    writers: BTreeMap<usize, u64>,
    /// It could not go on: its people wait for the restart.
    known_failed: bool,
}

pub(super) struct Simulator {
    pub(super) rng: SimRng,
    pub(super) plan: RunPlan,
    pub(super) time: Duration,
    pub(super) nodes: Vec<SimHost>,
    pub(super) deployed: Option<LegacyDaemon>,
    pub(super) net: SimNetwork,
    pub(super) history: History,
    calls: BTreeMap<CallId, (usize, PendingCall)>,
    pub(super) last_number: u64,
    /// Inputs and frames so far: tells whether anything moves.
    pub(super) moves: u64,
    pub(super) healing: bool,
    trace: Option<Vec<String>>,
    digest: RunDigest,
}

impl Simulator {
    pub(super) fn new(seed: u64, sabotage: Mutation, deliver: DeliverMode, tracing: bool) -> Self {
        let mut dice = SimRng::new(seed);
        let plan = RunPlan::new(&mut dice, deliver);
        let hosts = plan.nodes + usize::from(plan.deployed);
        let nodes = (0..plan.nodes)
            .map(|at| SimHost {
                daemon: SimDaemon::new(at as u8 + 1, &plan.limits, seed.wrapping_mul(31), sabotage),
                client: SimClient::new(&mut dice, &plan, at, hosts),
                agents: (0..plan.agents).map(|_| SimAgent::default()).collect(),
                subscribers: Vec::new(),
                streams: ArtifactStreams::default(),
                agent_notices: VecDeque::new(),
                writers: BTreeMap::new(),
                known_failed: false,
            })
            .collect();
        let deployed = plan.deployed.then(|| LegacyDaemon::new(&mut dice, plan.nodes));
        let ledger = History::new(
            hosts,
            plan.limits.agent_grace,
            (plan.forgetful || plan.tight).then_some(plan.nodes),
        );
        let mut world = Self {
            rng: dice,
            time: Duration::ZERO,
            nodes,
            deployed,
            net: SimNetwork::new(hosts),
            history: ledger,
            calls: BTreeMap::new(),
            last_number: 0,
            moves: 0,
            healing: false,
            trace: tracing.then(Vec::new),
            digest: RunDigest::default(),
            plan,
        };
        let plan = world.plan.text();
        world.note(|| plan);
        for at in 0..world.plan.nodes {
            world.boot(at);
        }
        world
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} {}", self.time.as_secs_f64(), text()));
        }
    }

    pub(super) fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    /// What the run came to, once it is over.
    pub(super) fn digest(&mut self) -> [u8; 32] {
        let mut digest = std::mem::take(&mut self.digest);
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let Some(core) = &mut node.daemon.core else {
                continue;
            };
            let mut ids: Vec<String> = core
                .tasks()
                .index()
                .all()
                .map(|(id, _)| id)
                .map(str::to_owned)
                .collect();
            ids.sort_unstable();
            for id in ids {
                digest.task(at, &id, core.task(&id).ok().as_ref());
            }
        }
        digest.finish()
    }

    pub(super) fn hosts(&self) -> usize {
        self.plan.nodes + usize::from(self.plan.deployed)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn host_of(&self, peer: agentanycast_identity::PeerId) -> usize {
        let at = self.nodes.iter().position(|node| node.daemon.me == peer);
        at.unwrap_or(self.plan.nodes)
    }

    pub(super) fn peer_of(&self, host: usize) -> agentanycast_identity::PeerId {
        self.nodes
            .get(host)
            .map_or_else(|| crate::tests::harness::peer(200), |node| node.daemon.me)
    }

    /// One thing happens, chosen by the seed.
    pub(super) fn happen(&mut self) {
        let happening = self.plan.next(&mut self.rng);
        let at = self.rng.below(self.plan.nodes);
        match happening {
            SimEvent::Arrive => self.arrive(),
            SimEvent::Report => drop(self.report(at)),
            SimEvent::Notice => drop(self.notice(at)),
            SimEvent::Write => self.write_some(at),
            SimEvent::CloseTurn => self.end_turn(at),
            SimEvent::Client => self.client_acts(at),
            SimEvent::Agent => self.agents_act(at),
            SimEvent::Read => self.agents_read(at, 1),
            SimEvent::Stream => self.streams_act(at),
            SimEvent::Time => self.pass_some_time(),
            SimEvent::Open => {
                let fails = self.rng.chance(10);
                self.net.finish_opening(fails);
            }
            SimEvent::AgentNotice => drop(self.handle_agent_notice(at)),
            SimEvent::Deployed => self.deployed_acts(),
            SimEvent::Come => self.agents_come(at),
            SimEvent::Go => self.agent_goes(at),
            SimEvent::Boot => self.boot(at),
            SimEvent::Link | SimEvent::Unlink | SimEvent::Renew => self.change_link(happening),
            SimEvent::Break => self.net.break_one(&mut self.rng),
            SimEvent::Crash => self.crash(at),
            SimEvent::BreakDisk => self.nodes[at].daemon.break_disk(&mut self.rng),
            SimEvent::Jump => self.jump(at),
            SimEvent::Pause => {
                let pause = 5 + self.rng.below(60) as u64;
                self.pass(Duration::from_secs(pause));
            }
        }
        self.settle();
    }

    fn change_link(&mut self, happening: SimEvent) {
        let a = self.rng.below(self.hosts());
        let b = self.rng.below(self.hosts());
        if a == b {
            return;
        }
        self.note(|| format!("{happening:?} {a} {b}"));
        match happening {
            SimEvent::Link if self.reachable(a) && self.reachable(b) => self.link(a, b),
            SimEvent::Unlink => self.unlink(a, b),
            SimEvent::Renew => self.net.renew(a, b),
            _ => {}
        }
    }

    fn reachable(&self, host: usize) -> bool {
        self.nodes.get(host).is_none_or(|node| node.daemon.core.is_some())
    }

    pub(super) fn link(&mut self, a: usize, b: usize) {
        self.net.link(a, b, &mut self.rng);
    }

    fn unlink(&mut self, a: usize, b: usize) {
        self.net.unlink(a, b, &mut self.rng);
    }

    fn jump(&mut self, at: usize) {
        let sizes = [1, 30, 600, 90_000];
        let seconds = sizes[self.rng.below(sizes.len())];
        let ms = if self.rng.chance(50) {
            seconds * 1000
        } else {
            -seconds * 1000
        };
        self.note(|| format!("node {at}: the calendar jumps by {} s", ms / 1000));
        self.history.hour(at, self.hour_at(at));
        self.nodes[at].daemon.jump(ms);
        self.history.hour(at, self.hour_at(at));
    }

    /// What the calendar of a host shows.
    pub(super) fn hour_at(&self, host: usize) -> u64 {
        self.nodes
            .get(host)
            .map_or(0, |node| node.daemon.now(self.time).unix)
    }

    fn pass_some_time(&mut self) {
        let ms = match self.rng.below(100) {
            0..10 => 500 + self.rng.below(4000),
            _ => self.rng.below(60),
        };
        self.pass(Duration::from_millis(ms as u64));
    }

    /// Time goes on for everybody.
    pub(super) fn pass(&mut self, time: Duration) {
        self.time += time;
        for at in 0..self.nodes.len() {
            self.history.hour(at, self.hour_at(at));
            self.input(at, crate::coordinator::Coordinator::tick);
            self.flush_acks(at);
        }
    }

    /// Something other than a call goes into a node.
    pub(super) fn input<T>(
        &mut self,
        at: usize,
        f: impl FnOnce(&mut Coordinator, Now) -> Result<T, agentanycast_store::StoreError>,
    ) -> Option<T> {
        self.moves += 1;
        let done = self.nodes[at].daemon.input(self.time, f);
        self.after_input(at);
        done
    }

    /// Somebody calls a node.
    pub(super) fn call(
        &mut self,
        at: usize,
        what: PendingCall,
        f: impl FnOnce(&mut Coordinator, Now) -> CallAnswer,
    ) -> CallId {
        let (id, taken) = self.begin_call(at, what, f);
        self.end_call(at, id, taken);
        id
    }

    /// Its first half, and whether the node took it: nothing of what comes of it is let out.
    pub(super) fn begin_call(
        &mut self,
        at: usize,
        what: PendingCall,
        f: impl FnOnce(&mut Coordinator, Now) -> CallAnswer,
    ) -> (CallId, bool) {
        self.moves += 1;
        let id = self.history.ask();
        let works = self.nodes[at].daemon.is_running();
        self.calls.insert(id, (at, what));
        if works {
            self.nodes[at].daemon.call(self.time, id, f);
        }
        (id, works)
    }

    /// Its second half.
    pub(super) fn end_call(&mut self, at: usize, id: CallId, taken: bool) {
        if taken {
            self.after_input(at);
        } else {
            self.lose(id, CallFate::Refused);
        }
    }

    /// Ends the turn of a node.
    pub(super) fn end_turn(&mut self, at: usize) {
        for effect in self.nodes[at].daemon.end_turn(self.time) {
            self.effect(at, effect);
        }
    }

    fn after_input(&mut self, at: usize) {
        for effect in self.nodes[at].daemon.take_early() {
            self.effect(at, effect);
        }
        if !self.rng.chance(self.plan.grouping) {
            self.end_turn(at);
        }
        self.look_for_failure(at);
    }

    fn look_for_failure(&mut self, at: usize) {
        if self.nodes[at].daemon.has_failed() && !self.nodes[at].known_failed {
            self.note(|| format!("node {at}: the store failed"));
            self.nodes[at].known_failed = true;
            self.lose_calls(at);
        }
    }

    /// Nobody answers these calls any more: they may have happened or not.
    fn lose_calls(&mut self, at: usize) {
        let open: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(_, (node, _))| *node == at)
            .map(|(id, _)| *id)
            .collect();
        for id in open {
            self.lose(id, CallFate::Unknown);
        }
    }

    fn lose(&mut self, id: CallId, fate: CallFate) {
        if let Some((at, what)) = self.calls.remove(&id) {
            self.history.settle(id, fate);
            self.unanswered(at, what, fate);
        }
    }

    fn unanswered(&mut self, at: usize, what: PendingCall, fate: CallFate) {
        match what {
            PendingCall::Send { errand }
            | PendingCall::Look { errand }
            | PendingCall::Subscribe { errand }
            | PendingCall::Answer { errand }
            | PendingCall::Cancel { errand } => self.nodes[at].client.unanswered(errand, fate),
            PendingCall::Step(step) => self.step_unanswered(at, &step, fate),
            PendingCall::Check { agent, life, task } | PendingCall::StreamKept { agent, life, task } => {
                self.check_unanswered(at, agent, life, &task);
            }
            PendingCall::EndKept { .. } | PendingCall::Nobody => {}
        }
    }

    fn write_some(&mut self, at: usize) {
        self.end_turn(at);
        let (waiting, awaited) = self.nodes[at].daemon.waiting();
        // What nobody waits for may wait longer for company.
        if awaited || self.rng.chance(20) {
            let most = 1 + self.rng.below(waiting);
            self.nodes[at].daemon.write(most);
            self.look_for_failure(at);
        }
    }

    /// Lets everything out that may come out.
    pub(super) fn settle(&mut self) {
        let mut again = true;
        while again && self.history.wrong.is_none() {
            again = false;
            for at in 0..self.nodes.len() {
                while let Some(outs) = self.nodes[at].daemon.release() {
                    again = true;
                    for out in outs {
                        self.let_out(at, out);
                    }
                }
            }
        }
        self.look_after_bounds();
    }

    fn look_after_bounds(&mut self) {
        let most = self.plan.limits.max_open_tasks;
        for node in &self.nodes {
            if let Some(core) = &node.daemon.core
                && core.tasks().index().open() > most
            {
                let open = core.tasks().index().open();
                self.history
                    .wrong(format!("{open} open tasks, at most {most} are allowed"));
            }
        }
    }

    fn let_out(&mut self, at: usize, out: SimOutput) {
        match out {
            SimOutput::Answer(call, answer) => {
                if let Some((at, what)) = self.calls.remove(&call) {
                    let fate = if answer.is_ok() {
                        CallFate::Done
                    } else {
                        CallFate::Refused
                    };
                    self.history.settle(call, fate);
                    self.hear(at, what, answer);
                }
            }
            SimOutput::Effect(effect) => self.effect(at, *effect),
        }
    }

    fn hear(&mut self, at: usize, what: PendingCall, answer: CallAnswer) {
        match what {
            PendingCall::Send { errand }
            | PendingCall::Look { errand }
            | PendingCall::Subscribe { errand }
            | PendingCall::Answer { errand }
            | PendingCall::Cancel { errand } => self.client_hears(at, errand, &what, answer),
            PendingCall::Step(step) => self.stepped(at, &step, answer),
            PendingCall::Check { agent, life, task } => self.checked(at, agent, life, &task, answer),
            PendingCall::StreamKept { agent, life, task } => {
                self.stream_kept(at, agent, life, &task, &answer);
            }
            PendingCall::EndKept { key, peer, envelope } => self.end_kept(at, &key, peer, envelope),
            PendingCall::Nobody => {}
        }
    }

    fn effect(&mut self, at: usize, effect: Effect) {
        match effect {
            Effect::OpenStream { peer, stream } => {
                let to = self.host_of(peer);
                self.nodes[at].writers.insert(to, stream);
                self.net.open(at, to, stream, StreamUse::Envelopes);
            }
            Effect::Send { peer, stream, frame } => self.write_frame(at, peer, Some(stream), frame),
            Effect::Ack { peer, frame } => self.write_frame(at, peer, None, frame),
            Effect::Changed(change) => {
                self.note(|| {
                    let said = change.message.as_ref().map_or("", |said| &said.message_id);
                    format!("node {at}: {} is {} {said}", change.task_id, change.status)
                });
                self.history.see_change(at, &change);
                self.subscribers_see(at, &change);
            }
            Effect::Incoming { listener, task, .. } => self.hand_over(at, listener, task),
            Effect::StreamAccepted {
                peer,
                start,
                envelope_id,
            } => self.stream_accepted(at, self.host_of(peer), &start, envelope_id),
            Effect::StreamPiece {
                peer,
                envelope_id,
                payload,
            } => self.stream_piece(at, self.host_of(peer), envelope_id, *payload),
            Effect::StreamAck { peer, ack } => self.stream_ack(at, self.host_of(peer), &ack),
            Effect::StopStreams { task_id, incoming } => self.stop_streams(at, &task_id, incoming),
            Effect::Forget { task_id } => self.nodes[at].streams.forget(&task_id),
            Effect::Audit(entry) => self.history.decided(at, &entry),
            Effect::NodeCard(_)
            | Effect::PeerCard(_)
            | Effect::NotesChanged { .. }
            | Effect::Wanted { .. }
            | Effect::Routed(_)
            | Effect::Traced(_)
            | Effect::External { .. } => {}
        }
    }

    fn write_frame(
        &mut self,
        at: usize,
        peer: agentanycast_identity::PeerId,
        stream: Option<u64>,
        frame: bytes::Bytes,
    ) {
        let to = self.host_of(peer);
        let Some(&courier) = self.nodes[at].writers.get(&to) else {
            return;
        };
        if stream.is_some_and(|stream| stream != courier) {
            return;
        }
        if !self.net.write(at, to, courier, StreamUse::Envelopes, frame) {
            self.drop_courier(at, to);
        }
    }

    /// The courier writes what it has, and ends.
    fn drop_courier(&mut self, at: usize, to: usize) {
        if let Some(stream) = self.nodes[at].writers.remove(&to) {
            self.net.close(at, to, stream, StreamUse::Envelopes);
        }
    }

    fn arrive(&mut self) {
        let nodes = &self.nodes;
        // A node that has failed takes everything, and does nothing with it.
        let takes = |host: usize| {
            nodes
                .get(host)
                .is_none_or(|node| node.daemon.has_room() || node.daemon.has_failed())
        };
        let Some((from, to, frame)) = self.net.arrive(&mut self.rng, takes) else {
            return;
        };
        self.moves += 1;
        self.note(|| format!("{from} → {to}: {}", describe::line(&frame)));
        self.digest.envelope(from, to, &frame);
        if to < self.nodes.len() {
            let peer = self.peer_of(from);
            self.input(to, |core, now| core.on_frame(now, peer, &frame));
        } else {
            self.deployed_takes(from, &frame);
        }
    }

    pub(super) fn arrive_all(&mut self) {
        loop {
            let before = self.moves;
            self.arrive();
            self.settle();
            if before == self.moves || self.history.wrong.is_some() {
                return;
            }
        }
    }

    pub(super) fn notice(&mut self, at: usize) -> bool {
        if !self.nodes[at].daemon.has_room() {
            return false;
        }
        let Some((peer, notice)) = self.net.next_notice(at) else {
            return false;
        };
        let id = self.peer_of(peer);
        self.note(|| format!("node {at}: {notice:?} {peer}"));
        match notice {
            LinkNotice::Connected => {
                self.input(at, |core, now| core.on_connected(now, id));
            }
            LinkNotice::Renewed => {
                self.drop_courier(at, peer);
                self.input(at, |core, _| {
                    core.with_peers(|peers, transaction| peers.on_renewed(transaction, id));
                    Ok(())
                });
            }
            LinkNotice::Disconnected => {
                self.drop_courier(at, peer);
                self.input(at, |core, _| {
                    core.with_peers(|peers, transaction| peers.on_disconnected(transaction, id));
                    Ok(())
                });
            }
        }
        true
    }

    pub(super) fn report(&mut self, at: usize) -> bool {
        let Some(report) = self.net.next_report(at) else {
            return false;
        };
        let StreamReport {
            to,
            number,
            carries,
            opened,
        } = report;
        if carries == StreamUse::Artifact {
            self.artifact_stream(at, number, opened);
            return true;
        }
        if !opened && self.nodes[at].writers.get(&to) == Some(&number) {
            self.nodes[at].writers.remove(&to);
        }
        let peer = self.peer_of(to);
        self.input(at, |core, _| {
            if opened {
                core.with_peers(|peers, _| peers.on_stream_opened(peer, number, NetworkPath::Direct));
            } else {
                core.with_peers(|peers, transaction| peers.on_stream_closed(transaction, peer, number));
            }
            Ok(())
        });
        true
    }

    /// The process dies; its people are left with unanswered calls.
    fn crash(&mut self, at: usize) {
        if self.nodes[at].daemon.core.is_none() {
            return;
        }
        self.note(|| format!("node {at}: crash"));
        self.history.crashed(at);
        self.history.note_absence(at, self.time);
        self.nodes[at].daemon.crash(&mut self.rng);
        let cut = self.plan.power_cuts && self.rng.chance(30);
        self.nodes[at].streams.crash(cut, &mut self.rng);
        self.net.cut_off(at, &mut self.rng);
        self.nodes[at].writers.clear();
        self.nodes[at].subscribers.clear();
        self.nodes[at].agent_notices.clear();
        self.nodes[at].known_failed = false;
        self.lose_calls(at);
        for agent in &mut self.nodes[at].agents {
            agent.lose_node();
        }
    }

    pub(super) fn boot(&mut self, at: usize) {
        if self.nodes[at].daemon.has_failed() {
            self.crash(at);
        }
        if self.nodes[at].daemon.core.is_some() {
            return;
        }
        let started = self.nodes[at].daemon.boot(self.time);
        self.note(|| format!("node {at}: starts: {started}"));
        self.history.booted(at, self.time);
        self.end_turn(at);
    }
}
