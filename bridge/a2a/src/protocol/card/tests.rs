//! Cards of A2A from cards of nodes, and back.

use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
};

use super::*;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

fn any_card() -> impl Strategy<Value = AgentCard> {
    let text = || "\\PC{0,8}";
    let skill = (
        "\\PC{1,8}",
        text(),
        text(),
        text(),
        btree_map("\\PC{0,6}", "\\PC{0,6}", 0..3),
    )
        .prop_map(|(id, description, input_schema, output_schema, tags)| Skill {
            id,
            description,
            input_schema,
            output_schema,
            tags,
        });
    let some = || "\\PC{1,8}";
    let p2p = (some(), vec(some(), 0..3), text(), text(), text()).prop_map(
        |(peer_id, list, did_key, did_web, did_dns)| P2pExtension {
            peer_id,
            supported_transports: list.clone(),
            relay_addresses: list.clone(),
            did_key,
            did_web,
            did_dns,
            verifiable_credentials: list,
            ..P2pExtension::default()
        },
    );
    (text(), text(), text(), text(), vec(skill, 0..3), option::of(p2p)).prop_map(
        |(name, description, version, protocol_version, mut skills, p2p_extension)| {
            skills.sort_by(|one: &Skill, other| one.id.cmp(&other.id));
            skills.dedup_by(|one, other| one.id == other.id);
            AgentCard {
                name,
                description,
                version,
                protocol_version,
                skills,
                p2p_extension,
                ..AgentCard::default()
            }
        },
    )
}

fn schemes() -> Vec<AuthScheme> {
    let scopes = vec!["a2a".to_owned()];
    let url = "https://issuer.example/.well-known/openid-configuration".to_owned();
    vec![
        AuthScheme::Bearer,
        AuthScheme::OpenId {
            url,
            scopes: scopes.clone(),
        },
        AuthScheme::Jwt { scopes },
        AuthScheme::MutualTls,
    ]
}

