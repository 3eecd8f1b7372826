//! What can be typed: the options and commands, with their help.

use std::{
    ffi::OsString,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use agentanycast_daemon_kit::{duration, manpages::Shell};
use clap::{
    Args as ClapArgs, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum,
    builder::{FalseyValueParser, NonEmptyStringValueParser},
};

use crate::{command_examples, run_args::RunArgs};

/// What `--help` says about boxes.
const BOXES: &str = "A box is a nonce of 24 bytes and a NaCl box between the X25519 keys of both Ed25519 keys (libsodium: crypto_box_easy).
Both ends have the same key for it: its maker can open it too, and one that is sent back to its maker opens as from the other.
It says nothing of when it was made: who must not take the same one twice has to look for that.";

/// What `--help` says about exit codes; `lib.rs` says the same.
const EXIT_CODES: &str = "Exit codes:
  0  done
  1  the task failed, was rejected or canceled, or something else went wrong
  2  usage
  3  the daemon cannot be reached
  4  the target was not found
  5  time-out
  6  nobody could be asked who has the skill: no registry answered, or none is configured
  7  the agent asks for input, and there is no terminal to answer at
  130  ended by Ctrl-C; 129 and 143: ended by SIGHUP and SIGTERM
  141  standard output was closed before all was written, as by `| head`";

/// Send tasks to agents, peer to peer.
#[derive(Debug, Parser)]
#[command(name = "anycast", version = agentanycast_daemon_kit::VERSION, after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// Reads a command line; the first word is the program's name.
    pub(crate) fn parse_from_words(words: Vec<OsString>) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&command().try_get_matches_from(words)?)
    }
}

/// All commands with their help.
pub(crate) fn command() -> clap::Command {
    command_examples::added(Args::command())
}

