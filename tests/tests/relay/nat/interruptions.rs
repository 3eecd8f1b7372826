//! What breaks while a task is under way: it completes all the same.

use super::*;

/// A pair with a task that is worked on.
struct InterruptedTask {
    internet: Internet,
    sites: [Site; 2],
    two: RelayedPair,
    took: Duration,
    before: &'static str,
    task: TaskHandle,
}

impl InterruptedTask {
    async fn start(nat: NatKind) -> Option<Self> {
        let internet = Internet::open().await?;
        let sites = [0; 2].map(|_| internet.site(nat));
        Some(Self::begin(internet, sites, nat, |daemon| daemon).await)
    }

    /// Ordinary NATs have been punched by then.
    async fn begin(
        internet: Internet,
        sites: [Site; 2],
        nat: NatKind,
        set_up: impl Fn(daemon::DaemonBuilder) -> daemon::DaemonBuilder,
    ) -> Self {
        let two = RelayedPair::start_with(&sites[0], &sites[1], set_up).await;
        let took = two.first_task().await;
        if nat == NatKind::Independent {
            two.direct().await;
        }
        let (before, task) = (two.path().await, two.begin().await);
        Self {
            internet,
            sites,
            two,
            took,
            before,
            task,
        }
    }

    /// Waits until the second is reached where the relay is now, by that address or by its name.
    async fn circuits_lead_through_the_new_address(&self) {
        let host = format!("/ip4/{}/", self.internet.next_relay_ip());
        eventually("circuits lead through the new address", || async {
            let told = circuits(&self.two.b.node().await).await;
            let there = |circuit: &String| circuit.starts_with(&host) || circuit.starts_with("/dns4/");
            let named = told.iter().any(|circuit| circuit.starts_with(&host));
            (named && told.iter().all(there)).then_some(())
        })
        .await;
    }

    /// The task ends well, and so does the next one.
    async fn end(&self, name: &str) {
        let heard = self.two.end(&self.task).await.as_secs_f64();
        self.two.task("after").await;
        let path = format!(
            "{}, then {}; end heard after {heard:.1} s",
            self.before,
            self.two.path().await
        );
        row(name, self.took, &path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_relay_is_restarted() {
    let Some(mut case) = InterruptedTask::start(NatKind::Symmetric).await else {
        return;
    };
    case.internet.relay.kill().await;
    case.internet.relay.restart().await;
    case.end("relay restarted").await;
}

/// Both nodes know the relay's old address and its new one.
#[tokio::test(flavor = "multi_thread")]
async fn the_relay_has_another_address() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let sites = [0; 2].map(|_| internet.site(NatKind::Symmetric));
    let next = internet.next_relay_address();
    let mut case = InterruptedTask::begin(internet, sites, NatKind::Symmetric, |daemon| {
        daemon.bootstrap(&next)
    })
    .await;
    case.internet.move_relay().await;
    case.circuits_lead_through_the_new_address().await;
    case.end("relay's address changed").await;
}

/// Both nodes know nothing of the relay but its name, which leads to its new address by then.
#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_the_relay_leads_to_another_address() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let names = internet.name_server();
    let mut sites = [0; 2].map(|_| internet.site(NatKind::Symmetric));
    for site in &mut sites {
        site.know_relay_by_name(&names);
    }
    let mut case = InterruptedTask::begin(internet, sites, NatKind::Symmetric, |daemon| daemon).await;
    names.set_address(&case.internet.next_relay_ip());
    case.internet.move_relay().await;
    case.circuits_lead_through_the_new_address().await;
    case.end("relay's name leads to another address").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nat_forgets_its_mappings() {
    let Some(case) = InterruptedTask::start(NatKind::Independent).await else {
        return;
    };
    case.sites[1].rebind();
    case.end("NAT rebinding").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_moves_to_another_network() {
    let Some(case) = InterruptedTask::start(NatKind::Independent).await else {
        return;
    };
    let elsewhere = case.internet.site(NatKind::Independent);
    case.internet.move_host(&case.sites[1], &elsewhere);
    case.end("node moved to another network").await;
}
