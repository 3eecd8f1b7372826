//! What commands print on a terminal can be read on light and dark grounds: they use the colours of the terminal, a few others
//! that stand out from both grounds, and do not ask what the ground is. With `NO_COLOR` there are no colours, with `TERM=dumb` no
//! escape sequences.

use super::{
    RunningCommand,
    asking_agent::AskingAgent,
    document, run,
    terminal::{Terminal, screen},
};

type Rgb = [u8; 3];

/// Black, red, green, yellow, blue, magenta, cyan and white as xterm, the console of Linux and GNOME's terminal show them.
const PALETTES: [[Rgb; 8]; 3] = [
    [
        [0, 0, 0],
        [205, 0, 0],
        [0, 205, 0],
        [205, 205, 0],
        [0, 0, 238],
        [205, 0, 205],
        [0, 205, 205],
        [229, 229, 229],
    ],
    [
        [0, 0, 0],
        [170, 0, 0],
        [0, 170, 0],
        [170, 85, 0],
        [0, 0, 170],
        [170, 0, 170],
        [0, 170, 170],
        [170, 170, 170],
    ],
    [
        [46, 52, 54],
        [204, 0, 0],
        [78, 154, 6],
        [196, 160, 0],
        [52, 101, 164],
        [117, 80, 123],
        [6, 152, 154],
        [211, 215, 207],
    ],
];

const GROUNDS: [Rgb; 2] = [[255, 255, 255], [0, 0, 0]];

/// The least contrast of a colour with a ground, of 21.
const LEAST: f64 = 2.0;

/// White dots on a black ground, which a QR code is drawn with whatever the terminal's colours are.
const DOTS: [u8; 2] = [97, 40];