#[test]
fn every_way_of_saying_who_one_is_stands_in_the_forms_of_both_versions() {
    let front = |dual| CardEndpoint {
        dual,
        schemes: schemes(),
        ..CardEndpoint::default()
    };
    let strict = write(&AgentCard::default(), &front(false), None);
    let required: Vec<&Value> = strict["securityRequirements"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(required.len(), 4);
    assert_eq!(required[1]["schemes"]["openId"]["list"], json!(["a2a"]));
    let declared = |card: &Value, name: &str| card["securitySchemes"][name].clone();
    assert_eq!(required[0]["schemes"]["bearer"]["list"], json!(["caller"]));
    assert_eq!(declared(&strict, "mutualTls").as_object().unwrap().len(), 1);
    let dual = write(&AgentCard::default(), &front(true), None);
    for (name, kind) in [
        ("bearer", "http"),
        ("openId", "openIdConnect"),
        ("jwt", "http"),
        ("mutualTls", "mutualTLS"),
    ] {
        assert_eq!(declared(&dual, name)["type"], kind);
        assert!(declared(&strict, name).get("type").is_none());
    }
    assert_eq!(dual["security"][2], json!({"jwt": ["a2a"]}));
    assert!(
        write(&AgentCard::default(), &CardEndpoint::default(), None)
            .get("securitySchemes")
            .is_none()
    );
}

proptest! {
    #[test]
    fn nothing_of_a_card_is_lost(card in any_card(), dual: bool) {
        let front = CardEndpoint { url: "http://localhost".to_owned(), dual, schemes: schemes(), ..CardEndpoint::default() };
        let json = write(&card, &front, None);
        prop_assert_eq!(read(json).unwrap(), card);
    }
}

/// Both versions require the list. An agent that has no tags, as those of the Python SDK, has an empty one.
#[test]
fn a_skill_without_tags_has_a_list_of_none() {
    let card = AgentCard {
        skills: vec![Skill {
            id: "echo".to_owned(),
            ..Skill::default()
        }],
        ..AgentCard::default()
    };
    for dual in [true, false] {
        let front = CardEndpoint {
            dual,
            ..CardEndpoint::default()
        };
        assert_eq!(write(&card, &front, None)["skills"][0]["tags"], json!([]));
    }
}

/// What is empty is left out of a card, but for what both versions require; so what is signed is what is
/// shown.
#[test]
fn a_signed_card_has_nothing_empty_and_its_requirements_are_signed() {
    let key = Keypair::generate_ed25519();
    let agent = AgentCard {
        name: "A".to_owned(),
        p2p_extension: Some(P2pExtension {
            peer_id: "12D3".to_owned(),
            ..P2pExtension::default()
        }),
        skills: vec![Skill {
            id: "s".to_owned(),
            tags: [("fast".to_owned(), String::new())].into(),
            ..Skill::default()
        }],
        ..AgentCard::default()
    };
    let front = CardEndpoint {
        url: "https://h".to_owned(),
        schemes: schemes(),
        key: Some(key.clone()),
        ..CardEndpoint::default()
    };
    let more = json!({"iconUrl": "", "provider": {"url": "", "organization": "O"},
        "skills": [{"id": "t", "name": "T", "description": "D", "tags": [], "examples": []}]});
    let mut card = write(&agent, &front, more.as_object());
    let mut required = card.clone();
    for name in ["description", "version"] {
        assert_eq!(required[name], "", "{name} is required");
        required[name] = "x".into();
    }
    for skill in required["skills"].as_array_mut().unwrap() {
        skill["description"] = "x".into();
        skill["tags"] = json!(["x"]);
    }
    assert_eq!(without_empty(required.clone()), Some(required));
    let signatures = card["signatures"].take();
    card.as_object_mut().unwrap().remove("signatures");
    let verify = |card: &Value| {
        let payload = URL_SAFE_NO_PAD.encode(agentanycast_identity::json::canonical(card).unwrap());
        let mut signatures = signatures.as_array().unwrap().iter();
        signatures.any(|signature| {
            let text = |name: &str| signature[name].as_str().unwrap().to_owned();
            let signed = format!("{}.{payload}", text("protected"));
            let bytes = URL_SAFE_NO_PAD.decode(text("signature")).unwrap();
            key.public().verify(signed.as_bytes(), &bytes)
        })
    };
    assert!(verify(&card), "by 8.4.1");
    assert!(
        verify(&without_empty(card.clone()).unwrap()),
        "as a2a-sdk does it"
    );
    for name in ["securityRequirements", "securitySchemes", "supportedInterfaces"] {
        let mut other = card.clone();
        other.as_object_mut().unwrap().remove(name);
        assert!(
            !verify(&other) && !verify(&without_empty(other).unwrap()),
            "{name} is signed"
        );
    }
}

/// Strict clients refuse a card as soon as one interface URL is neither https nor http.
#[test]
fn interfaces_have_absolute_urls_and_grpc_only_if_it_is_listed() {
    let card = AgentCard {
        p2p_extension: Some(P2pExtension {
            peer_id: "12D3".to_owned(),
            did_key: "did:key:z6Mk".to_owned(),
            ..P2pExtension::default()
        }),
        ..AgentCard::default()
    };
    let url = "https://h/agents/12D3";
    let front = CardEndpoint {
        url: url.to_owned(),
        tenant: "agents/12D3".to_owned(),
        dual: true,
        ..CardEndpoint::default()
    };
    let json = write(&card, &front, None);
    for list in ["supportedInterfaces", "additionalInterfaces"] {
        let interfaces = json[list].as_array().unwrap();
        assert!(
            interfaces.iter().all(|interface| interface["url"] == url),
            "{json}"
        );
    }
    let extension = &json["capabilities"]["extensions"][1];
    assert_eq!(extension["uri"], P2P_BINDING);
    let params = json!({"peerId": "12D3", "didKey": "did:key:z6Mk"});
    assert_eq!(extension["params"], params);

    let front = CardEndpoint {
        grpc: Some("h:443".to_owned()),
        ..front
    };
    let json = write(&card, &front, None);
    let grpc = json!({
        "url": "h:443", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "agents/12D3",
    });
    assert_eq!(
        json["supportedInterfaces"].as_array().unwrap().last(),
        Some(&grpc)
    );
}

#[test]
fn only_a_dual_card_has_fields_of_0_3() {
    let card = |dual| {
        write(
            &AgentCard::default(),
            &CardEndpoint {
                url: "http://h".to_owned(),
                dual,
                schemes: schemes(),
                ..CardEndpoint::default()
            },
            None,
        )
    };
    assert_eq!(card(true)["url"], "http://h");
    for field in [
        "security",
        "url",
        "preferredTransport",
        "protocolVersion",
        "additionalInterfaces",
    ] {
        assert!(
            card(true).get(field).is_some() && card(false).get(field).is_none(),
            "{field}"
        );
    }
}
