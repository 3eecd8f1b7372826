//! `[[agents.run]]` and `[[agents.mcp]]`: an agent as a table of the configuration. Its keys are the options of `anycast run`,
//! with `_` in the place of `-`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast_daemon_kit::settings::{ByteSize, InvalidValue, Json as Value, Raw, Setting, literal};
use agentanycast_proto::agent_name::is_agent_name;
use serde_json::{Map, json};

use super::{
    DAEMON_DRAIN, DEFAULT_PERMIT_TIMEOUT, HttpStyle, MAX_CONCURRENCY, PassedEnv, Permit, Protocol,
    RunProgram, RunSettings, RunSkill, RunWork, is_variable_name,
};

/// One `[[agents.run]]` entry: a program or an HTTP service as an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEntry(pub RunSettings);

/// One `[[agents.mcp]]` entry: an MCP server as an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpEntry(pub RunSettings);

const RUN_FORM: &str =
    r#"a table with name = "NAME" and command = ["PROGRAM", "ARGUMENT", …] or http = "URL""#;
const MCP_FORM: &str =
    r#"a table with name = "NAME" and command = ["PROGRAM", "ARGUMENT", …] or url = "URL""#;

/// Keys of both kinds of entries.
const COMMON_KEYS: [&str; 13] = [
    "name",
    "description",
    "open",
    "command",
    "env",
    "pass_env",
    "cwd",
    "concurrency",
    "timeout",
    "retry",
    "drain",
    "max_output",
    "max_processes",
];
const RUN_KEYS: [&str; 11] = [
    "skills",
    "protocol",
    "type",
    "progress",
    "http",
    "style",
    "model",
    "api_key_env",
    "permit",
    "permit_timeout",
    "terminal",
];
const MCP_KEYS: [&str; 2] = ["url", "api_key_env"];

/// The values of an entry, as they are given.
#[derive(Default)]
struct Given {
    name: Option<String>,
    description: Option<String>,
    open: Option<bool>,
    skills: Option<Vec<String>>,
    command: Option<Vec<String>>,
    env: Option<Vec<(String, String)>>,
    pass_env: Option<Vec<String>>,
    cwd: Option<PathBuf>,
    concurrency: Option<u32>,
    timeout: Option<Duration>,
    retry: Option<u32>,
    drain: Option<Duration>,
    max_output: Option<u64>,
    max_processes: Option<u32>,
    protocol: Option<Protocol>,
    media_type: Option<String>,
    progress: Option<bool>,
    /// `http`, or `url` of an MCP server.
    url: Option<String>,
    style: Option<HttpStyle>,
    model: Option<String>,
    api_key_env: Option<String>,
    permit: Option<Permit>,
    permit_timeout: Option<Duration>,
    terminal: Option<bool>,
}

/// Refuses the whole entry by its name: what else it has may be secret.
fn refuse_entry(raw: &Raw, name: Option<&str>, allowed: impl Into<String>) -> InvalidValue {
    InvalidValue {
        value: name.map_or_else(
            || "an entry without a name".to_owned(),
            |name| format!("name = {name}"),
        ),
        ..raw.refuse(allowed)
    }
}

/// A number from `least` to `most`.
fn number(raw: &Raw, least: u32, most: u32) -> Result<u32, InvalidValue> {
    let given = match raw {
        Raw::Integer(number) => u32::try_from(*number).ok(),
        _ => None,
    };
    given
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| raw.refuse(format!("a whole number from {least} to {most}")))
}

fn environment(raw: &Raw) -> Result<Vec<(String, String)>, InvalidValue> {
    let mut variables = Vec::new();
    for (name, value) in raw.entries(r#"a table { NAME = "VALUE", … }"#)? {
        if !is_variable_name(name) {
            let allowed = format!("a table of variables whose names have no '=', and {name:?} is none");
            return Err(refuse_entry(value, Some("env"), allowed));
        }
        variables.push((name.clone(), String::read(value, None)?));
    }
    Ok(variables)
}

/// Names of variables.
fn variable_names(raw: &Raw, home: Option<&Path>) -> Result<Vec<String>, InvalidValue> {
    let names: Vec<String> = Vec::read(raw, home)?;
    if names.iter().all(|name| is_variable_name(name)) {
        return Ok(names);
    }
    Err(refuse_entry(
        raw,
        Some("pass_env"),
        "a list of names of variables, which have no '='",
    ))
}

