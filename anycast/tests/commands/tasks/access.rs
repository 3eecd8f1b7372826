//! Who may use an agent of `anycast run`, from the command line: two homes that nothing connects but an address.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{ABSENT_PEER, RunningCommand, command, document, run};

/// How long a test waits for something that happens at once.
const SOON: Duration = Duration::from_secs(30);

/// A home with agents, and one that is a stranger to it and connected.
struct Neighbours {
    host: tempfile::TempDir,
    guest: tempfile::TempDir,
    /// The host's peer id.
    there: String,
    /// The guest's.
    me: String,
    daemons: Vec<RunningCommand>,
}

impl Neighbours {
    fn start() -> Self {
        Self::with_rules("")
    }

    /// The host has these settings.
    fn with_rules(settings: &str) -> Self {
        let (host, guest) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(host.path().join("home")).unwrap();
        std::fs::write(host.path().join("home/config.toml"), settings).unwrap();
        let mut neighbours = Self {
            host,
            guest,
            there: String::new(),
            me: String::new(),
            daemons: Vec::new(),
        };
        neighbours.restart();
        neighbours
    }

    /// Starts both daemons, again if they run, and connects them.
    fn restart(&mut self) {
        self.daemons.clear();
        self.daemons
            .extend([self.host(), self.guest()].map(RunningCommand::daemon));
        let status = document(self.host(), &["status"]);
        status["peer_id"].as_str().unwrap().clone_into(&mut self.there);
        let id = document(self.guest(), &["id"]);
        id["peer_id"].as_str().unwrap().clone_into(&mut self.me);
        let at = format!("{}/p2p/{}", status["addresses"][0].as_str().unwrap(), self.there);
        done(self.guest(), &["ping", &at, "-c", "1"]);
    }

    fn host(&self) -> &Path {
        self.host.path()
    }

    fn guest(&self) -> &Path {
        self.guest.path()
    }

    /// What the guest's task for an agent of the host becomes.
    fn asks(&self, agent: &str, options: &[&str]) -> (String, Option<i32>) {
        let target = format!("{}/{agent}", self.there);
        run(
            self.guest(),
            &[&["send", &target][..], options, &["hello", "--timeout", "30s"]].concat(),
        )
    }

    fn is_let_in(&self, agent: &str, options: &[&str]) {
        assert_eq!(
            self.asks(agent, options),
            ("hello\n".to_owned(), Some(0)),
            "{agent} {options:?}"
        );
    }

    fn is_refused(&self, agent: &str, options: &[&str]) {
        let (text, code) = self.asks(agent, options);
        let why = format!("agent {agent} is private; ask its owner for an invite");
        assert!(code == Some(1) && text.contains(&why), "{code:?}: {text}");
    }

    /// The guest may use the agent for this skill, and this is for none.
    fn is_refused_but_for(&self, skill: &str, agent: &str, options: &[&str]) {
        let (text, code) = self.asks(agent, options);
        let why =
            format!("agent {agent} is private, and this peer may use it for these skills only: {skill};");
        assert!(code == Some(1) && text.contains(&why), "{code:?}: {text}");
    }
}

/// `anycast run` of `cat`, or of another program, until it is dropped.
struct CatRun {
    process: Child,
    _said: BufReader<ChildStdout>,
    /// The line that says who may use it.
    told: String,
}

