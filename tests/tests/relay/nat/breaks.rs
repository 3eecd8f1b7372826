//! What breaks while a task is under way: it completes all the same.

use super::*;

/// A pair with a task that is worked on.
struct Case {
    internet: Internet,
    sites: [Site; 2],
    two: Two,
    took: Duration,
    before: &'static str,
    task: TaskHandle,
}

impl Case {
    async fn start(nat: Nat) -> Option<Self> {
        Self::start_with(nat, |daemon, _| daemon).await
    }

    /// Ordinary NATs have been punched by then.
    async fn start_with(
        nat: Nat,
        set_up: impl Fn(daemon::Builder, &Internet) -> daemon::Builder,
    ) -> Option<Self> {
        let internet = Internet::open().await?;
        let sites = [0; 2].map(|_| internet.site(nat));
        let two = Two::start_with(&sites[0], &sites[1], |daemon| set_up(daemon, &internet)).await;
        let took = two.first_task().await;
        if nat == Nat::Independent {
            two.direct().await;
        }
        let (before, task) = (two.path().await, two.begin().await);
        Some(Self {
            internet,
            sites,
            two,
            took,
            before,
            task,
        })
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
    let Some(mut case) = Case::start(Nat::Symmetric).await else {
        return;
    };
    case.internet.relay.kill().await;
    case.internet.relay.restart().await;
    case.end("relay restarted").await;
}

/// Both nodes know the relay's old address and its new one, as they would by a DNS name.
#[tokio::test(flavor = "multi_thread")]
async fn the_relay_has_another_address() {
    let know_both =
        |daemon: daemon::Builder, internet: &Internet| daemon.bootstrap(internet.next_relay_address());
    let Some(mut case) = Case::start_with(Nat::Symmetric, know_both).await else {
        return;
    };
    case.internet.move_relay().await;
    let moved = case.internet.next_relay_address();
    let host = moved.split("/tcp/").next().unwrap();
    eventually("circuits lead through the new address", || async {
        let told = circuits(&case.two.b.node().await).await;
        told.iter().all(|circuit| circuit.starts_with(host)).then_some(())
    })
    .await;
    case.end("relay's address changed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nat_forgets_its_mappings() {
    let Some(case) = Case::start(Nat::Independent).await else {
        return;
    };
    case.sites[1].rebind();
    case.end("NAT rebinding").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_moves_to_another_network() {
    let Some(case) = Case::start(Nat::Independent).await else {
        return;
    };
    let elsewhere = case.internet.site(Nat::Independent);
    case.internet.move_host(&case.sites[1], &elsewhere);
    case.end("node moved to another network").await;
}