impl Given {
    /// Reads a table with these keys besides those of all entries.
    fn read(raw: &Raw, home: Option<&Path>, own_keys: &[&str], form: &str) -> Result<Self, InvalidValue> {
        let mut given = Self::default();
        let known = || COMMON_KEYS.iter().chain(own_keys).copied();
        for (key, value) in raw.entries(form)? {
            if !known().any(|known| known == key) {
                return Err(InvalidValue::of_key("", key, known(), form));
            }
            match key.as_str() {
                "name" => {
                    let name = String::read(value, home)?;
                    if !is_agent_name(&name) {
                        let allowed = "1 to 64 of a-z, 0-9, '.', '_' and '-', with a letter or digit first";
                        return Err(value.refuse(allowed));
                    }
                    given.name = Some(name);
                }
                "open" => given.open = Some(bool::read(value, home)?),
                "description" => given.description = Some(String::read(value, home)?),
                "skills" => given.skills = Some(Vec::read(value, home)?),
                "command" => given.command = Some(Vec::read(value, home)?),
                "env" => given.env = Some(environment(value)?),
                "pass_env" => given.pass_env = Some(variable_names(value, home)?),
                "cwd" => given.cwd = Some(PathBuf::read(value, home)?),
                "concurrency" => given.concurrency = Some(number(value, 1, MAX_CONCURRENCY)?),
                "timeout" => given.timeout = Some(Duration::read(value, home)?),
                "retry" => given.retry = Some(number(value, 0, u32::MAX)?),
                "drain" => given.drain = Some(Duration::read(value, home)?),
                "max_output" => {
                    let size = ByteSize::read(value, home)?.0;
                    given.max_output = Some(size).filter(|size| *size > 0);
                    if given.max_output.is_none() {
                        return Err(value.refuse("a size of at least 1 byte"));
                    }
                }
                "max_processes" => given.max_processes = Some(number(value, 1, u32::MAX)?),
                "protocol" => given.protocol = Some(Protocol::read(value, home)?),
                "type" => given.media_type = Some(String::read(value, home)?),
                "progress" => given.progress = Some(bool::read(value, home)?),
                "http" | "url" => {
                    let url = String::read(value, home)?;
                    super::check_url(&url).map_err(|reason| value.refuse(reason))?;
                    given.url = Some(url);
                }
                "style" => given.style = Some(HttpStyle::read(value, home)?),
                "model" => given.model = Some(String::read(value, home)?),
                "api_key_env" => given.api_key_env = Some(String::read(value, home)?),
                "permit" => given.permit = Some(Permit::read(value, home)?),
                "permit_timeout" => given.permit_timeout = Some(Duration::read(value, home)?),
                "terminal" => given.terminal = Some(bool::read(value, home)?),
                other => unreachable!("{other} is a known key without a place"),
            }
        }
        Ok(given)
    }

    /// The program of the entry.
    fn program(&mut self, raw: &Raw, form: &str) -> Result<RunProgram, InvalidValue> {
        let command = self.command.take().unwrap_or_default();
        if command.first().is_none_or(String::is_empty) {
            return Err(refuse_entry(raw, self.name.as_deref(), form));
        }
        Ok(RunProgram {
            command: command.into_iter().map(Into::into).collect(),
            env: self.env.take().unwrap_or_default(),
            passed_env: PassedEnv::Listed(self.pass_env.take().unwrap_or_default()),
            cwd: self.cwd.take(),
            max_processes: self.max_processes.take(),
        })
    }

