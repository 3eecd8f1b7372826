//! `anycast top`: what the daemon is doing, once a second, on a terminal of 80×24 or larger, or as JSON.
//!
//! `view_model` makes a view of two looks at the daemon, `screen` draws it; both are pure. Here is what asks and waits.

mod screen;
mod view_model;

use std::{
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};

use agentanycast::{Activity, Network, Node};
use clap::Args;
use ratatui::{
    DefaultTerminal,
    backend::Backend as _,
    buffer::Buffer,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers},
    layout::Rect,
};
use rustix::{
    process::{Signal, kill_current_process_group},
    stdio::stdin,
    termios::tcgetattr,
};
use tokio::{sync::mpsc, time::MissedTickBehavior};

use self::view_model::{Snapshot, TopView};
use super::status::healthy;
use crate::{
    arg_values::parse_interval,
    context::Context,
    failure::CommandFailure,
    interrupt::Interrupt,
    job_control::{self, ScreenSequences},
    output,
    terminal_line::takes_escapes,
};

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Show it once and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Time between two looks, such as 500ms or 2s
    #[arg(long, default_value = "1s", value_parser = parse_interval, value_name = "TIME")]
    pub(crate) interval: Duration,
}

/// Lines of the log that are asked for: more than any terminal shows.
const LOG_LINES: usize = 64;

/// The size of the smallest terminal that all of it fits on; `--once` prints as much.
const SMALLEST: Rect = Rect::new(0, 0, 80, 24);

/// The other screen of a terminal, without a cursor, which is drawn on.
const SCREEN: ScreenSequences = ScreenSequences {
    set: "\u{1b}[?1049h\u{1b}[?25l",
    unset: "\u{1b}[?1049l\u{1b}[?25h",
};

pub(crate) async fn run(context: &Context, args: TopArgs) -> Result<(), CommandFailure> {
    let node = context.connect_or_start().await?;
    if args.once {
        return once(context, &node, args.interval).await;
    }
    if context.json {
        return stream(&node, args.interval).await;
    }
    if !io::stdout().is_terminal() || !takes_escapes() {
        return Err(CommandFailure::usage(
            "anycast top needs a terminal that can be drawn on (TERM is missing or dumb where it cannot); without one use \
             --once or --json",
        ));
    }
    let mut interrupt = Interrupt::new()?;
    if let Ok(before) = tcgetattr(stdin()) {
        job_control::changed(&before);
        job_control::drawn_with(Some(SCREEN));
        job_control::watch();
    }
    let mut terminal = ratatui::try_init()?;
    let done = tokio::select! {
        done = live(&mut terminal, &node, args.interval) => done,
        wish = interrupt.stop_signal() => Err(wish.failure("interrupted")),
    };
    ratatui::try_restore()?;
    job_control::drawn_with(None);
    job_control::given_back();
    done
}

async fn snapshot(node: &Node) -> Result<Snapshot, CommandFailure> {
    let (activity, network): (Activity, Network) =
        tokio::try_join!(node.activity(LOG_LINES), node.network())?;
    Ok(Snapshot {
        at: Instant::now(),
        activity,
        network,
    })
}

/// Two looks, so that there are rates.
async fn once(context: &Context, node: &Node, interval: Duration) -> Result<(), CommandFailure> {
    let before = snapshot(node).await?;
    tokio::time::sleep(interval).await;
    let now = snapshot(node).await?;
    let view = TopView::new(Some(&before), &now);
    if context.json {
        output::json(&view.document())?;
        return healthy(now.activity.store_failure);
    }
    let mut buffer = Buffer::empty(SMALLEST);
    screen::draw(&view, SMALLEST, &mut buffer);
    for y in 0..SMALLEST.height {
        let row: String = (0..SMALLEST.width).map(|x| buffer[(x, y)].symbol()).collect();
        output::line(row.trim_end())?;
    }
    healthy(now.activity.store_failure)
}

/// A JSON object on a line of its own at each interval, until somebody interrupts.
async fn stream(node: &Node, interval: Duration) -> Result<(), CommandFailure> {
    let mut interrupt = Interrupt::new()?;
    let mut ticks = ticks(interval);
    let mut before = None;
    loop {
        tokio::select! {
            biased;
            () = interrupt.wait() => return Ok(()),
            _ = ticks.tick() => {}
        }
        let now = snapshot(node).await?;
        output::json(&TopView::new(before.as_ref(), &now).document())?;
        before = Some(now);
    }
}

async fn live(terminal: &mut DefaultTerminal, node: &Node, interval: Duration) -> Result<(), CommandFailure> {
    let mut keys = keys();
    let mut ticks = ticks(interval);
    let mut before: Option<Snapshot> = None;
    let mut view = None;
    loop {
        tokio::select! {
            biased;
            key = keys.recv() => match key {
                Some(Event::Key(key)) if ends(key) => return Ok(()),
                Some(Event::Key(key)) if is_control(key, 'z') => {
                    let _ = kill_current_process_group(Signal::TSTP);
                }
                // Also after this process was stopped, when the screen has something else.
                Some(Event::Resize(..)) => {
                    terminal.backend_mut().clear()?;
                    terminal.swap_buffers();
                }
                Some(_) => {}
                None => return Ok(()),
            },
            _ = ticks.tick() => {
                let now = snapshot(node).await?;
                view = Some(TopView::new(before.as_ref(), &now));
                before = Some(now);
            }
        }
        if let Some(view) = &view {
            terminal.draw(|frame| screen::draw(view, frame.area(), frame.buffer_mut()))?;
        }
    }
}

fn ends(key: KeyEvent) -> bool {
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || is_control(key, 'c')
}

fn is_control(key: KeyEvent, letter: char) -> bool {
    key.code == KeyCode::Char(letter) && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// What is typed, by a thread of its own: reading a terminal waits.
fn keys() -> mpsc::Receiver<Event> {
    let (sender, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    keys
}

fn ticks(interval: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
