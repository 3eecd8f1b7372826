//! One file per command.

use crate::{args::Command, bridge, context::Context, failure::CommandFailure};

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
pub(crate) mod run;
mod seal;
mod send;
mod service;
mod skills;
mod status;
mod task;
mod tasks;
mod top;
mod trace;
mod uamp;
mod up;

/// Runs any command but the daemon.
pub(crate) async fn run(context: &Context, command: Command) -> Result<(), CommandFailure> {
    match command {
        Command::Uamp(command) => uamp::run(context, command).await,
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
        Command::Run(args) => run::run(context, args).await,
        Command::Ps => ps::run(context).await,
        Command::Status => status::run(context).await,
        Command::Ping(ping) => ping::run(context, ping).await,
        Command::Doctor => doctor::run(context).await,
        Command::Bugreport(report) => bugreport::run(context, report).await,
        Command::Completions(args) => completions::run(&args),
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
        Command::Alias(command) => alias::run(context, command).await,
        Command::Id => id::run(context).await,
        Command::Mcp => bridge::serve_mcp(context).await,
        Command::Policy(command) => policy::run(context, command),
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