    /// Refuses values that do not go with what does the tasks.
    fn refuse_others(&self, raw: &Raw, what: &str) -> Result<(), InvalidValue> {
        let others = [
            (self.command.is_some(), "command"),
            (self.env.is_some(), "env"),
            (self.pass_env.is_some(), "pass_env"),
            (self.cwd.is_some(), "cwd"),
            (self.max_processes.is_some(), "max_processes"),
            (self.media_type.is_some(), "type"),
            (self.progress.is_some(), "progress"),
            (self.protocol.is_some(), "protocol"),
            (self.style.is_some(), "style"),
            (self.model.is_some(), "model"),
            (self.api_key_env.is_some(), "api_key_env"),
            (self.permit.is_some(), "permit"),
            (self.permit_timeout.is_some(), "permit_timeout"),
            (self.terminal.is_some(), "terminal"),
        ];
        match others.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, key)) => Err(refuse_entry(
                raw,
                self.name.as_deref(),
                format!("an entry without {key}, which is not for {what}"),
            )),
            None => Ok(()),
        }
    }

    /// The agent, which does its tasks by this.
    fn settings(self, raw: &Raw, form: &str, work: RunWork) -> Result<RunSettings, InvalidValue> {
        let mut settings = RunSettings::new(self.name.ok_or_else(|| refuse_entry(raw, None, form))?, work);
        for skill in self.skills.unwrap_or_default() {
            let read = RunSkill::parse(&skill);
            settings
                .skills
                .push(read.ok_or_else(|| raw.refuse("skills as ID or ID=DESCRIPTION"))?);
        }
        settings.description = self.description.unwrap_or_default();
        settings.open = self.open;
        settings.concurrency = self.concurrency;
        settings.timeout = self.timeout;
        settings.retry = self.retry.unwrap_or_default();
        settings.drain = self.drain.unwrap_or(DAEMON_DRAIN);
        settings.max_output = self.max_output.unwrap_or(settings.max_output);
        Ok(settings)
    }
}

impl Setting for RunEntry {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let mut given = Given::read(raw, home, &RUN_KEYS, RUN_FORM)?;
        if let Some(url) = given.url.take() {
            let style = given.style.take();
            let work = RunWork::Http {
                url,
                style,
                model: given.model.take_if(|_| style == Some(HttpStyle::OpenAi)),
                api_key_env: given.api_key_env.take(),
            };
            given.refuse_others(raw, "an HTTP service of this style")?;
            return given.settings(raw, RUN_FORM, work).map(Self);
        }
        let program = given.program(raw, RUN_FORM)?;
        let work = match given.protocol.take().unwrap_or(Protocol::Process) {
            Protocol::Process => RunWork::Program {
                program,
                media_type: given.media_type.take(),
                progress: given.progress.take().unwrap_or_default(),
            },
            Protocol::Jsonl => RunWork::Jsonl(program),
            Protocol::Acp => RunWork::Acp {
                program,
                permit: given.permit.take().unwrap_or(Permit::Ask),
                permit_timeout: given.permit_timeout.take().unwrap_or(DEFAULT_PERMIT_TIMEOUT),
                terminal: given.terminal.take().unwrap_or_default(),
            },
        };
        given.refuse_others(raw, &format!("protocol = \"{}\"", protocol_of(&work).word()))?;
        given.settings(raw, RUN_FORM, work).map(Self)
    }

    fn show(&self) -> String {
        show(&self.0)
    }

    fn schema() -> Value {
        let own = json!({
            "skills": Vec::<String>::schema(),
            "protocol": Protocol::schema(),
            "type": String::schema(),
            "progress": bool::schema(),
            "http": String::schema(),
            "style": HttpStyle::schema(),
            "model": String::schema(),
            "api_key_env": String::schema(),
            "permit": Permit::schema(),
            "permit_timeout": Duration::schema(),
            "terminal": bool::schema(),
        });
        schema(own, "http")
    }
}

impl Setting for McpEntry {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let mut given = Given::read(raw, home, &MCP_KEYS, MCP_FORM)?;
        let (work, what) = if let Some(url) = given.url.take() {
            let api_key_env = given.api_key_env.take();
            (RunWork::McpUrl { url, api_key_env }, "a server with a url")
        } else {
            let program = given.program(raw, MCP_FORM)?;
            (RunWork::McpProgram(program), "a server that is started")
        };
        given.refuse_others(raw, what)?;
        given.settings(raw, MCP_FORM, work).map(Self)
    }

    fn show(&self) -> String {
        show(&self.0)
    }

    fn schema() -> Value {
        schema(
            json!({ "url": String::schema(), "api_key_env": String::schema() }),
            "url",
        )
    }
}

fn protocol_of(work: &RunWork) -> Protocol {
    match work {
        RunWork::Jsonl(_) => Protocol::Jsonl,
        RunWork::Acp { .. } => Protocol::Acp,
        _ => Protocol::Process,
    }
}

