use agentanycast_proto::v1::AgentAccess;

use super::*;
use crate::access::access_of;

fn raw(toml: &[(&str, Raw)]) -> Raw {
    Raw::Table {
        line: 7,
        entries: toml
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect(),
    }
}

fn text(text: &str) -> Raw {
    Raw::Text(text.to_owned())
}

fn list(words: &[&str]) -> Raw {
    Raw::List(words.iter().map(|word| text(word)).collect())
}

fn command() -> (&'static str, Raw) {
    ("command", list(&["./x.sh", "--short"]))
}

#[test]
fn an_entry_has_the_options_of_a_run() {
    let entry = raw(&[
        ("name", text("sum")),
        ("description", text("Sums up")),
        ("open", Raw::Truth(true)),
        ("skills", list(&["sum=Adds = up", "plain"])),
        command(),
        ("env", raw(&[("A", text("b"))])),
        ("pass_env", list(&["KEY", "TOKEN"])),
        ("cwd", text("~/work")),
        ("type", text("text/markdown")),
        ("progress", Raw::Truth(true)),
        ("concurrency", Raw::Integer(3)),
        ("timeout", text("1m")),
        ("retry", Raw::Integer(2)),
        ("drain", text("1s")),
        ("max_output", text("1MiB")),
        ("max_processes", Raw::Integer(9)),
    ]);
    let RunEntry(read) = RunEntry::read(&entry, Some(Path::new("/home/me"))).unwrap();
    let skills: Vec<_> = read
        .skills
        .iter()
        .map(|skill| (&*skill.id, &*skill.description))
        .collect();
    assert_eq!(skills, [("sum", "Adds = up"), ("plain", "")]);
    assert_eq!(
        (read.concurrency(), read.timeout()),
        (3, Some(Duration::from_mins(1)))
    );
    assert_eq!(
        (read.retry, read.drain, read.max_output),
        (2, Duration::from_secs(1), 1 << 20)
    );
    assert_eq!(read.open, Some(true));
    let RunWork::Program {
        program,
        media_type,
        progress: true,
    } = read.work
    else {
        panic!("{:?}", read.work)
    };
    assert_eq!(media_type.as_deref(), Some("text/markdown"));
    assert_eq!(program.command, ["./x.sh", "--short"]);
    assert_eq!(program.env, [("A".to_owned(), "b".to_owned())]);
    assert_eq!(program.passed_env.named(), ["KEY", "TOKEN"]);
    assert_eq!(program.cwd.as_deref(), Some(Path::new("/home/me/work")));
    assert_eq!(program.max_processes, Some(9));
}

#[test]
fn an_entry_says_who_may_use_its_agent_or_leaves_it_to_the_default() {
    for (open, expected) in [
        (None, AgentAccess::Default),
        (Some(true), AgentAccess::Open),
        (Some(false), AgentAccess::Private),
    ] {
        let mut keys = vec![("name", text("a")), command()];
        keys.extend(open.map(|open| ("open", Raw::Truth(open))));
        let RunEntry(run) = RunEntry::read(&raw(&keys), None).unwrap();
        let McpEntry(mcp) = McpEntry::read(&raw(&keys), None).unwrap();
        for read in [run, mcp] {
            assert_eq!(access_of(read.open), expected);
            let shown = show(&read);
            let said = open.map(|open| format!("open = {open}"));
            assert_eq!(
                said.is_some_and(|said| shown.contains(&said)),
                open.is_some(),
                "{shown}"
            );
        }
    }
    let wrong = raw(&[("name", text("a")), command(), ("open", text("all"))]);
    assert!(RunEntry::read(&wrong, None).is_err());
}

