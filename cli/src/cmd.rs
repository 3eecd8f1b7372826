//! The commands: what can be typed, and what each does. One file per command, with its options.

mod agents;
mod alias;
mod audit;
mod bugreport;
mod cancel;
mod card;
mod chat;
mod completions;
mod config;
mod credential;
pub(crate) mod daemon;
mod demo;
mod demo_pair;
mod discover;
mod doctor;
mod down;
mod follow;
mod id;
mod invite;
mod join;
mod key;
mod logs;
mod man;
mod peers;
mod ping;
mod policy;
mod ps;
mod relays;
mod reply;
mod restart;
mod retry;
mod seal;
mod send;
mod service;
mod skills;
mod status;
mod task;
mod tasks;
mod top;
mod trace;
mod trust;
mod up;

use std::ffi::OsString;

use clap::{
    ArgMatches, Args as ClapArgs, ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    builder::styling::{AnsiColor, Styles},
};

use self::{
    agents::AgentsArgs,
    alias::AliasCommand,
    audit::AuditCommand,
    bugreport::BugreportArgs,
    cancel::CancelArgs,
    card::CardArgs,
    chat::ChatArgs,
    completions::CompletionsArgs,
    config::ConfigCommand,
    credential::CredentialCommand,
    demo::DemoArgs,
    discover::DiscoverArgs,
    invite::InviteArgs,
    join::JoinArgs,
    key::KeyCommand,
    logs::LogsArgs,
    man::ManArgs,
    peers::PeersArgs,
    ping::PingArgs,
    policy::PolicyCommand,
    reply::ReplyArgs,
    retry::RetryArgs,
    seal::{SealArgs, UnsealArgs},
    send::SendArgs,
    service::ServiceCommand,
    skills::SkillsArgs,
    task::TaskArgs,
    tasks::TasksArgs,
    top::TopArgs,
    trace::TraceArgs,
    trust::{RequestsArgs, TrustArgs, UntrustArgs},
    up::UpArgs,
};
use crate::{
    command_examples,
    context::Context,
    failure::CommandFailure,
    parts::{self, PartCommand},
    shared_args::Global,
    terminal_line::takes_escapes,
};

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
  130  ended by Ctrl-C; 129, 131 and 143: ended by SIGHUP, SIGQUIT and SIGTERM
  141  standard output was closed before all was written, as by `| head`";

/// Words of the command line that are wrong are magenta: yellow cannot be read on a light ground.
const STYLES: Styles = Styles::styled().invalid(AnsiColor::Magenta.on_default());

/// Send tasks to agents, peer to peer.
#[derive(Debug, Parser)]
#[command(name = "anycast", styles = STYLES, version = agentanycast_daemon_kit::VERSION, after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// A command line that was read.
pub(crate) struct GivenArgs {
    pub(crate) global: Global,
    pub(crate) command: AnyCommand,
}

/// A command of this library, or one that a part of the program brings.
pub(crate) enum AnyCommand {
    Own(Command),
    Part(&'static PartCommand, ArgMatches),
}

impl AnyCommand {
    /// Whether the command needs a daemon, and starts the home's where none runs.
    pub(crate) fn starts_daemon(&self) -> bool {
        match self {
            Self::Own(command) => command.starts_daemon(),
            Self::Part(command, _) => command.starts_daemon(),
        }
    }
}

impl Args {
    /// Reads a command line; the first word is the program's name.
    pub(crate) fn parse_from_words(words: Vec<OsString>) -> Result<GivenArgs, clap::Error> {
        let mut given = command().color(colours()).try_get_matches_from(words)?;
        let mut commands = parts::commands().iter();
        let brought = commands.find(|command| given.subcommand_name() == Some(command.name));
        if let Some(brought) = brought
            && let Some((_, of_command)) = given.remove_subcommand()
        {
            return Ok(GivenArgs {
                global: Global::from_arg_matches(&given)?,
                command: AnyCommand::Part(brought, of_command),
            });
        }
        let Self { global, command } = Self::from_arg_matches(&given)?;
        let command = AnyCommand::Own(command);
        Ok(GivenArgs { global, command })
    }
}

/// Whether help and errors of usage have colours. In builds of CI (`CI` is set) clap would colour a dumb terminal too.
fn colours() -> ColorChoice {
    if takes_escapes() {
        ColorChoice::Auto
    } else {
        ColorChoice::Never
    }
}

/// All commands with their help.
pub(crate) fn command() -> clap::Command {
    let brought = parts::commands().iter().map(PartCommand::definition);
    command_examples::added(Args::command().subcommands(brought))
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
    /// Let a peer use private agents of this node, by its id, until `anycast untrust`
    Trust(TrustArgs),
    /// Take back what `anycast trust` let in. Tasks that an agent has begun go on; those that it has not begun, and that the peer may
    /// not send any more, are rejected
    Untrust(UntrustArgs),
    /// List the peers that were refused since they may not use a private agent of this node
    Requests(RequestsArgs),
    /// Name peers, so that commands take the name for the peer's id
    #[command(subcommand)]
    Alias(AliasCommand),
    /// Show who this node is: peer id and did:key
    Id,
    /// Look at who may send which task, as the daemon's settings, its invites and its trust in peers say
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
            | Self::Chat(_)
            | Self::Ping(_)
            | Self::Peers(_)
            | Self::Discover(_)
            | Self::Relays(_)
            | Self::Agents(_)
            | Self::Invite(_)
            | Self::Join(_)
            | Self::Trust(_)
            | Self::Untrust(_)
            | Self::Requests(_)
            | Self::Skills(_)
            | Self::Card(_)
            | Self::Tasks(_)
            | Self::Task(_)
            | Self::Trace(_)
            | Self::Top(_)
            | Self::Cancel(_) => true,
            Self::Demo(demo) => !demo.pair,
            _ => false,
        }
    }
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

