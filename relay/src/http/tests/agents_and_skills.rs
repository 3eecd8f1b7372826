//! The directory's agents, of nodes with several too, and its skills.

use super::*;

#[tokio::test]
async fn a_node_with_several_agents_is_shown_as_each_of_them() {
    let face = face();
    let handle = &face.0.handle;
    let skill = |id: &str, agent: &str| SkillInfo {
        skill_id: id.to_owned(),
        description: format!("about {id}"),
        agent: agent.to_owned(),
        ..SkillInfo::default()
    };
    let node = |skills: Vec<SkillInfo>| RegisteredAgent {
        peer: "PeerX".to_owned(),
        name: "Trans-Lator".to_owned(),
        description: "of the primary".to_owned(),
        addresses: vec!["/ip4/192.0.2.1/tcp/1".to_owned()],
        skills,
    };
    let skills = vec![
        skill("b", "translator"),
        skill("a", "digger"),
        skill("c", "digger"),
    ];
    let router = api_router(&face, &[]).unwrap();
    handle
        .register(node(skills.clone()), RegistryCaller::default())
        .await
        .unwrap();
    let (_, all) = json(&router, "/api/v1/agents").await;
    let shown = |page: &Value| -> Vec<(String, String, String, usize)> {
        let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let agents = page["agents"].as_array().unwrap().iter();
        let shown = agents.map(|one| {
            assert_eq!(
                (&one["peer_id"], &one["addresses"][0]),
                (&"PeerX".into(), &"/ip4/192.0.2.1/tcp/1".into())
            );
            (
                text(one, "agent"),
                text(one, "name"),
                text(one, "description"),
                one["skills"].as_array().unwrap().len(),
            )
        });
        shown.collect()
    };
    let row = |agent: &str, name: &str, description: &str, skills| {
        (agent.to_owned(), name.to_owned(), description.to_owned(), skills)
    };
    let (translator, digger) = (
        row("translator", "Trans-Lator", "of the primary", 1),
        row("digger", "digger", "", 2),
    );
    assert_eq!(shown(&all), [translator.clone(), digger.clone()]);
    assert_eq!(all["total"], 2);
    for (question, expected) in [
        ("?skill=c", vec![digger.clone()]),
        ("?q=peerx%20translator", vec![translator.clone()]),
        ("?q=primary", vec![translator.clone()]),
        ("?q=PEERX", vec![translator.clone(), digger.clone()]),
    ] {
        let (_, page) = json(&router, &format!("/api/v1/agents{question}")).await;
        assert_eq!(shown(&page), expected, "{question}");
    }
    let (_, whole) = json(&router, "/api/v1/agents/PeerX").await;
    assert_eq!(whole["agents"], serde_json::json!(["digger", "translator"]));
    assert_eq!(
        (&whole["name"], &whole["agent"]),
        (&"Trans-Lator".into(), &Value::Null)
    );
    let owners: Vec<_> = whole["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["id"], &one["agent"]))
        .collect();
    let [a, b, c, one, two] = ["a", "b", "c", "digger", "translator"].map(Value::from);
    assert_eq!(owners, [(&a, &one), (&b, &two), (&c, &one)]);
    let (_, one) = json(&router, "/api/v1/agents/PeerX/digger").await;
    assert_eq!((&one["agent"], &one["skills"][1]["id"]), (&"digger".into(), &c));
    assert_eq!(
        json(&router, "/api/v1/agents/PeerX/nobody").await.0,
        StatusCode::NOT_FOUND
    );
    let (_, counts) = json(&router, "/api/v1/skills").await;
    assert_eq!(counts["total"], 3);
    // An agent goes, and then the node has one again.
    handle
        .register(node(skills[..1].to_vec()), RegistryCaller::default())
        .await
        .unwrap();
    assert_eq!(shown(&json(&router, "/api/v1/agents").await.1), [translator]);
    handle
        .register(node(vec![skill("a", "")]), RegistryCaller::default())
        .await
        .unwrap();
    let alone = row("", "Trans-Lator", "of the primary", 1);
    assert_eq!(shown(&json(&router, "/api/v1/agents").await.1), [alone]);
    let (_, whole) = json(&router, "/api/v1/agents/PeerX").await;
    assert!(
        whole["agents"].is_null() && whole["skills"][0]["agent"].is_null(),
        "{whole}"
    );
}

/// However many skills there are, an answer has a bound.
#[tokio::test]
async fn skills_come_in_pages() {
    let face = face();
    for agent in 0..50 {
        let skill = |n: usize| SkillInfo {
            skill_id: format!("{agent}-{n}"),
            ..SkillInfo::default()
        };
        let agent = RegisteredAgent {
            peer: format!("p{agent}"),
            skills: (0..256).map(skill).collect(),
            ..RegisteredAgent::default()
        };
        face.0
            .handle
            .register(agent, RegistryCaller::default())
            .await
            .unwrap();
    }
    let router = api_router(&face, &[]).unwrap();
    let mut seen = BTreeSet::new();
    for (offset, expected) in [(0, 10_000), (10_000, 2_800), (20_000, 0)] {
        let (status, page) = json(&router, &format!("/api/v1/skills?offset={offset}")).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(
            (&page["count"], &page["total"]),
            (&expected.into(), &12_800.into())
        );
        let skills = page["skills"].as_array().unwrap();
        assert_eq!(skills.len(), expected);
        seen.extend(
            skills
                .iter()
                .map(|skill| skill["id"].as_str().unwrap().to_owned()),
        );
    }
    assert_eq!(seen.len(), 12_800);
}