/// The entry with what is not the default.
fn show(settings: &RunSettings) -> String {
    let mut pairs = vec![("name", literal(&settings.name))];
    let mut add = |key, shown: Option<String>| pairs.extend(shown.map(|shown| (key, shown)));
    let text = |text: &String| (!text.is_empty()).then(|| literal(text));
    let program = |add: &mut dyn FnMut(&'static str, Option<String>), program: &RunProgram| {
        let command: Vec<String> = program
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        add("command", Some(command.show()));
        let variables: Vec<String> = program
            .env
            .iter()
            .map(|(name, value)| format!("{} = {}", literal(name), literal(value)))
            .collect();
        add(
            "env",
            (!variables.is_empty()).then(|| format!("{{ {} }}", variables.join(", "))),
        );
        let passed = program.passed_env.named();
        add("pass_env", (!passed.is_empty()).then(|| passed.to_vec().show()));
        add("cwd", program.cwd.as_ref().map(Setting::show));
        add(
            "max_processes",
            program.max_processes.map(|most| most.to_string()),
        );
    };
    add("description", text(&settings.description));
    add("open", settings.open.map(|open| open.show()));
    let skills: Vec<String> = settings.skills.iter().map(RunSkill::text).collect();
    add("skills", (!skills.is_empty()).then(|| skills.show()));
    match &settings.work {
        RunWork::Program {
            program: started,
            media_type,
            progress,
        } => {
            program(&mut add, started);
            add("type", media_type.as_ref().map(Setting::show));
            add("progress", progress.then(|| progress.show()));
        }
        RunWork::Jsonl(started) => {
            program(&mut add, started);
            add("protocol", Some(Protocol::Jsonl.show()));
        }
        RunWork::Acp {
            program: started,
            permit,
            permit_timeout,
            terminal,
        } => {
            program(&mut add, started);
            add("protocol", Some(Protocol::Acp.show()));
            add("permit", Some(permit.show()));
            add("permit_timeout", Some(permit_timeout.show()));
            add("terminal", terminal.then(|| terminal.show()));
        }
        RunWork::McpProgram(started) => program(&mut add, started),
        RunWork::McpUrl { url, api_key_env } => {
            add("url", Some(url.show()));
            add("api_key_env", api_key_env.as_ref().map(Setting::show));
        }
        RunWork::Http {
            url,
            style,
            model,
            api_key_env,
        } => {
            add("http", Some(url.show()));
            add("style", style.map(|style| style.show()));
            add("model", model.as_ref().map(Setting::show));
            add("api_key_env", api_key_env.as_ref().map(Setting::show));
        }
    }
    add("concurrency", settings.concurrency.map(|most| most.to_string()));
    add("timeout", settings.timeout.map(|limit| limit.show()));
    add("retry", (settings.retry > 0).then(|| settings.retry.to_string()));
    add("drain", Some(settings.drain.show()));
    add("max_output", Some(ByteSize(settings.max_output).show()));
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(key, shown)| format!("{key} = {shown}"))
        .collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// The schema of an entry with these keys of its own; it has a command, or a URL as `url`.
fn schema(own: Value, url: &str) -> Value {
    let count = |least: u32, most: u32| json!({ "type": "integer", "minimum": least, "maximum": most });
    let mut properties = Map::from_iter([
        ("name".to_owned(), String::schema()),
        ("description".to_owned(), String::schema()),
        ("open".to_owned(), bool::schema()),
        ("command".to_owned(), Vec::<String>::schema()),
        (
            "env".to_owned(),
            json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        ),
        ("pass_env".to_owned(), Vec::<String>::schema()),
        ("cwd".to_owned(), PathBuf::schema()),
        ("concurrency".to_owned(), count(1, MAX_CONCURRENCY)),
        ("timeout".to_owned(), Duration::schema()),
        ("retry".to_owned(), count(0, u32::MAX)),
        ("drain".to_owned(), Duration::schema()),
        ("max_output".to_owned(), ByteSize::schema()),
        ("max_processes".to_owned(), count(1, u32::MAX)),
    ]);
    if let Value::Object(own) = own {
        properties.extend(own);
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": ["name"],
        "oneOf": [{ "required": ["command"] }, { "required": [url] }],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests;