/// Options of every command.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Directory of the daemon's key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home's
    #[arg(long, global = true, value_name = "ADDR", value_parser = daemon_address)]
    pub(crate) daemon: Option<String>,
    /// Print JSON for scripts
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Start no daemon where none runs
    #[arg(long, global = true, env = "ANYCAST_NO_START", value_parser = FalseyValueParser::new())]
    pub(crate) no_start: bool,
    /// Keep this relay in the home's settings, for the daemon that the command starts: a multiaddr that ends in
    /// /p2p/PEER_ID; can be repeated
    #[arg(long = "relay", global = true, value_name = "ADDR", conflicts_with = "daemon")]
    pub(crate) relays: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the home's daemon in the background, and wait until it is ready
    Up(UpArgs),
    /// Stop the home's daemon; what it has accepted is on disk, and goes on when it is started again
    Down,
    /// Stop the home's daemon and start it again, with the settings as they are now
    Restart,
    /// Show what the home's daemon has logged
    Logs(LogsArgs),
    /// Look at and change the settings of the home's daemon
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Have the system start the home's daemon at login: a user unit of systemd, or an agent of launchd
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Run an echo agent, or a whole exchange between two daemons
    Demo(DemoArgs),
    /// Send a task and wait for its result
    #[command(after_help = EXIT_CODES)]
    Send(SendArgs),
    /// Talk with an agent: each line is a task in the same conversation
    Chat(ChatArgs),
    /// Answer a task that asks for input, and wait for its result
    #[command(after_help = EXIT_CODES)]
    Reply(ReplyArgs),
    /// Send a task once more: the same message to the same target
    #[command(after_help = EXIT_CODES)]
    Retry(RetryArgs),
    /// Make an agent of a program: it does the tasks that come for it, until Ctrl-C
    Run(RunArgs),
    /// List the programs that serve this node's agents
    Ps,
    /// Show the daemon
    Status,
    /// List the connected peers
    Peers(PeersArgs),
    /// Ping a peer: whether it answers, how fast, directly or through a relay
    Ping(PingArgs),
    /// Find agents by skill
    Discover(DiscoverArgs),
    /// List the agents that are known: this node's, those nearby, and those that registries tell of
    Agents(AgentsArgs),
    /// List the skills of known agents
    Skills(SkillsArgs),
    /// Show how the daemon is reached through relays, and how it reaches each peer
    Relays(PeersArgs),
    /// Show an agent's card
    Card(CardArgs),
    /// List tasks, newest change first
    Tasks(TasksArgs),
    /// Show one task, with what was said and what came out
    #[command(after_help = EXIT_CODES)]
    Task(TaskArgs),
    /// Say why a task is where it is: each hop, attempt, acknowledgement and refusal, and what to do next
    #[command(after_help = EXIT_CODES)]
    Trace(TraceArgs),
    /// Watch what the daemon is doing: tasks, peers, queue, refusals, log
    Top(TopArgs),
    /// Cancel a task
    Cancel(CancelArgs),
    /// Invite another node: print a string that says how this one is reached, with the right to send it tasks
    Invite(InviteArgs),
    /// Accept an invite: keep its relay, its right and a name for its node, and see that it answers
    #[command(after_help = EXIT_CODES)]
    Join(JoinArgs),
    /// Name peers, so that commands take the name for the peer's id
    #[command(subcommand)]
    Alias(AliasCommand),
    /// Show who this node is: peer id and did:key
    Id,
    /// Serve MCP on standard input and output: the agents of the network as tools, for a desktop client or an editor
    Mcp,
    /// Look at who may send which task, as the daemon's settings say
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Look at audit logs
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Look for what keeps the daemon from working, and say what to do; exit code 1 if there is something
    Doctor,
    /// Write an archive for a report of a fault: settings, log, figures; no keys, no tokens, nothing of what tasks say
    Bugreport(BugreportArgs),
    /// Print what a shell completes command lines of anycast with
    Completions(CompletionsArgs),
    /// Print a manual page, or write them all
    Man(ManArgs),
    /// Change the key of this node
    #[command(subcommand)]
    Key(KeyCommand),
    /// Issue and check Verifiable Credentials
    #[command(subcommand)]
    Credential(CredentialCommand),
    /// Make a box that only one peer and this node can open, for a way on which others can read; writes it to standard output
    #[command(after_help = BOXES)]
    Seal(SealArgs),
    /// Open a box between a peer and this node; writes what is in it to standard output, or nothing
    #[command(after_help = BOXES)]
    Unseal(UnsealArgs),
    /// Sign and check envelopes of the Universal Agent Messaging Protocol, without a daemon
    #[command(subcommand)]
    Uamp(UampCommand),
    /// Run the daemon in the foreground; takes the options of agentanycastd
    #[command(disable_help_flag = true)]
    Daemon(DaemonArgs),
    /// Run a relay in the foreground; takes the options of agentanycast-relay
    #[command(disable_help_flag = true)]
    Relay(RelayArgs),
    /// Run the HTTP bridge in the foreground; takes the options of agentanycast-bridge
    #[command(disable_help_flag = true)]
    Bridge(BridgeArgs),
}

