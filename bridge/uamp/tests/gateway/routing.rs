//! Receivers and extensions that choose an agent: what is malformed, or chooses two, is refused by its field.

use agentanycast_uamp::envelope::Intent;
use agentanycast_uamp_gateway::settings::{UampAlias, UampSettings};
use serde_json::{Value, json};

use crate::fixture::{TestGateway, draft, gateway_identity, http, sender, signed};

const SKILL: &str = "x-aa-skill";
const AGENT: &str = "x-aa-agent";
const URN: &str = "urn:agentanycast:skill:";

/// A DID that an alias makes the skill `add`.
const ALIAS: &str = "did:web:alias.example";

async fn gateway() -> TestGateway {
    let settings = UampSettings {
        aliases: vec![UampAlias {
            name: ALIAS.to_owned(),
            target: "skill:add".to_owned(),
        }],
        ..UampSettings::default()
    };
    TestGateway::with(settings).await
}

/// Sends an ask and an inform to this receiver with these extensions. Each is refused by the field, and the message
/// has these texts.
async fn check_refused(
    gateway: &TestGateway,
    to: &str,
    extensions: &[(&str, Value)],
    field: &str,
    texts: &[&str],
) {
    for intent in [Intent::Ask, Intent::Inform] {
        let mut sent = draft(intent, "x");
        sent.to = vec![to.to_owned()];
        for (name, value) in extensions {
            sent.ext.insert((*name).to_owned(), value.clone());
        }
        let response = gateway.post(&http(false), signed(&sent)).await;
        let (status, content) = gateway.refusal(response).await;
        let named = (status, content["field"].as_str());
        assert_eq!(named, (400, Some(field)), "{to} {content}");
        let message = content["message"].as_str().unwrap();
        assert!(texts.iter().all(|text| message.contains(text)), "{message}");
    }
    assert_eq!(gateway.node.state().tasks.len(), 0);
}

#[tokio::test]
async fn routing_that_is_malformed_is_refused() {
    let gateway = gateway().await;
    let own = gateway_identity().did().to_owned();
    for (name, value) in [(SKILL, json!(["paint"])), (SKILL, json!("")), (AGENT, json!(5))] {
        check_refused(&gateway, &own, &[(name, value)], &format!("ext.{name}"), &[]).await;
    }
    for did in [&own, sender().did()] {
        check_refused(&gateway, &format!("{did}#"), &[], "to.0", &["#"]).await;
    }
    check_refused(&gateway, URN, &[], "to.0", &["skill"]).await;
}

#[tokio::test]
async fn routing_that_contradicts_itself_is_refused() {
    let gateway = gateway().await;
    let own = gateway_identity().did().to_owned();
    let (foreign, unknown) = (sender().did().to_owned(), "did:web:calc.example");
    let (calc, paint) = (format!("{own}#calc"), format!("{URN}paint"));
    for (to, name, value, shown) in [
        (&*calc, AGENT, "paint", "#calc"),
        (&calc, SKILL, "add", "#calc"),
        (&foreign, SKILL, "add", &*foreign),
        (unknown, SKILL, "add", unknown),
        (&paint, SKILL, "add", &paint),
        (&paint, AGENT, "calc", &paint),
        (ALIAS, SKILL, "paint", ALIAS),
        (ALIAS, AGENT, "calc", ALIAS),
    ] {
        let texts = [shown, &format!("{name} {value:?}")];
        check_refused(&gateway, to, &[(name, json!(value))], "to.0", &texts).await;
    }
    let both = [(SKILL, json!("add")), (AGENT, json!("calc"))];
    let texts = ["x-aa-agent \"calc\"", "x-aa-skill \"add\""];
    check_refused(&gateway, &own, &both, "to.0", &texts).await;
}

#[tokio::test]
async fn a_choice_that_is_made_twice_is_taken() {
    let gateway = gateway().await;
    let own = gateway_identity().did().to_owned();
    for (to, name, value) in [
        (format!("{own}#calc"), AGENT, "calc"),
        (format!("{URN}add"), SKILL, "add"),
        (ALIAS.to_owned(), SKILL, "add"),
    ] {
        let mut twice = draft(Intent::Ask, "x");
        twice.to = vec![to];
        twice.ext.insert(name.to_owned(), json!(value));
        gateway.ask(&http(false), &twice).await;
    }
    assert_eq!(gateway.node.state().tasks.len(), 3);
}
