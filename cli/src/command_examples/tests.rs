//! Where examples stand in the help.

use clap::CommandFactory as _;

use super::*;
use crate::cmd::Args;

#[test]
fn own_options_stand_before_those_of_all_commands() {
    let mut command = added(Args::command());
    command.build();
    let help = command
        .find_subcommand_mut("send")
        .unwrap()
        .render_help()
        .to_string();
    let place = |text: &str| {
        help.find(text)
            .unwrap_or_else(|| panic!("{text} is missing in {help}"))
    };
    let order = [
        "--timeout",
        "Options of every command:",
        "Print JSON for scripts",
        "Examples:",
        "Exit codes:",
    ]
    .map(place);
    assert!(order.is_sorted(), "{help}");
}
