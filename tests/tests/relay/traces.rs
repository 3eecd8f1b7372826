//! Calls to the registry as spans, at a collector.

use agentanycast_tests::{TestRelay, eventually, trace_collector::TraceCollector};
use opentelemetry_proto::tonic::trace::v1::Span;
use tonic::{Code, Request};

use crate::registry_requests::{discover_request, heartbeat, registration};

const SERVICE: &str = "agentanycast.v1.RegistryService";

fn attribute(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == name);
    format!(
        "{:?}",
        found.unwrap_or_else(|| panic!("{name} of {span:?}")).value
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_is_a_span_of_its_callers_trace() {
    let (collector, address) = TraceCollector::start().await;
    let relay = TestRelay::builder()
        .args([format!("--otlp-endpoint=http://{address}")])
        .start()
        .await;
    let mut client = relay.client().await;
    client.register_skills(registration("p", "echo")).await.unwrap();
    let refused = client.heartbeat(heartbeat("nobody")).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    for (trace, flag) in [
        ("0af7651916cd43dd8448eb211c80319c", 1),
        ("1af7651916cd43dd8448eb211c80319c", 0),
    ] {
        let mut asked = Request::new(discover_request("echo"));
        let parent = format!("00-{trace}-b7ad6b7169203331-0{flag}");
        asked
            .metadata_mut()
            .insert("traceparent", parent.parse().unwrap());
        client.discover_by_skill(asked).await.unwrap();
    }
    let of = |method: &str| collector.spans_of(relay.id(), &format!("{SERVICE}/{method}"));
    eventually("the collector is told of all calls", || async {
        let all = ["RegisterSkills", "Heartbeat", "DiscoverBySkill"];
        all.iter().all(|method| !of(method).is_empty()).then_some(())
    })
    .await;
    let registered = &of("RegisterSkills")[0];
    assert!(registered.parent_span_id.is_empty() && registered.trace_id.len() == 16);
    assert!(registered.end_time_unix_nano > registered.start_time_unix_nano);
    assert!(attribute(registered, "rpc.service").contains(SERVICE));
    let refused = &of("Heartbeat")[0];
    assert!(attribute(refused, "rpc.grpc.status_code").contains(&(Code::NotFound as i32).to_string()));
    let asked = of("DiscoverBySkill");
    // Who began the other trace does not want it told.
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].trace_id[0], 0x0a);
    assert_eq!(asked[0].parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_holds_up_nobody() {
    let mut relay = TestRelay::builder()
        .args(["--otlp-endpoint=http://127.0.0.1:1"])
        .start()
        .await;
    let mut client = relay.client().await;
    client.register_skills(registration("p", "echo")).await.unwrap();
    eventually("the loss is in the log", || async {
        relay.log().contains("did not reach the collector").then_some(())
    })
    .await;
    let log = relay.log();
    let line = log
        .lines()
        .find(|line| line.contains("did not reach the collector"));
    let line = line.unwrap_or_default();
    assert!(
        line.contains("http://127.0.0.1:1") && line.contains("this is plaintext"),
        "{line}"
    );
    drop(client);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_collector_is_refused_at_the_start() {
    let output = TestRelay::builder()
        .args(["--otlp-endpoint=http://no collector"])
        .run_to_end()
        .await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let expected =
        "otlp_endpoint: \"http://no collector\" (flag --otlp-endpoint) is not allowed; it must be HOST:PORT";
    assert!(said.contains(expected), "{said}");
}