impl Command {
    /// Whether the command needs a daemon, and starts the home's where none runs.
    pub(crate) fn starts_daemon(&self) -> bool {
        match self {
            Self::Up(_)
            | Self::Restart
            | Self::Send(_)
            | Self::Reply(_)
            | Self::Retry(_)
            | Self::Run(_)
            | Self::Chat(_)
            | Self::Ping(_)
            | Self::Peers(_)
            | Self::Discover(_)
            | Self::Relays(_)
            | Self::Agents(_)
            | Self::Invite(_)
            | Self::Join(_)
            | Self::Skills(_)
            | Self::Card(_)
            | Self::Tasks(_)
            | Self::Task(_)
            | Self::Trace(_)
            | Self::Top(_)
            | Self::Cancel(_)
            | Self::Mcp => true,
            Self::Demo(demo) => !demo.pair,
            _ => false,
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct UpArgs {
    /// Keep in the home's settings where the daemon listens: multiaddrs such as /ip4/0.0.0.0/tcp/4002; a comma list, or
    /// repeated
    #[arg(long, value_name = "ADDRS", value_delimiter = ',')]
    pub(crate) listen: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LogsArgs {
    /// Go on with what is logged from now on, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many of the last lines
    #[arg(long, short = 'n', default_value_t = 100, value_name = "N")]
    pub(crate) lines: usize,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the value of a setting, its default where nothing sets it; with --json also where it comes from
    Get {
        /// The setting by its name in the file, such as log_level or policy.trust
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Set a setting in the home's file, after a check of the whole; a daemon that runs takes over rules of [policy] at
    /// once, and everything else at its next start
    Set {
        /// The setting by its name in the file
        #[arg(value_name = "KEY")]
        key: String,
        /// A word, a comma list for a list, or TOML for tables
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
    },
    /// Print a JSON Schema of the settings' file, by which an editor completes and checks it: type, default, bounds and a
    /// description of each setting
    Schema,
    /// Take a setting out of the home's file, so that its default counts
    Unset {
        /// The setting by its name in the file
        #[arg(value_name = "KEY")]
        key: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Make the service and start it; it starts at each login, and where this user may say so, with the system
    Install,
    /// Stop the service and remove it
    Uninstall,
    /// Show whether it is there, starts at login, runs, and goes on after the logout; exit code 1 if it does not run
    Status,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DemoArgs {
    /// Start two daemons and two agents in temporary homes and send a task between them
    #[arg(long, conflicts_with_all = ["name", "home", "daemon"])]
    pub(crate) pair: bool,
    /// Name on the echo agent's card
    #[arg(long, default_value = "echo")]
    pub(crate) name: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SendArgs {
    /// The peer: an alias, its card's name, its id or a unique piece of it, did:key, did:web, an invite, or a multiaddr
    /// that ends in /p2p/PEER_ID; PEER/AGENT is one of several agents there, self/AGENT one of this node; a skill or URL with
    /// --skill or --url
    pub(crate) target: String,
    /// What is sent, a part of the message each: a text, @FILE for a file, or - for standard input
    #[arg(required = true, value_name = "PART")]
    pub(crate) parts: Vec<String>,
    /// TARGET is a skill: any agent that has it
    #[arg(long, conflicts_with = "url")]
    pub(crate) skill: bool,
    /// TARGET is the URL of an A2A agent outside the network, which the daemon calls
    #[arg(long)]
    pub(crate) url: bool,
    /// With --url: the agent may be on the daemon's host or on a private network; allow_private = true in [bridge.outbound] of
    /// the settings says so for all tasks
    #[arg(long, requires = "url")]
    pub(crate) allow_private: bool,
    /// With --url: seal the task for this peer (named as TARGET is), so that whoever carries it can neither read nor change
    /// it, and take only answers that it has sealed
    #[arg(long, value_name = "PEER", requires = "url")]
    pub(crate) seal_for: Option<String>,
    #[command(flatten)]
    pub(crate) follow: FollowArgs,
    /// The task fails if it has not ended by then: a time from now, such as 10m or 2d, or a date such as
    /// 2030-01-31T12:00:00Z
    #[arg(long, value_parser = parse_deadline, value_name = "TIME")]
    pub(crate) deadline: Option<SystemTime>,
    /// The conversation that the task belongs to, as `anycast task` shows it [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) context: Option<String>,
    /// A new task in the conversation of this earlier one
    #[arg(long, value_name = "TASK_ID", conflicts_with = "context")]
    pub(crate) reply_to: Option<String>,
    /// Attach a label, such as priority=low; can be repeated
    #[arg(long = "meta", value_parser = parse_label, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<(String, String)>,
}

/// How a task is followed once it is sent.
#[derive(Debug, ClapArgs)]
pub(crate) struct FollowArgs {
    /// Print the task's id and end; the task goes on, and `anycast task` shows what comes of it
    #[arg(long, conflicts_with_all = ["stream", "timeout", "output"])]
    pub(crate) no_wait: bool,
    /// Print artifacts as they come (with --json: one JSON object per line)
    #[arg(long)]
    pub(crate) stream: bool,
    /// Give up waiting after this long, such as 30s, 1h30m or 2d; 0 waits for ever
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Write artifacts that are not text into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ChatArgs {
    /// The peer: an alias, its card's name, its id or a unique piece of it, did:key, did:web, an invite, or a multiaddr
    /// that ends in /p2p/PEER_ID; PEER/AGENT is one of several agents there, self/AGENT one of this node; a skill or URL with
    /// --skill or --url
    pub(crate) target: String,
    /// TARGET is a skill: any agent that has it
    #[arg(long, conflicts_with = "url")]
    pub(crate) skill: bool,
    /// TARGET is the URL of an A2A agent outside the network, which the daemon calls
    #[arg(long)]
    pub(crate) url: bool,
    /// With --url: the agent may be on the daemon's host or on a private network
    #[arg(long, requires = "url")]
    pub(crate) allow_private: bool,
    /// Go on with this conversation, as `anycast task` shows it, and show what was said in it [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) context: Option<String>,
    /// Give up waiting for an answer after this long, such as 30s, 1h30m or 2d; 0 waits for ever
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Write artifacts that are not text into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReplyArgs {
    /// The id of a task that was sent from here and asks for input
    #[arg(value_name = "TASK_ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) task: String,
    /// The answer, a part of the message each: a text, @FILE for a file, or - for standard input
    #[arg(required = true, value_name = "PART")]
    pub(crate) parts: Vec<String>,
    #[command(flatten)]
    pub(crate) follow: FollowArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RetryArgs {
    /// The id of a task that was sent from here and has ended
    #[arg(value_name = "TASK_ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) follow: FollowArgs,
}

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    pub(crate) action: Option<AgentsAction>,
    /// Only agents that have this skill. Without it, registries are asked for the skills that are heard of here: they
    /// answer for one skill at a time
    #[arg(long, value_name = "SKILL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) skill: Option<String>,
    /// Only this node's agent and those of connected peers: no registry is asked
    #[arg(long)]
    pub(crate) local: bool,
    /// Show ids whole
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsAction {
    /// Remove an agent of this node for which nobody listens; its tasks that have not ended fail
    Rm {
        /// Its name on this node, as `anycast agents` shows it behind `self/`
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SkillsArgs {
    /// Only of this node's agent and those of connected peers: no registry is asked
    #[arg(long)]
    pub(crate) local: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PeersArgs {
    /// Show ids whole
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct InviteArgs {
    #[command(subcommand)]
    pub(crate) command: Option<InviteCommand>,
    #[command(flatten)]
    pub(crate) new: NewInviteArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewInviteArgs {
    /// The agent beside this node that it is for; it is an error if there is no agent of that name
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) agent: Option<String>,
    /// The only skill that may be asked for with it; it is an error if the agent beside this node does not have it
    #[arg(long, value_name = "SKILL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) skill: Option<String>,
    /// How many peers it lets in; each may then send any number of tasks
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) uses: u32,
    /// How long peers can accept it, such as 30m, 1h or 24h; 0 for ever. Those that have accepted it stay until it is revoked
    #[arg(long, default_value = "24h", value_parser = parse_duration, value_name = "TIME")]
    pub(crate) expires: Duration,
    /// What rules call those that accept it: invited:LABEL [default: the id of the invite]
    #[arg(long, value_name = "LABEL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) label: Option<String>,
    /// Say only how this node is reached, and let nobody in
    #[arg(long, conflicts_with_all = ["skill", "uses", "expires", "label"])]
    pub(crate) no_right: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InviteCommand {
    /// List the invites that this node has given out
    Ls {
        /// Show ids whole
        #[arg(long)]
        full: bool,
    },
    /// Take invites back, with what they let in; tasks that are here go on
    Revoke {
        /// The ids of invites, or their labels
        #[arg(required = true, value_name = "ID|LABEL")]
        names: Vec<String>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct JoinArgs {
    /// What `anycast invite` printed at the other node
    #[arg(value_name = "STRING")]
    pub(crate) invite: String,
    /// The alias for that node [default: the name of its agent, if that is free]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) alias: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AliasCommand {
    /// Give a peer a name
    Add {
        /// The name: letters, digits, and - _ . @ behind the first
        name: String,
        /// The peer: its id, did:key, did:web, multiaddr, another alias, its card's name, or a unique piece of its id
        peer: String,
        /// Take the name from the peer that has it
        #[arg(long)]
        force: bool,
    },
    /// List the names that were given
    Ls {
        /// Show ids whole
        #[arg(long)]
        full: bool,
    },
    /// Forget names
    Rm {
        /// The names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DiscoverArgs {
    /// The skill's id
    pub(crate) skill: String,
    /// Only agents whose skill has this tag, such as lang=de; can be repeated
    #[arg(long = "tag", value_parser = parse_label, value_name = "KEY=VALUE")]
    pub(crate) tags: Vec<(String, String)>,
    /// Show ids whole
    #[arg(long)]
    pub(crate) full: bool,
    /// At most this many, 1 to 1000
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) limit: u16,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PingArgs {
    /// The peer: an alias, its card's name, its id or a unique piece of it, did:key, did:web, or multiaddr that ends in
    /// /p2p/PEER_ID
    pub(crate) target: String,
    /// How many pings; 0 goes on until Ctrl-C
    #[arg(long, short = 'c', default_value_t = 5)]
    pub(crate) count: u32,
    /// Time between two pings, such as 500ms or 2s
    #[arg(long, short = 'i', default_value = "1s", value_parser = parse_interval, value_name = "TIME")]
    pub(crate) interval: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BugreportArgs {
    /// Where it is written; a file that is there is not replaced [default: anycast-bugreport-TIME.tar.gz here]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ManArgs {
    /// The command whose page is printed, such as send or policy check [default: anycast itself]
    #[arg(conflicts_with = "output")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, short = 'o', value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CardArgs {
    /// The peer: an alias, its card's name, its id or a unique piece of it, did:key, did:web or multiaddr; PEER/AGENT is one
    /// of several agents there, self/AGENT one of this node; without, this node's card
    pub(crate) target: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TasksArgs {
    /// Only tasks in this state; can be repeated
    #[arg(long = "status", value_enum, value_name = "STATE")]
    pub(crate) statuses: Vec<State>,
    /// Go on, and show each task again when it changes (with --json: one JSON object per line)
    #[arg(long)]
    pub(crate) watch: bool,
    /// Show ids whole
    #[arg(long)]
    pub(crate) full: bool,
    /// At most this many; 0 = all
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say what would become of a task, and which rule decides; exit code 1 if it would be denied
    Check {
        /// Who sends it: an alias, a peer id, did:key:…, did:web:…, did:dns:… or invited:LABEL (taken as proven), http:CALLER, or local; can be
        /// repeated for a peer with several names, a second key being one that it had before
        #[arg(long = "source", value_name = "SOURCE", required = true)]
        sources: Vec<String>,
        /// As if the peer had shown a credential of one of the trusted_issuers
        #[arg(long)]
        vouched: bool,
        /// The skill it is for; tasks sent to a peer by name have none
        #[arg(long, default_value = "")]
        skill: String,
        /// The agent of the node that it is for, by its name there; without, rules about agents do not match
        #[arg(long, default_value = "")]
        agent: String,
        #[command(flatten)]
        file: PolicyFile,
    },
    /// Show the rules in their order
    Show(PolicyFile),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PolicyFile {
    /// The daemon's settings [default: config.toml in --home if it is there, else ~/.agentanycast/config.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that no line of a chained audit log was changed, removed or added; exit code 1 if one was
    Verify {
        /// The log; of one that was rotated all its files, oldest first
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// A last hash that was shown before: its line has to be there still, or the files go on behind it
        #[arg(long, value_name = "HASH")]
        before: Option<String>,
        /// It is an error if there is no line, or one without the hash of the one before
        #[arg(long)]
        chained: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a new key, and a statement by both keys that it follows; the daemon must not run. Peers and registries take the
    /// new one for the old one for 30 days
    Rotate {
        /// The key file [default: the home's]
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CredentialCommand {
    /// Say by a signature that an agent may be trusted and what it can do; prints the credential
    Issue(IssueArgs),
    /// Check a credential: signature, time, and whether it was taken back; exit code 1 if it does not count
    Verify(VerifyArgs),
    /// Sign the list of credentials that were taken back, to be served at its URL; prints the list
    StatusList(StatusListArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct IssueArgs {
    /// Whom it is about: an alias, a peer id, or a DID
    #[arg(long)]
    pub(crate) subject: String,
    /// What the subject can do, such as the id of a skill; can be repeated
    #[arg(long = "capability", value_name = "TEXT")]
    pub(crate) capabilities: Vec<String>,
    /// How many days it counts; 0 for ever
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(..=MAX_DAYS))]
    pub(crate) days: u32,
    /// The issuer's key file [default: the home's]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The issuer's did:web, whose document has the key [default: the did:key of the key]
    #[arg(long, value_name = "DID")]
    pub(crate) issuer: Option<String>,
    /// How it is signed: Ed25519Signature2020 is what nodes of version 0.7 check
    #[arg(long, value_enum, default_value_t = SuiteName::EddsaJcs2022)]
    pub(crate) suite: SuiteName,
    /// The https URL of the list that says whether it was taken back
    #[arg(long, value_name = "URL", requires = "status_index", value_parser = https_url)]
    pub(crate) status_list: Option<String>,
    /// Its entry in that list, 0 to 131071
    #[arg(long, value_name = "N", requires = "status_list", value_parser = clap::value_parser!(u32).range(..=131_071))]
    pub(crate) status_index: Option<u32>,
}

/// A hundred years.
const MAX_DAYS: i64 = 36_500;

/// Lists are asked for over https, and nobody checks another one.
fn https_url(given: &str) -> Result<String, String> {
    match given.strip_prefix("https://") {
        Some(rest) if !rest.is_empty() => Ok(given.to_owned()),
        _ => Err("a status list has an URL that begins with https://".to_owned()),
    }
}

/// A way to sign credentials.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SuiteName {
    #[value(name = "eddsa-jcs-2022")]
    EddsaJcs2022,
    #[value(name = "Ed25519Signature2020")]
    Ed25519Signature2020,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct VerifyArgs {
    /// The credential; - for standard input
    pub(crate) file: PathBuf,
    /// It has to be of this issuer, a DID
    #[arg(long, value_name = "DID")]
    pub(crate) issuer: Option<String>,
    #[command(flatten)]
    pub(crate) file_of_settings: PolicyFile,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StatusListArgs {
    /// Where it will be, as the credentials name it
    #[arg(long, value_parser = https_url)]
    pub(crate) url: String,
    /// An entry that was taken back; can be repeated
    #[arg(long = "revoke", value_name = "N")]
    pub(crate) revoked: Vec<usize>,
    /// How many days it counts
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=MAX_DAYS))]
    pub(crate) days: u32,
    /// The issuer's key file [default: the home's]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The issuer's did:web [default: the did:key of the key]
    #[arg(long, value_name = "DID")]
    pub(crate) issuer: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SealArgs {
    /// Who can open it: an alias, peer id or did:key, or what else names a peer to the daemon
    #[arg(long = "for", value_name = "PEER")]
    pub(crate) reader: String,
    /// Whose box it is: a key file [default: the home's]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// What goes into it, at most 64 MiB; - reads standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct UnsealArgs {
    /// The other end of the box: an alias, peer id or did:key, or what else names a peer to the daemon
    #[arg(long = "from", value_name = "PEER")]
    pub(crate) writer: String,
    /// Who opens it: a key file, such as the one from before a change of keys [default: the home's]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The box; - reads standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TaskArgs {
    /// The task's id or its beginning, as `anycast tasks` lists it
    #[arg(value_name = "TASK_ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) task: String,
    /// Wait for its end first, and end as `anycast send` does
    #[arg(long)]
    pub(crate) wait: bool,
    /// Give up waiting after this long, such as 30s, 1h30m or 2d; 0 waits for ever
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "TIME", requires = "wait")]
    pub(crate) timeout: Duration,
    /// Write artifacts that are not text into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TraceArgs {
    /// The task's id or its beginning, as `anycast tasks` lists it, or the id that its sender knows
    #[arg(value_name = "TASK_ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) task: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TopArgs {
    /// Show it once and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Time between two looks, such as 500ms or 2s
    #[arg(long, default_value = "1s", value_parser = parse_interval, value_name = "TIME")]
    pub(crate) interval: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CancelArgs {
    /// The task's id or its beginning, as `anycast tasks` lists it
    #[arg(value_name = "TASK_ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) task: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DaemonArgs {
    /// Options of agentanycastd; `anycast daemon --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RelayArgs {
    /// Options of agentanycast-relay; `anycast relay --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BridgeArgs {
    /// Options of agentanycast-bridge; `anycast bridge --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// A state that tasks can be listed by.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum State {
    Submitted,
    Working,
    InputRequired,
    Completed,
    Failed,
    Canceled,
    Rejected,
}

/// A time such as `250ms`, `30s`, `1h30m` or `2d`; a bare number counts seconds.
fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse_seconds(text).ok_or_else(|| format!("expected {}", duration::ALLOWED))
}

/// What can be the address of a daemon; a path is one too.
fn daemon_address(text: &str) -> Result<String, String> {
    if text.contains('/') {
        return Ok(text.to_owned());
    }
    Err("give unix:///PATH or tcp://HOST:PORT".to_owned())
}

/// A time from now on as [`parse_duration`] reads it, or a date of RFC 3339.
fn parse_deadline(text: &str) -> Result<SystemTime, String> {
    if let Ok(date) = text.parse::<jiff::Timestamp>() {
        return Ok(date.into());
    }
    let from_now = duration::parse_seconds(text).filter(|time| !time.is_zero());
    let deadline = from_now.and_then(|time| SystemTime::now().checked_add(time));
    deadline.ok_or_else(|| {
        "expected a time from now such as 10m or 2d, or a date such as 2030-01-31T12:00:00Z".to_owned()
    })
}

/// Not so short that watching becomes work, nor so long that it looks dead.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if (Duration::from_millis(100)..=Duration::from_mins(1)).contains(&interval) {
        Ok(interval)
    } else {
        Err("expected 100ms to 60s".to_owned())
    }
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_man_pages_and_completions_are_fresh() {
        let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        agentanycast_daemon_kit::manpages::check(&command(), &top).unwrap();
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_hours(2)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse_duration("5d"), Ok(Duration::from_hours(120)));
        assert!(parse_duration("soon").is_err());
    }

    #[test]
    fn the_daemon_gets_all_its_options() {
        let args =
            Args::try_parse_from(["anycast", "--home", "/h", "daemon", "-key", "k", "--help"]).unwrap();
        let Command::Daemon(daemon) = args.command else {
            panic!("not the daemon")
        };
        assert_eq!(daemon.arguments, ["-key", "k", "--help"]);
        let args = Args::try_parse_from(["anycast", "daemon", "--version"]).unwrap();
        let Command::Daemon(daemon) = args.command else {
            panic!("not the daemon")
        };
        assert_eq!(daemon.arguments, ["--version"]);
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum UampCommand {
    /// Write a signed envelope to standard output, as JSON
    Sign(Box<UampSignArgs>),
    /// Check the signature of an envelope whose sender is a did:key; exit code 1 if it is wrong
    Verify {
        /// The envelope, at most 16 MiB; - reads standard input
        #[arg(default_value = "-")]
        file: PathBuf,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct UampSignArgs {
    /// Who it is for: a DID, an URI such as urn:agentanycast:skill:translate, or what names a peer; can be repeated
    #[arg(long, value_name = "RECEIVER", required = true)]
    pub(crate) to: Vec<String>,
    /// What it is for: ask, inform, propose, confirm, deny, progress, cancel, subscribe, notify or error
    #[arg(long, value_name = "INTENT", default_value = "ask")]
    pub(crate) intent: String,
    /// The envelope that it answers or cancels: its id, urn:uuid:…
    #[arg(long, value_name = "ID")]
    pub(crate) reply_to: Option<String>,
    /// Its stream
    #[arg(long, value_name = "ID")]
    pub(crate) stream_id: Option<String>,
    /// How many frames of the answer may be sent without an acknowledgement, 1 or more; with 1, also
    /// the last one waits for it [default: the receiver's, 64]
    #[arg(long, value_name = "N")]
    pub(crate) window: Option<u64>,
    /// The media type of the content [default: text/plain for text, application/octet-stream for bytes]
    #[arg(long = "type", value_name = "MEDIA_TYPE")]
    pub(crate) media_type: Option<String>,
    /// An extension of the envelope, such as x-aa-skill=translate; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) ext: Vec<String>,
    /// A capability token (JWT)
    #[arg(long, value_name = "TOKEN")]
    pub(crate) cap_token: Option<String>,
    /// Write the signature with its payload in it, which some clients need
    #[arg(long)]
    pub(crate) attached: bool,
    /// The sender's key: a node's key, or an Ed25519 or P-256 key in PEM [default: the home's]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The content: a text, @FILE for a file, or - for standard input
    #[arg(default_value = "-")]
    pub(crate) content: String,
}
