//! PURE: a view on a screen. All of it fits on 80×24; a larger screen shows more peers, refusals and lines of the log.

use agentanycast_daemon_kit::sanitize::printable;
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Paragraph, Widget as _},
};

use super::view_model::{PeerRow, RefusalRow, StatusRow, TopView};
use crate::output::{flat, span};

/// Rows of the block of tasks: a head, seven states.
const TASK_ROWS: u16 = 8;

/// Most rows of a store's failure.
const FAILURE_ROWS: usize = 4;

const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const BAD: Style = Style::new().fg(Color::Red);
const GOOD: Style = Style::new().fg(Color::Green);

/// Draws a view.
pub(crate) fn draw(view: &TopView, area: Rect, buffer: &mut Buffer) {
    let mut failure = wrapped(&flat(&view.store_failure), area.width);
    for problem in &view.problems {
        failure.extend(wrapped(&flat(&format!("degraded: {problem}")), area.width));
    }
    failure.truncate(FAILURE_ROWS);
    let [head, failed, upper, peers, refusals, log] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(failure.len() as u16),
        Constraint::Length(TASK_ROWS + 1),
        Constraint::Fill(4),
        Constraint::Fill(3),
        Constraint::Fill(4),
    ])
    .areas(area);
    header(view, head, buffer);
    let failure: Vec<Line<'_>> = failure.into_iter().map(|line| Line::styled(line, BAD)).collect();
    Paragraph::new(failure).render(failed, buffer);
    let [tasks, queue] = Layout::horizontal([Constraint::Length(52), Constraint::Fill(1)]).areas(upper);
    paragraph("tasks", task_lines(&view.tasks), tasks, buffer);
    paragraph("queue", queue_lines(view), queue, buffer);
    let title = format!("peers ({})", view.peers.len());
    paragraph(
        &title,
        view.peers
            .iter()
            .map(|peer| peer_line(peer, peers.width))
            .collect(),
        peers,
        buffer,
    );
    let lines = view.refusals.iter().map(refusal_line).collect();
    paragraph("refusals", lines, refusals, buffer);
    let room = usize::from(log.height.saturating_sub(1));
    let newest = view.log.iter().skip(view.log.len().saturating_sub(room));
    paragraph(
        "log",
        newest.map(|line| Line::from(flat(line))).collect(),
        log,
        buffer,
    );
    sanitize(buffer);
}

/// Replaces what could drive the terminal or change the direction of text, wherever on the screen it came
/// from.
fn sanitize(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if printable(cell.symbol()) != cell.symbol() {
            cell.set_char(char::REPLACEMENT_CHARACTER);
        }
    }
}

fn paragraph(title: &str, lines: Vec<Line<'_>>, area: Rect, buffer: &mut Buffer) {
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(FAINT)
        .title(Line::from(format!(" {title} ")).style(Style::new().add_modifier(Modifier::BOLD)));
    Paragraph::new(lines).block(block).render(area, buffer);
}

fn header(view: &TopView, area: Rect, buffer: &mut Buffer) {
    let agent = if view.agent_listens {
        Span::styled("agent listens", GOOD)
    } else {
        Span::styled("no agent", BAD)
    };
    let line = Line::from(vec![
        Span::styled("anycast top", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!(
            "  {}  {}  up {}  nat {}  ",
            short(&view.node),
            view.version,
            span(view.up),
            view.nat
        )),
        agent,
        Span::styled("  q quits", FAINT),
    ]);
    line.render(area, buffer);
}

/// A text in lines of this width, four at most: words whole where they fit.
fn wrapped(text: &str, width: u16) -> Vec<String> {
    let width = usize::from(width).max(1);
    let mut lines: Vec<String> = Vec::new();
    let mut room = 0;
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        if let Some(line) = lines.last_mut().filter(|_| letters.len() < room) {
            line.push(' ');
            line.push_str(word);
            room -= letters.len() + 1;
            continue;
        }
        for piece in letters.chunks(width) {
            lines.push(piece.iter().collect());
            room = width - piece.len();
        }
    }
    lines.truncate(FAILURE_ROWS);
    lines
}

fn task_lines(rows: &[StatusRow]) -> Vec<Line<'static>> {
    let head = format!(
        " {:<15} {:>7} {:>8} {:>8} {:>9}",
        "STATE", "NOW", "SENT/S", "CAME/S", "TOTAL"
    );
    let mut lines = vec![Line::styled(head, FAINT)];
    lines.extend(rows.iter().map(|row| {
        let rate = |side: usize| row.rate.map_or_else(|| "-".to_owned(), |rate| number(rate[side]));
        let text = format!(
            " {:<15} {:>7} {:>8} {:>8} {:>9}",
            row.status.as_str(),
            row.now,
            rate(0),
            rate(1),
            row.total
        );
        Line::raw(text)
    }));
    lines
}

fn queue_lines(view: &TopView) -> Vec<Line<'static>> {
    let [queued, sent, parked] = view.queue;
    let parked_style = if parked > 0 { BAD } else { Style::new() };
    vec![
        Line::styled(format!(" {:<14} {:>8}", "ENVELOPES", "NOW"), FAINT),
        Line::raw(format!(" {:<14} {queued:>8}", "queued")),
        Line::raw(format!(" {:<14} {sent:>8}", "sent")),
        Line::styled(format!(" {:<14} {parked:>8}", "parked"), parked_style),
    ]
}

fn peer_line(peer: &PeerRow, width: u16) -> Line<'static> {
    let road = match peer.via {
        Some(road) => Span::raw(format!("{road:<7}")),
        None => Span::styled(format!("{:<7}", "away"), BAD),
    };
    let round_trip = peer.round_trip.map_or_else(
        || "-".to_owned(),
        |rtt| format!("{:.1} ms", rtt.as_secs_f64() * 1000.0),
    );
    let waiting = match peer.waiting {
        Some(waiting) => format!("{waiting} waiting"),
        None => String::new(),
    };
    // Whole ids where there is room: they are what other commands take.
    let (id, room) = if width >= 120 {
        (peer.id.clone(), 52)
    } else {
        (short(&peer.id), 14)
    };
    Line::from(vec![
        Span::raw(format!(" {id:<room$} ")),
        road,
        Span::raw(format!(
            " {round_trip:>10}  {waiting:<14} {}",
            flat(&peer.address)
        )),
    ])
}

fn refusal_line(refusal: &RefusalRow) -> Line<'static> {
    let who = if refusal.by_peer { "refused by" } else { "refused" };
    let count = if refusal.count > 1 {
        format!(" ×{}", refusal.count)
    } else {
        String::new()
    };
    Line::from(vec![
        Span::styled(format!(" {:>4} ", span(refusal.ago)), FAINT),
        Span::raw(format!("{who} {}{count}: ", short(&refusal.who))),
        Span::raw(flat(&refusal.reason)),
    ])
}

/// The end of an id, since peer ids all begin alike; words stay as they are.
fn short(id: &str) -> String {
    let count = id.chars().count();
    if count <= 14 || id.contains(' ') {
        return id.to_owned();
    }
    let end: String = id.chars().skip(count - 13).collect();
    format!("…{end}")
}

fn number(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