#[test]
fn an_mcp_server_has_defaults_of_its_own() {
    let McpEntry(read) = McpEntry::read(&raw(&[("name", text("clock")), command()]), None).unwrap();
    assert_eq!(
        (read.concurrency(), read.timeout()),
        (4, Some(Duration::from_mins(1)))
    );
    assert_eq!(read.drain, DAEMON_DRAIN);
    let unbounded = [
        ("name", text("clock")),
        ("url", text("https://x")),
        ("timeout", Raw::Integer(0)),
    ];
    let McpEntry(read) = McpEntry::read(&raw(&unbounded), None).unwrap();
    assert_eq!(read.timeout(), None);
    assert_eq!(read.work.target(), "https://x");
}

/// What `show` writes is read back as the same entry, by the parser of the configuration.
#[test]
fn what_is_shown_is_read_back() {
    let name = ("name", text("a"));
    let run = [
        vec![name.clone(), command(), ("env", raw(&[("A B", text("\"\n"))]))],
        vec![
            name.clone(),
            command(),
            ("protocol", text("jsonl")),
            ("pass_env", list(&["KEY"])),
            ("retry", Raw::Integer(1)),
        ],
        vec![
            name.clone(),
            command(),
            ("protocol", text("acp")),
            ("permit", text("read")),
            ("permit_timeout", text("5m")),
            ("terminal", Raw::Truth(true)),
        ],
        vec![
            name.clone(),
            ("http", text("http://127.0.0.1:1/v1")),
            ("style", text("openai")),
            ("model", text("m")),
            ("api_key_env", text("KEY")),
        ],
    ];
    for entry in run {
        let read = RunEntry::read(&raw(&entry), None).unwrap();
        assert_eq!(RunEntry::read(&parsed(&read.show()), None).as_ref(), Ok(&read));
    }
    let mcp = vec![
        name,
        ("url", text("https://x/mcp")),
        ("api_key_env", text("KEY")),
        ("timeout", Raw::Integer(0)),
    ];
    let read = McpEntry::read(&raw(&mcp), None).unwrap();
    assert_eq!(McpEntry::read(&parsed(&read.show()), None).as_ref(), Ok(&read));
}

/// An inline table as the configuration's parser reads it.
fn parsed(shown: &str) -> Raw {
    fn raw_of(value: &toml::Value) -> Raw {
        match value {
            toml::Value::String(text) => Raw::Text(text.clone()),
            toml::Value::Integer(number) => Raw::Integer(*number),
            toml::Value::Boolean(truth) => Raw::Truth(*truth),
            toml::Value::Array(items) => Raw::List(items.iter().map(raw_of).collect()),
            toml::Value::Table(entries) => Raw::Table {
                line: 1,
                entries: entries
                    .iter()
                    .map(|(key, value)| (key.clone(), raw_of(value)))
                    .collect(),
            },
            other => panic!("{other}"),
        }
    }
    raw_of(&format!("x = {shown}").parse::<toml::Table>().unwrap()["x"])
}

#[test]
fn what_does_not_go_together_is_refused_by_its_key() {
    let refused = |entry: &[(&str, Raw)]| {
        let error = RunEntry::read(&raw(entry), None).unwrap_err();
        assert_eq!(
            error.line,
            Some(7).filter(|_| error.unknown.is_none()),
            "{error:?}"
        );
        error.allowed
    };
    let name = ("name", text("a"));
    assert!(refused(&[name.clone(), ("http", text("http://x")), command()]).contains("without command"));
    assert!(refused(&[name.clone(), command(), ("model", text("m"))]).contains("without model"));
    assert!(refused(&[name.clone(), command(), ("terminal", Raw::Truth(true))]).contains("without terminal"));
    assert!(refused(std::slice::from_ref(&name)).contains("command ="));
    assert!(refused(&[command()]).contains("name ="));
    let unknown = RunEntry::read(&raw(&[name.clone(), ("comand", list(&["x"]))]), None).unwrap_err();
    assert_eq!(unknown.unknown.unwrap().meant.as_deref(), Some("command"));
    // Each key of an entry is read.
    for key in COMMON_KEYS.iter().chain(&RUN_KEYS) {
        let _ = RunEntry::read(&raw(&[(key, text("x"))]), None);
    }
}
