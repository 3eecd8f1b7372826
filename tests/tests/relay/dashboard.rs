//! The dashboard in a real browser: what people see, without a mouse and on a phone too, while agents come and go.
//!
//! `AGENTANYCAST_SCREENSHOTS=DIR` keeps what the browser has shown: docs/dashboard*.png are made so.

use std::{path::PathBuf, time::Duration};

use agentanycast_proto::v1::{RegisterSkillsRequest, SkillInfo};
use agentanycast_tests::{
    TestRelay,
    browser::{Browser, Viewport},
    eventually,
};
use libp2p::{Multiaddr, futures::StreamExt as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::{JoinHandle, JoinSet},
};

use crate::{
    circuits::{peer, pings, reserves},
    registry_requests::{RegistrationSigner, heartbeat, now_ms, registration},
};

/// The number of agents that are listed.
const LISTED: &str = "document.querySelectorAll('#agents > li').length";

async fn open(relay: &TestRelay) -> Option<Browser> {
    let mut browser = Browser::open().await?;
    browser.goto(&format!("http://{}/", relay.api)).await;
    browser
        .eventually(
            "it is live",
            "document.getElementById('live').textContent === 'Live'",
        )
        .await;
    Some(browser)
}

async fn no_complaints(browser: &mut Browser, relay: &TestRelay) {
    let complaints = browser.complaints(&relay.api.to_string()).await;
    assert!(complaints.is_empty(), "{complaints:#?}");
}

async fn keep(browser: &mut Browser, name: &str) {
    if let Some(directory) = std::env::var_os("AGENTANYCAST_SCREENSHOTS") {
        browser.screenshot(&PathBuf::from(directory).join(name)).await;
    }
}

/// An agent that lives until this is aborted.
async fn lives(relay: &TestRelay, request: RegisterSkillsRequest) -> JoinHandle<()> {
    let mut client = relay.client().await;
    let beat = heartbeat(&request.peer_id);
    client.register_skills(request).await.unwrap();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            // The relay ends before its agents.
            if client.heartbeat(beat.clone()).await.is_err() {
                return;
            }
        }
    })
}

fn agent(name: &str, about: &str, skills: &[(&str, &[(&str, &str)])]) -> RegisterSkillsRequest {
    let skill = |(id, tags): &(&str, &[(&str, &str)])| SkillInfo {
        skill_id: (*id).to_owned(),
        description: about.to_owned(),
        tags: tags
            .iter()
            .map(|(tag, value)| ((*tag).to_owned(), (*value).to_owned()))
            .collect(),
        agent: String::new(),
    };
    RegisterSkillsRequest {
        peer_id: RegistrationSigner::new().id,
        agent_name: name.to_owned(),
        agent_description: about.to_owned(),
        skills: skills.iter().map(skill).collect(),
        ..RegisterSkillsRequest::default()
    }
}