/// The relative luminance by WCAG.
fn luminance(colour: Rgb) -> f64 {
    let linear = colour.map(|channel| {
        let part = f64::from(channel) / 255.0;
        if part <= 0.040_45 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

/// Whether this colour of the palette stands out from light and dark grounds.
fn stands_out(colour: u8) -> bool {
    let contrast = |one: Rgb, other: Rgb| {
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    };
    let shades = || PALETTES.iter().map(|palette| palette[usize::from(colour)]);
    GROUNDS
        .iter()
        .all(|ground| shades().all(|shade| contrast(shade, *ground) >= LEAST))
}

/// The parameters of the sequences that set colours and styles.
fn styles(shown: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for rest in shown.split("\u{1b}[").skip(1) {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';');
        if let Some(end) = end.filter(|end| rest[*end..].starts_with('m')) {
            let codes = rest[..end].split(';');
            found.push(codes.map(|code| code.parse().unwrap_or(0)).collect());
        }
    }
    found
}

/// Whether a sequence leaves the text such that it can be read on every ground.
fn can_be_read(style: &[u8]) -> bool {
    match style {
        [] => true,
        _ if style == DOTS => true,
        [38, 5, colour @ 0..=7, rest @ ..] => stands_out(*colour) && can_be_read(rest),
        [colour @ 30..=37, rest @ ..] => stands_out(*colour - 30) && can_be_read(rest),
        // Bold, faint, italic, underlined, inverse, and back.
        [0..=4 | 7 | 22..=24 | 27 | 39 | 49 | 59, rest @ ..] => can_be_read(rest),
        _ => false,
    }
}

fn is_colour(style: &[u8]) -> bool {
    style
        .iter()
        .any(|code| matches!(code, 30..=38 | 40..=48 | 90..=107))
}

/// Every colour of what was shown can be read on light and dark grounds, and the terminal was not asked for its own.
pub(crate) fn check(shown: &str) {
    for style in styles(shown) {
        assert!(can_be_read(&style), "{style:?} in {shown:?}");
    }
    assert!(!shown.contains("\u{1b}]"), "{shown:?}");
}

#[test]
fn colours_stand_out_from_light_and_dark_grounds() {
    let good: Vec<u8> = (0..8).filter(|colour| stands_out(*colour)).collect();
    assert_eq!(good, [1, 2, 5], "red, green and magenta");
    for (style, is_good) in [
        (&[1, 31][..], true),
        (&[38, 5, 2], true),
        (&[33], false),
        (&[97], false),
        (&[37], false),
        (&[30], false),
        (&[40], false),
        (&[97, 40], true),
        (&[38, 2, 1, 2, 3], false),
    ] {
        assert_eq!(can_be_read(style), is_good, "{style:?}");
    }
    assert_eq!(
        styles("a\u{1b}[1;31mb\u{1b}[Kc\u{1b}[m\u{1b}[?25l"),
        [vec![1, 31], vec![0]]
    );
}

/// A terminal with a light or a dark ground, one that wants no colours, and one that takes no escape sequences; some in
/// builds of CI.
const TERMINALS: [&[(&str, &str)]; 4] = [
    &[("TERM", "xterm-256color"), ("COLORFGBG", "0;15")],
    &[("TERM", "xterm-256color"), ("COLORFGBG", "15;0"), ("CI", "true")],
    &[("TERM", "xterm-256color"), ("NO_COLOR", "1"), ("CI", "true")],
    &[("TERM", "dumb"), ("CI", "true")],
];

#[test]
fn what_commands_print_can_be_read_on_light_and_dark_grounds() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let agent = AskingAgent::asking(home);
    let peer = agent.peer.as_str();
    for (told, code) in [("stream", 0), ("fail", 1), ("ask", 7)] {
        assert_eq!(run(home, &["send", peer, told]).1, Some(code));
    }
    let tasks = document(home, &["tasks"]);
    let id = tasks[0]["id"].as_str().unwrap();
    let commands: [&[&str]; 16] = [
        &["send", peer, "stream", "--stream"],
        &["send", peer, "slow"],
        &["tasks"],
        &["task", id],
        &["trace", id],
        &["agents"],
        &["ps"],
        &["card", peer],
        &["status"],
        &["doctor"],
        &["logs"],
        &["invite"],
        &["--help"],
        &["send", "--help"],
        &["sennd"],
        &["send", "--strem", "x", "y"],
    ];
    std::thread::scope(|scope| {
        for (at, environment) in TERMINALS.into_iter().enumerate() {
            scope.spawn(move || {
                for arguments in commands {
                    let (shown, _) = Terminal::sized(home, 100, environment, arguments).ended();
                    let styles = styles(&shown);
                    let what = format!("{arguments:?} with {environment:?}: {shown:?}");
                    assert!(at != 2 || styles.is_empty(), "{what}");
                    assert!(at != 3 || !shown.contains('\u{1b}'), "{what}");
                }
            });
            scope.spawn(move || {
                let mut top = Terminal::sized(home, 100, environment, &["top"]);
                if at < 3 {
                    top.shows("ENVELOPES");
                    top.types("q");
                }
                let (shown, _) = top.ended();
                let has_colours = styles(&shown).iter().any(|style| is_colour(style));
                assert_eq!(has_colours, at < 2, "{environment:?}: {shown:?}");
                assert!(at != 3 || !shown.contains('\u{1b}'), "{shown:?}");
            });
        }
    });
    // Colours are used at all, and a QR code has its own ground.
    let shown = |arguments: &[&str]| Terminal::sized(home, 100, TERMINALS[0], arguments).ended().0;
    assert!(styles(&shown(&["doctor"])).iter().any(|style| is_colour(style)));
    let invite = shown(&["invite"]);
    let dots = styles(&invite).iter().filter(|style| **style == DOTS).count();
    let drawn = screen(&invite, 100);
    let drawn = drawn.iter().filter(|line| line.contains('█')).count();
    assert!(dots > 10 && dots >= drawn, "{dots} of {drawn}: {invite:?}");
}