/// Runs any command but the programs.
pub(crate) async fn run(context: &Context, command: AnyCommand) -> Result<(), CommandFailure> {
    match command {
        AnyCommand::Own(command) => run_own(context, command).await,
        AnyCommand::Part(command, given) => command.run(context, &given).await,
    }
}

async fn run_own(context: &Context, command: Command) -> Result<(), CommandFailure> {
    match command {
        Command::Up(args) => up::run(context, &args).await,
        Command::Down => down::run(context).await,
        Command::Restart => restart::run(context).await,
        Command::Logs(args) => logs::run(context, &args).await,
        Command::Config(command) => config::run(context, command).await,
        Command::Service(command) => service::run(context, command).await,
        Command::Demo(demo) if demo.pair => demo_pair::run(context).await,
        Command::Demo(demo) => demo::run(context, demo).await,
        Command::Send(send) => send::run(context, send).await,
        Command::Chat(chat) => chat::run(context, chat).await,
        Command::Reply(reply) => reply::run(context, reply).await,
        Command::Retry(retry) => retry::run(context, retry).await,
        Command::Ps => ps::run(context).await,
        Command::Status => status::run(context).await,
        Command::Ping(ping) => ping::run(context, ping).await,
        Command::Doctor => doctor::run(context).await,
        Command::Bugreport(report) => bugreport::run(context, report).await,
        Command::Completions(args) => completions::run(context, &args),
        Command::Man(args) => man::run(context, &args),
        Command::Discover(discover) => discover::run(context, discover).await,
        Command::Peers(args) => peers::run(context, args).await,
        Command::Agents(args) => agents::run(context, args).await,
        Command::Skills(args) => skills::run(context, args).await,
        Command::Relays(args) => relays::run(context, args).await,
        Command::Card(card) => card::run(context, card).await,
        Command::Task(task) => task::run(context, task).await,
        Command::Top(args) => top::run(context, args).await,
        Command::Trace(task) => trace::run(context, task).await,
        Command::Cancel(cancel) => cancel::run(context, cancel).await,
        Command::Tasks(tasks) => tasks::run(context, tasks).await,
        Command::Invite(args) => invite::run(context, args).await,
        Command::Join(args) => join::run(context, args).await,
        Command::Trust(args) => trust::trust(context, args).await,
        Command::Untrust(args) => trust::untrust(context, args).await,
        Command::Requests(args) => trust::requests(context, args).await,
        Command::Alias(command) => alias::run(context, command).await,
        Command::Id => id::run(context).await,
        Command::Policy(command) => policy::run(context, command).await,
        Command::Audit(command) => audit::run(context, command),
        Command::Key(command) => key::run(context, command).await,
        Command::Credential(command) => credential::run(context, command).await,
        Command::Seal(args) => seal::seal(context, &args).await,
        Command::Unseal(args) => seal::unseal(context, &args).await,
        Command::Daemon(_) | Command::Relay(_) | Command::Bridge(_) => {
            Err(CommandFailure::usage("a program is run by itself"))
        }
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