/// Agents as there might be.
fn company() -> Vec<RegisterSkillsRequest> {
    vec![
        agent(
            "Polyglot",
            "Translates short texts and keeps their tone",
            &[
                ("translate", &[("from", "en"), ("to", "de")]),
                ("proofread", &[("lang", "de")]),
            ],
        ),
        agent(
            "Ledger",
            "Reads invoices and books them",
            &[("invoice.read", &[("format", "pdf")]), ("invoice.book", &[])],
        ),
        agent(
            "Weather station",
            "What the weather is and will be, anywhere",
            &[("weather.now", &[]), ("weather.forecast", &[("days", "10")])],
        ),
        agent(
            "Code reviewer",
            "Looks for mistakes in a change and says how to mend them",
            &[
                ("review", &[("lang", "rust")]),
                ("review.security", &[("lang", "rust")]),
                ("explain", &[]),
            ],
        ),
        agent(
            "Summary",
            "Long texts made short",
            &[("summarise", &[("max", "200k")]), ("translate", &[("to", "fr")])],
        ),
        // What a name is made of stays a text.
        agent(
            "<img src=x onerror=alert(1)>",
            "Tries to break the page",
            &[("<script>alert(1)</script>", &[("a", "'\"")])],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_may_not_follow_shows_what_is_there_until_it_may() {
    let relay = TestRelay::builder().start().await;
    let _agent = lives(&relay, registration("p", "s")).await;
    // All places of this address.
    let mut following = Vec::new();
    loop {
        let mut stream = TcpStream::connect(relay.api).await.unwrap();
        let request = b"GET /api/v1/events HTTP/1.1\r\nHost: relay\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        if answer != *b"HTTP/1.1 200" {
            assert_eq!(answer, *b"HTTP/1.1 429");
            break;
        }
        following.push(stream);
    }
    let Some(mut browser) = Browser::open().await else {
        return;
    };
    browser.goto(&format!("http://{}/", relay.api)).await;
    browser
        .eventually("its agent is shown", &format!("{LISTED} === 1"))
        .await;
    browser
        .eventually(
            "it says that it does not follow",
            "document.getElementById('live').textContent.startsWith('Not live')",
        )
        .await;
    drop(following);
    browser
        .eventually(
            "it follows by itself",
            "document.getElementById('live').textContent === 'Live'",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_appear_are_found_and_disappear() {
    let relay = TestRelay::builder().args(["--registry-ttl=3s"]).start().await;
    let Some(mut browser) = open(&relay).await else {
        return;
    };
    browser
        .eventually(
            "it says that nobody is there",
            "document.getElementById('nobody-text').checkVisibility()",
        )
        .await;
    let mut living = Vec::new();
    for one in company() {
        living.push(lives(&relay, one).await);
    }
    browser
        .eventually("all have appeared, by themselves", &format!("{LISTED} === 6"))
        .await;
    assert_eq!(
        browser
            .eval("document.querySelectorAll('#agents img').length")
            .await,
        0
    );

    browser.press("/").await;
    browser.type_text("INVOICE").await;
    browser
        .eventually("the search narrows", &format!("{LISTED} === 1"))
        .await;
    assert_eq!(
        browser
            .eval("document.querySelector('#agents h3').textContent")
            .await,
        "Ledger"
    );
    browser.type_text(" that nobody reads").await;
    browser
        .eventually("nobody is left", &format!("{LISTED} === 0"))
        .await;
    browser.press("Escape").await;
    browser
        .eventually("all are there again", &format!("{LISTED} === 6"))
        .await;

    let press = |label: &str| format!("document.querySelector('main [aria-label=\"{label}\"]').click()");
    browser.eval(&press("Skill translate")).await;
    browser
        .eventually("a skill narrows", &format!("{LISTED} === 2"))
        .await;
    browser.eval(&press("Tag to:fr")).await;
    browser.eventually("a tag too", &format!("{LISTED} === 1")).await;
    let address = browser.eval("location.search").await;
    assert_eq!(address, "?skill=translate&tag=to%3Afr");
    browser
        .goto(&format!("http://{}/?skill=translate", relay.api))
        .await;
    browser
        .eventually("an address is as good", &format!("{LISTED} === 2"))
        .await;
    browser.eval(&press("Remove skill translate")).await;
    browser
        .eventually("all are there again", &format!("{LISTED} === 6"))
        .await;

    // Killed: it does not say goodbye.
    living.remove(1).abort();
    browser
        .eventually("a killed agent disappears", &format!("{LISTED} === 5"))
        .await;
    assert_eq!(
        browser.eval("document.body.textContent.includes('Ledger')").await,
        false
    );
    no_complaints(&mut browser, &relay).await;
}

/// An agent that proves who it is.
async fn signs(relay: &TestRelay) {
    let signer = RegistrationSigner::new();
    let request = agent(
        "Archivist",
        "Finds what was written long ago",
        &[("search", &[("corpus", "papers")]), ("summarise", &[])],
    );
    let request = RegisterSkillsRequest {
        peer_id: signer.id.clone(),
        ..request
    };
    let mut client = relay.client().await;
    client
        .register_skills(signer.sign("RegisterSkills", request, relay.id(), now_ms()))
        .await
        .unwrap();
}

/// Two peers that ping each other through the relay, until this is dropped.
async fn talks(relay: &TestRelay) -> JoinSet<()> {
    let at: Multiaddr = relay.addresses[0].parse().unwrap();
    let (mut listener, mut dialer) = (peer(), peer());
    let target = *listener.local_peer_id();
    assert!(reserves(&mut listener, &at).await);
    let mut talking = JoinSet::new();
    talking.spawn(async move {
        loop {
            listener.select_next_some().await;
        }
    });
    assert!(pings(&mut dialer, &at, target).await);
    talking.spawn(async move {
        loop {
            dialer.select_next_some().await;
        }
    });
    talking
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_and_circuits_are_shown_on_any_screen() {
    let other = TestRelay::builder().start().await;
    let gone = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let peers = format!("--federation-peers={},{gone}", other.registry);
    let relay = TestRelay::builder()
        .args([peers.as_str(), "--federation-sync-interval=1s"])
        .start()
        .await;
    let _living = [
        lives(&relay, company().remove(0)).await,
        lives(&relay, company().remove(2)).await,
        lives(&relay, company().remove(3)).await,
        lives(&other, company().remove(1)).await,
        lives(&other, company().remove(4)).await,
    ];
    signs(&relay).await;
    let Some(mut browser) = open(&relay).await else {
        return;
    };
    let _talking = talks(&relay).await;
    let text = |id: &str| format!("document.getElementById('{id}').textContent");
    browser
        .eventually("the circuit is shown", &format!("{} === '1'", text("circuits")))
        .await;
    browser
        .eventually(
            "so is what it carries",
            &format!("/[1-9].* (B|KiB)/.test({})", text("bytes")),
        )
        .await;
    browser
        .eventually(
            "so is the reservation",
            &format!("{} === '1'", text("reservations")),
        )
        .await;
    browser
        .eventually("agents of other relays are listed", &format!("{LISTED} === 6"))
        .await;
    browser
        .eventually(
            "so are the relays",
            &format!("{} === '1 of 2 healthy'", text("healthy")),
        )
        .await;
    browser
        .eventually(
            "with their states",
            "[...document.querySelectorAll('.state')].map(e => e.dataset.state).sort().join() === 'bad,good'",
        )
        .await;
    let drawn = "document.querySelector('#bytes-line polyline').points.length > 8";
    browser.eventually("a line shows how much that was", drawn).await;
    keep(&mut browser, "dashboard.png").await;
    browser.dark(true).await;
    keep(&mut browser, "dashboard-dark.png").await;
    browser.dark(false).await;

    for width in [320, 360, 768, 1024] {
        browser
            .set_viewport(Viewport {
                width,
                ..Viewport::PHONE
            })
            .await;
        let wide = browser.eval("document.documentElement.scrollWidth").await;
        assert!(
            wide.as_u64().unwrap() <= u64::from(width),
            "{width}: the page is {wide} wide"
        );
        keep(&mut browser, &format!("dashboard-{width}.png")).await;
    }
    no_complaints(&mut browser, &relay).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_used_without_a_mouse_and_without_seeing_it() {
    let relay = TestRelay::builder().start().await;
    let mut client = relay.client().await;
    for one in company() {
        client.register_skills(one).await.unwrap();
    }
    let Some(mut browser) = open(&relay).await else {
        return;
    };
    browser
        .eventually("all are listed", &format!("{LISTED} === 6"))
        .await;
    browser.press("Tab").await;
    assert_eq!(
        browser.eval("document.activeElement.textContent").await,
        "Skip to the agents"
    );
    browser.press("Enter").await;
    // Everything that can be pressed is come by, in the order in which it is read.
    let focused = "(e => e === document.body ? '' : e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent)(document.activeElement)";
    let mut come_by = Vec::new();
    for _ in 0..100 {
        browser.press("Tab").await;
        let name = browser.eval(focused).await;
        if name == "" {
            break;
        }
        come_by.push(name.as_str().unwrap().to_owned());
    }
    assert_eq!(
        come_by[0], "Search names, descriptions, skills, tags and ids",
        "{come_by:?}"
    );
    for name in ["Skill translate", "Tag to:de", "Copy peer id", "HTTP API"] {
        assert!(come_by.iter().any(|other| other == name), "{name} in {come_by:?}");
    }
    // A list that is brought up to date leaves the focus where it is.
    browser
        .eval("document.querySelector('[aria-label=\"Skill explain\"]').focus()")
        .await;
    client
        .register_skills(registration("A new one", "explain"))
        .await
        .unwrap();
    browser
        .eventually("the new one is listed", &format!("{LISTED} === 7"))
        .await;
    assert_eq!(browser.eval(focused).await, "Skill explain");
    browser.press("Enter").await;
    browser
        .eventually("a key presses it", &format!("{LISTED} === 2"))
        .await;

    let told = browser.accessibility_tree().await;
    for (role, name) in [
        ("RootWebArea", "AgentAnycast relay"),
        ("banner", ""),
        ("main", ""),
        ("search", ""),
        ("contentinfo", ""),
        ("region", "Agents"),
        ("region", "Skills"),
        ("heading", "Agents"),
        ("searchbox", "Search names, descriptions, skills, tags and ids"),
        ("list", "Agents"),
        ("heading", "Code reviewer"),
    ] {
        assert!(
            told.iter().any(|one| one.role == role && one.name == name),
            "{role} {name:?} in {told:#?}"
        );
    }
    let nameless = told
        .iter()
        .find(|one| ["button", "link", "searchbox"].contains(&one.role.as_str()) && one.name.is_empty());
    assert_eq!(nameless, None);
    no_complaints(&mut browser, &relay).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_focus_stays_where_a_key_has_changed_the_list() {
    let relay = TestRelay::builder().args(["--registry-ttl=10m"]).start().await;
    let mut client = relay.client().await;
    for one in company() {
        client.register_skills(one).await.unwrap();
    }
    let many: Vec<String> = (10..40).map(|n| format!("many-{n}")).collect();
    let many: Vec<(&str, &[(&str, &str)])> = many.iter().map(|id| (id.as_str(), &[][..])).collect();
    client
        .register_skills(agent("Can much", "of everything", &many))
        .await
        .unwrap();
    let Some(mut browser) = open(&relay).await else {
        return;
    };
    browser
        .eventually("all are listed", &format!("{LISTED} === 7"))
        .await;
    let focus = |label: &str| format!("document.querySelector('main [aria-label=\"{label}\"]').focus()");
    let focused = |label: &str| format!("document.activeElement.getAttribute('aria-label') === '{label}'");
    // On its like, in a card that is made anew.
    browser.eval(&focus("Tag to:de")).await;
    browser.press("Enter").await;
    let narrowed = format!("{LISTED} === 1 && {}", focused("Tag to:de"));
    browser
        .eventually("the tag narrows and keeps the focus", &narrowed)
        .await;
    // Where it is gone, what one goes on with.
    browser.eval(&focus("Remove tag to:de")).await;
    browser.press("Enter").await;
    let all = format!("{LISTED} === 7 && document.activeElement.id === 'q'");
    browser
        .eventually("all are there and the search has the focus", &all)
        .await;
    browser.eval(&focus("Show 18 more skills")).await;
    browser.press("Enter").await;
    browser
        .eventually("the first of the rest has the focus", &focused("Skill many-22"))
        .await;
    no_complaints(&mut browser, &relay).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_cannot_be_asked_is_said_to_be_wrong() {
    let relay = TestRelay::builder().args(["--registry-ttl=10m"]).start().await;
    let mut client = relay.client().await;
    client.register_skills(registration("p", "s")).await.unwrap();
    let Some(mut browser) = open(&relay).await else {
        return;
    };
    browser.goto(&format!("http://{}/?tag=foo", relay.api)).await;
    let said = relay.api("/api/v1/agents?tag=foo").await["error"]["message"].to_string();
    let shown = format!("document.getElementById('nobody-text').textContent === {said}");
    browser
        .eventually("it says what the directory says", &shown)
        .await;
    browser
        .eval("window.states = new Set(); setInterval(() => states.add(document.getElementById('live').textContent), 5)")
        .await;
    // Each of them is an event.
    for n in 0..3 {
        client
            .register_skills(registration(&format!("p{n}"), "s"))
            .await
            .unwrap();
        let count = format!("document.getElementById('local').textContent === '{}'", n + 2);
        browser.eventually("it is told of a change", &count).await;
    }
    assert_eq!(browser.eval("[...states].join()").await, "Live");
    assert_eq!(browser.eval(&shown).await, true);
    browser.eval("document.getElementById('clear').click()").await;
    browser
        .eventually("it is asked again", &format!("{LISTED} === 4"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_works_with_a_thousand_agents() {
    let relay = TestRelay::builder().args(["--registry-ttl=10m"]).start().await;
    let mut client = relay.client().await;
    for n in 0..1000 {
        let request = registration(&format!("agent-{n:04}"), &format!("skill-{}", n % 50));
        client.register_skills(request).await.unwrap();
    }
    let Some(mut browser) = open(&relay).await else {
        return;
    };
    browser
        .eventually("a page is shown", &format!("{LISTED} === 100"))
        .await;
    assert_eq!(
        browser.eval("document.getElementById('found').textContent").await,
        "100 of 1000 agents"
    );
    for pages in 2..=10 {
        browser.eval("document.getElementById('more').click()").await;
        browser
            .eventually("another page is shown", &format!("{LISTED} === {}", pages * 100))
            .await;
    }
    assert_eq!(
        browser
            .eval("document.getElementById('more').checkVisibility()")
            .await,
        false
    );
    // While all are shown and some come and change, the page is not busy.
    client
        .register_skills(registration("agent-0000", "another"))
        .await
        .unwrap();
    let changed = "document.querySelector('[data-peer=agent-0000]').textContent.includes('another')";
    browser.eventually("a change is shown", changed).await;
    let frames = browser.eval("new Promise(done => { const begun = performance.now(); let n = 0; \
        const next = () => (n += 1) < 30 ? requestAnimationFrame(next) : done(performance.now() - begun); next(); })").await;
    assert!(frames.as_f64().unwrap() < 5_000.0, "30 frames took {frames} ms");
    browser.press("/").await;
    browser.type_text("agent-0421").await;
    browser
        .eventually("one is found", &format!("{LISTED} === 1"))
        .await;
    eventually("the directory agrees", || async {
        (relay.api("/api/v1/agents?q=agent-0421").await["total"] == 1).then_some(())
    })
    .await;
    no_complaints(&mut browser, &relay).await;
}