impl CatRun {
    fn start(home: &Path, options: &[&str]) -> Self {
        let mut process = command(home)
            .env("PATH", std::env::var_os("PATH").unwrap())
            .args(["--no-start", "run"])
            .args(options)
            .args(["--", "cat"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut lines = [(); 3].map(|()| {
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            line
        });
        assert!(lines[0].contains("takes tasks at"), "{lines:?}");
        Self {
            process,
            _said: said,
            told: std::mem::take(&mut lines[2]).trim_end().to_owned(),
        }
    }
}

impl Drop for CatRun {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

/// What a command that does not fail prints.
fn done(home: &Path, arguments: &[&str]) -> String {
    let (text, code) = run(home, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {text}");
    text
}

fn fails(home: &Path, arguments: &[&str], code: i32, word: &str) {
    let (text, ended) = run(home, arguments);
    assert_eq!(ended, Some(code), "{arguments:?}: {text}");
    assert!(
        text.contains(word),
        "{arguments:?}: {word:?} is missing in:\n{text}"
    );
}

/// The command as hints write it, with the options of this home.
fn hinted(home: &Path, words: &str) -> String {
    format!("anycast --home {} {words}", home.join("home").display())
}

/// The agents that are listed in this home, by name, and their access.
fn listed(home: &Path) -> Vec<(String, Value)> {
    let directory = document(home, &["agents", "--local"]);
    let agents = directory["agents"].as_array().unwrap().iter();
    let name = |agent: &Value| agent["name"].as_str().unwrap().to_owned();
    agents
        .map(|agent| (name(agent), agent["access"].clone()))
        .collect()
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < until, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_program_is_private_unless_it_is_open() {
    let homes = Neighbours::start();
    let (host, guest) = (homes.host(), homes.guest());
    let private = CatRun::start(host, &["--name", "echo", "--skill", "say"]);
    assert_eq!(
        private.told,
        format!(
            "echo is private: only this node and peers that you let in may use it; let one in: {}",
            hinted(host, "invite --agent echo")
        )
    );
    homes.is_refused("echo", &[]);
    homes.is_refused("echo", &["--skill", "say"]);
    // The name is not told to a stranger who did not know it.
    let (text, code) = run(guest, &["send", &homes.there, "hello"]);
    assert!(
        code == Some(1) && text.contains("ask its owner for an invite") && !text.contains("echo"),
        "{code:?}: {text}"
    );
    assert_eq!(listed(guest), []);
    assert_eq!(done(host, &["send", "self/echo", "hello"]), "hello\n");

    let open = CatRun::start(host, &["--name", "parrot", "--open"]);
    let close = hinted(host, "agents set parrot --private");
    assert_eq!(
        open.told,
        format!("parrot is open: every peer may send it tasks; close it: {close}")
    );
    homes.is_let_in("parrot", &[]);
    homes.is_refused("echo", &[]);
    eventually("the open agent alone is seen", || {
        listed(guest) == [("parrot".to_owned(), Value::Null)]
    });

    // The node itself says which is which.
    let both = [("echo", "private"), ("parrot", "open")].map(|(name, word)| (name.to_owned(), word.into()));
    assert_eq!(listed(host), both);
    let status = done(host, &["status"]);
    assert!(status.contains("2: echo (private), parrot (open)"), "{status}");
    for list in [&["agents"][..], &["ps"]] {
        let text = done(host, list);
        for (name, word) in [("echo", "private"), ("parrot", "open")] {
            let row = text.lines().find(|line| line.starts_with(name)).unwrap();
            assert!(row.contains(word), "{text}");
        }
    }
    let programs = document(host, &["ps"]);
    assert_eq!(programs["programs"][0]["access"], "private", "{programs}");
    let doctor = done(host, &["doctor"]);
    let line = doctor
        .lines()
        .find(|line| line.contains("the agent parrot"))
        .unwrap();
    assert!(
        line.starts_with("note") && line.contains("it is open"),
        "{doctor}"
    );
    assert!(doctor.contains(&close) && !doctor.contains("echo"), "{doctor}");
}

#[test]
fn what_the_owner_has_said_stays() {
    let mut homes = Neighbours::start();
    let first = CatRun::start(homes.host(), &["--name", "echo"]);
    homes.is_refused("echo", &[]);
    let said = done(
        homes.host(),
        &["agents", "set", &format!("{}/echo", homes.there), "--open"],
    );
    assert_eq!(
        said,
        "echo is open: every peer that the policy lets in may use it\n"
    );
    homes.is_let_in("echo", &[]);
    drop(first);
    homes.restart();
    let again = CatRun::start(homes.host(), &["--name", "echo"]);
    let close = hinted(homes.host(), "agents set echo --private");
    assert_eq!(
        again.told,
        format!("echo is open, as `agents set` has said: every peer may send it tasks; close it: {close}")
    );
    homes.is_let_in("echo", &[]);

    let set = document(homes.host(), &["agents", "set", "echo", "--private"]);
    assert_eq!(
        (&set["agent"], &set["access"]),
        (&"echo".into(), &"private".into())
    );
    homes.is_refused("echo", &[]);
    drop(again);
    homes.restart();
    let open = CatRun::start(homes.host(), &["--name", "echo", "--open"]);
    assert!(
        open.told
            .starts_with("echo stays private, as `agents set` has said"),
        "{}",
        open.told
    );
    assert!(
        open.told
            .contains(&hinted(homes.host(), "agents set echo --open")),
        "{}",
        open.told
    );
    homes.is_refused("echo", &[]);
    assert_eq!(
        document(homes.host(), &["agents", "--local"])["agents"][0]["access_said_by"],
        "owner"
    );

    fails(homes.host(), &["agents", "set", "nobody", "--open"], 4, "nobody");
    fails(homes.host(), &["agents", "set", "echo"], 2, "--private");
    fails(
        homes.host(),
        &["agents", "set", "echo", "--open", "--private"],
        2,
        "--private",
    );
}

#[test]
fn a_peer_that_was_refused_is_trusted_and_let_in() {
    let mut homes = Neighbours::start();
    let runner = CatRun::start(homes.host(), &["--name", "echo", "--skill", "say"]);
    let host = homes.host().to_owned();
    assert!(done(&host, &["requests"]).contains("no peer was refused"));
    homes.is_refused("echo", &["--skill", "say"]);
    homes.is_refused("echo", &[]);
    let requests = document(&host, &["requests"]);
    let request = &requests[0];
    assert_eq!(requests.as_array().unwrap().len(), 1, "{requests}");
    assert_eq!(
        (&request["peer_id"], &request["agent"], &request["tasks"]),
        (&homes.me.as_str().into(), &"echo".into(), &2.into()),
        "{requests}"
    );
    let id = request["id"].as_str().unwrap();
    let table = done(&host, &["requests", "--full"]);
    assert!(
        table.contains(id) && table.contains(&homes.me) && table.contains("trust --request REQUEST"),
        "{table}"
    );

    let trusted = done(&host, &["trust", "--request", id]);
    assert!(
        trusted.starts_with(&format!("{} may use the agent echo", homes.me)),
        "{trusted}"
    );
    homes.is_let_in("echo", &[]);
    homes.is_let_in("echo", &["--skill", "say"]);
    assert!(done(&host, &["requests"]).contains("no peer was refused"));
    fails(&host, &["trust", "--request", id], 4, "request");
    // It is durable.
    drop(runner);
    homes.restart();
    let _runner = CatRun::start(&host, &["--name", "echo", "--skill", "say"]);
    homes.is_let_in("echo", &[]);
    let table = done(&host, &["trust", "ls", "--full"]);
    assert!(table.contains(&homes.me) && table.contains("echo"), "{table}");
    let policy = done(&host, &["policy", "show"]);
    assert!(
        policy.contains("TRUSTS") && policy.contains(&homes.me),
        "{policy}"
    );

    let ended = done(&host, &["untrust", &homes.me]);
    assert!(
        ended.contains("is not trusted any more to use the agent echo"),
        "{ended}"
    );
    homes.is_refused("echo", &[]);
    fails(&host, &["untrust", &homes.me], 4, "");
    assert!(done(&host, &["trust", "ls"]).contains("no peer is trusted"));
}

/// What `anycast policy check` decides, and by what.
fn check(home: &Path, source: &str, options: &[&str]) -> (String, String) {
    let args = ["--json", "policy", "check", "--source", source];
    let (text, _) = run(home, &[&args[..], options].concat());
    let line = text.lines().next().unwrap_or_default();
    let answer: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(answer["with_daemon"], true, "{answer}");
    let word = |name: &str| answer[name].as_str().unwrap().to_owned();
    (word("decision"), word("by"))
}

/// Anybody may put any name on its card.
#[test]
fn what_a_peer_calls_itself_is_no_name_to_trust_it_by() {
    let homes = Neighbours::start();
    let host = homes.host();
    let _echo = CatRun::start(host, &["--name", "echo"]);
    let _bob = CatRun::start(homes.guest(), &["--name", "bob", "--open"]);
    let until = Instant::now() + SOON;
    let refused = loop {
        let (text, code) = run(host, &["trust", "bob"]);
        if code == Some(2) || Instant::now() > until {
            break text;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let by_id = format!(" trust {}", homes.me);
    assert!(
        refused.contains("calls itself") && refused.contains(&by_id),
        "{refused}"
    );
    assert_eq!(document(host, &["trust", "ls"]).as_array().unwrap().len(), 0);
    homes.is_refused("echo", &[]);
    let shown = done(host, &["requests"]);
    assert!(shown.contains("(calls itself bob)"), "{shown}");
    let trusted = done(host, &["trust", &homes.me, "--agent", "echo"]);
    let back = format!(" untrust {} --agent echo", homes.me);
    assert!(trusted.trim_end().ends_with(&back), "{trusted}");
    assert!(done(host, &["trust", "ls"]).contains("(calls itself bob)"));
    // Its owner's own name for it is one.
    done(host, &["alias", "add", "guest", &homes.me]);
    assert!(done(host, &["trust", "ls"]).contains("guest "));
    done(host, &["trust", "guest"]);
}

/// Trust is gone, and an invite is not.
#[test]
fn untrust_names_the_invites_that_still_let_in() {
    let homes = Neighbours::start();
    let host = homes.host();
    let _echo = CatRun::start(host, &["--name", "echo"]);
    let invite = document(host, &["invite", "--label", "guests"]);
    done(homes.guest(), &["join", invite["invite"].as_str().unwrap()]);
    done(host, &["trust", &homes.me]);
    let said = done(host, &["untrust", &homes.me]);
    assert!(
        said.contains("the invite guests still lets it in") && said.contains("invite revoke "),
        "{said}"
    );
    homes.is_let_in("echo", &[]);
    assert_eq!(
        check(host, &homes.me, &["--agent", "echo"]),
        ("allow".to_owned(), "invite".to_owned())
    );
    assert_eq!(check(host, "invited:guests", &["--agent", "echo"]).0, "allow");
    done(host, &["invite", "revoke", "guests"]);
    assert_eq!(check(host, &homes.me, &["--agent", "echo"]).0, "deny");
}

#[test]
fn a_rule_that_opens_a_private_agent_is_told_by_doctor() {
    let rules = "[[policy.acl]]\nsource = \"*\"\nskill = \"say\"\nallow = true\n";
    let homes = Neighbours::with_rules(rules);
    let host = homes.host();
    let _echo = CatRun::start(host, &["--name", "echo", "--skill", "say"]);
    let _other = CatRun::start(host, &["--name", "other", "--skill", "sing"]);
    homes.is_let_in("echo", &["--skill", "say"]);
    let (said, _) = run(host, &["doctor"]);
    let told =
        "the agent echo is private, and rule 1 of [[policy.acl]] lets every peer use it for the skill say";
    assert!(said.contains(told) && !said.contains("the agent other"), "{said}");
}

/// By the agent that the daemon would choose: as a task without an agent fares.
#[test]
fn policy_check_says_what_becomes_of_a_task_without_an_agent() {
    let homes = Neighbours::start();
    let (host, me) = (homes.host(), homes.me.as_str());
    let _first = CatRun::start(host, &["--name", "first", "--skill", "sing"]);
    let _second = CatRun::start(host, &["--name", "second", "--skill", "sing"]);
    let _third = CatRun::start(host, &["--name", "third", "--skill", "say"]);
    let sent = |options: &[&str]| {
        let words = [
            &["send", &homes.there][..],
            options,
            &["hello", "--timeout", "30s"],
        ]
        .concat();
        run(homes.guest(), &words)
    };
    let agrees = |options: &[&str]| {
        let is_let_in = sent(options) == ("hello\n".to_owned(), Some(0));
        let (decision, by) = check(host, me, options);
        assert_eq!(decision == "allow", is_let_in, "{options:?}: {by}");
        is_let_in
    };
    let asks: [&[&str]; 3] = [&[], &["--skill", "sing"], &["--skill", "say"]];
    assert_eq!(asks.map(agrees), [false, false, false]);
    done(host, &["agents", "set", "third", "--open"]);
    assert_eq!(asks.map(agrees), [true, false, true]);
    done(host, &["trust", me, "--agent", "second"]);
    assert_eq!(
        asks[1..].iter().map(|ask| agrees(ask)).collect::<Vec<_>>(),
        [true, true]
    );
    // None has the skill; and two that the peer may use are none of them the primary one.
    for (ask, why) in [
        (&["--skill", "fly"][..], "no agent here has the skill"),
        (&[], "names no agent"),
    ] {
        let (text, code) = sent(ask);
        assert!(code == Some(1) && text.contains(why), "{code:?}: {text}");
        fails(
            host,
            &[&["policy", "check", "--source", me][..], ask].concat(),
            2,
            why,
        );
    }
}

#[test]
fn trust_is_for_an_agent_and_a_skill_by_the_id_of_the_peer() {
    let homes = Neighbours::start();
    let host = homes.host();
    let _runner = CatRun::start(host, &["--name", "echo", "--skill", "say"]);
    let _other = CatRun::start(host, &["--name", "other", "--skill", "say"]);
    done(host, &["alias", "add", "bob", &homes.me]);
    let trust = document(host, &["trust", "bob/echo", "--skill", "say"]);
    assert_eq!(
        (&trust["peer_id"], &trust["agent"], &trust["skill"]),
        (&homes.me.as_str().into(), &"echo".into(), &"say".into())
    );
    // What the name means later changes nothing.
    done(host, &["alias", "rm", "bob"]);
    homes.is_let_in("echo", &["--skill", "say"]);
    homes.is_refused_but_for("say", "echo", &[]);
    homes.is_refused("other", &["--skill", "say"]);
    let me = homes.me.as_str();
    for (asked, decision, by) in [
        (&["--agent", "echo", "--skill", "say"][..], "allow", "trust"),
        (&["--skill", "say"], "allow", "trust"),
        (&["--agent", "echo"], "deny", "access"),
        (&["--agent", "other", "--skill", "say"], "deny", "access"),
        (&[], "deny", "access"),
    ] {
        assert_eq!(
            check(host, me, asked),
            (decision.to_owned(), by.to_owned()),
            "{asked:?}"
        );
    }
    assert_eq!(check(host, "local", &["--agent", "echo"]).0, "allow");
    assert_eq!(check(host, "a2a:anonymous", &["--agent", "echo"]).0, "deny");
    fails(
        host,
        &["policy", "check", "--source", "invited:nobody"],
        2,
        "label",
    );
    fails(
        host,
        &["untrust", me, "--agent", "other"],
        4,
        "trusted for agent echo with skill say",
    );
    done(host, &["trust", &homes.me]);
    homes.is_let_in("other", &[]);
    assert_eq!(document(host, &["trust", "ls"]).as_array().unwrap().len(), 2);
    assert_eq!(
        document(host, &["policy", "show"])["peer_trust"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let ended = document(host, &["untrust", &homes.me, "--agent", "echo"]);
    assert_eq!(ended["trust"].as_array().unwrap().len(), 1, "{ended}");
    homes.is_let_in("echo", &[]);
    done(host, &["untrust", &homes.me]);
    homes.is_refused("other", &[]);

    fails(host, &["trust", "self"], 2, "this node itself");
    fails(host, &["trust", &homes.there], 2, "this node itself");
    fails(host, &["trust", &homes.me, "--agent", "nobody"], 1, "nobody");
    fails(
        host,
        &["trust", &format!("{}/echo", homes.me), "--agent", "other"],
        2,
        "give one of them",
    );
    fails(host, &["trust", "nosuch"], 4, "nosuch");
    fails(host, &["trust"], 2, "PEER");
    fails(host, &["trust", &homes.me, "--request", "x"], 2, "--request");
    // One that is not known yet.
    done(host, &["trust", ABSENT_PEER, "--agent", "echo"]);
}

/// Runs the line that `anycast join` has printed to be tried, as a shell does.
fn tries(home: &Path, joined: &str) -> (String, Option<i32>) {
    let line = joined
        .lines()
        .find_map(|line| line.strip_prefix("try: "))
        .unwrap();
    let words = line.strip_prefix("anycast ").unwrap();
    let program = env!("CARGO_BIN_EXE_anycast");
    let output = Command::new("sh")
        .args(["-c", &format!("'{program}' {words}")])
        .env_clear()
        .env("HOME", home)
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (text, output.status.code())
}

#[test]
fn the_line_that_join_prints_works() {
    let homes = Neighbours::start();
    let (host, guest) = (homes.host(), homes.guest());
    let _primary = CatRun::start(host, &["--name", "first"]);
    let _runner = CatRun::start(host, &["--name", "echo", "--skill", "say"]);
    let worked = ("hello\n".to_owned(), Some(0));
    for (options, typed, told) in [
        (
            &["--agent", "echo"][..],
            "send bob/echo \"hello\"",
            "for the agent echo",
        ),
        (
            &["--agent", "echo", "--skill", "say"],
            "send bob/echo --skill say \"hello\"",
            "for the skill say",
        ),
        (
            &["--skill", "say"],
            "send bob --skill say \"hello\"",
            "today: echo, first",
        ),
        (&[], "send bob \"hello\"", "today: echo, first"),
    ] {
        homes.is_refused("echo", &["--skill", "say"]);
        let made = done(host, &[&["invite", "--label", "one"], options].concat());
        assert!(made.contains(told), "{options:?}: {made}");
        let joined = done(guest, &["join", made.lines().next().unwrap(), "--as", "bob"]);
        assert!(joined.contains(&hinted(guest, typed)), "{options:?}: {joined}");
        assert_eq!(tries(guest, &joined), worked, "{options:?}: {joined}");
        if options.contains(&"--skill") {
            homes.is_refused_but_for("say", "echo", &[]);
            homes.is_refused_but_for("say", "echo", &["--skill", "other"]);
        } else {
            homes.is_let_in("echo", &[]);
        }
        if options.contains(&"--agent") {
            homes.is_refused("first", &[]);
        }
        done(host, &["invite", "revoke", "one"]);
    }
    // Without join, too.
    let invite = document(host, &["invite", "--agent", "echo"]);
    let text = invite["invite"].as_str().unwrap();
    assert_eq!(done(guest, &["send", text, "hello"]), "hello\n");
    assert_eq!(document(host, &["policy", "show"])["invites"], 1);
    let id = invite["id"].as_str().unwrap();
    done(host, &["invite", "revoke", id]);
    let only = document(host, &["invite", "--skill", "say"]);
    let text = only["invite"].as_str().unwrap();
    assert_eq!(done(guest, &["send", text, "--skill", "say", "hello"]), "hello\n");
    fails(
        guest,
        &["send", text, "--skill", "else", "hello"],
        2,
        "for the skill say only",
    );
}

#[test]
fn an_invite_covers_the_agents_of_its_day_and_is_taken_back_with_what_waits() {
    let homes = Neighbours::start();
    let (host, guest) = (homes.host(), homes.guest());
    let none = done(host, &["invite"]);
    assert!(
        none.contains("this node has no agent yet, so it is for open agents only"),
        "{none}"
    );
    let runner = CatRun::start(host, &["--name", "echo"]);
    let made = done(host, &["invite", "--label", "team"]);
    assert!(made.contains("those that this node has today: echo"), "{made}");
    let _later = CatRun::start(host, &["--name", "later"]);
    done(guest, &["join", made.lines().next().unwrap(), "--as", "bob"]);
    homes.is_let_in("echo", &[]);
    homes.is_refused("later", &[]);
    let invites = document(host, &["invite", "ls"]);
    assert!(
        invites
            .as_array()
            .unwrap()
            .iter()
            .any(|invite| invite["agents"] == serde_json::json!(["echo"])),
        "{invites}"
    );

    // What is queued ends with the right.
    drop(runner);
    let sent = document(guest, &["send", "bob/echo", "--no-wait", "hello"]);
    let id = sent["task_id"].as_str().unwrap();
    eventually("the task is at the host", || {
        document(host, &["task", id])["status"] == "submitted"
    });
    let revoked = done(host, &["invite", "revoke", "team"]);
    assert!(
        revoked.contains("1 task that was not begun is rejected"),
        "{revoked}"
    );
    let (text, code) = run(guest, &["task", id, "--wait", "--timeout", "30s"]);
    assert!(code == Some(1) && text.contains("rejected"), "{code:?}: {text}");
    homes.is_refused("echo", &[]);
}
