//! PURE: the samples of a run as an SVG picture: one frame each for what is counted alike, one line for each who.

use std::fmt::Write as _;

const WIDTH: f64 = 900.0;
const FRAME: f64 = 150.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 28.0;

/// Title, how much one unit is, and the columns with their names.
type PlotFrame = (&'static str, f64, &'static [(&'static str, &'static str)]);

/// The frames of a picture.
const FRAMES: [PlotFrame; 4] = [
    ("tasks completed, thousands", 1e3, &[("completed", "all")]),
    (
        "memory (RSS), MiB",
        1_048_576.0,
        &[
            ("alice_rss", "sender"),
            ("bob_rss", "receiver"),
            ("relay_rss", "relay"),
        ],
    ),
    (
        "store, MB",
        1e6,
        &[("alice_database", "sender"), ("bob_database", "receiver")],
    ),
    (
        "descriptors",
        1.0,
        &[
            ("alice_files", "sender"),
            ("bob_files", "receiver"),
            ("relay_files", "relay"),
        ],
    ),
];

const COLOURS: [&str; 3] = ["#2563eb", "#d97706", "#059669"];

/// The picture of a CSV with a head; columns that are not there are left out.
pub(super) fn svg(csv: &str) -> String {
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let rows: Vec<Vec<f64>> = lines
        .map(|line| line.split(',').map(|cell| cell.parse().unwrap_or(0.0)).collect())
        .collect();
    let column = |name: &str| -> Option<Vec<f64>> {
        let at = head.iter().position(|known| *known == name)?;
        Some(
            rows.iter()
                .map(|row| row.get(at).copied().unwrap_or(0.0))
                .collect(),
        )
    };
    let seconds = column("seconds").unwrap_or_default();
    let height = FRAMES.len() as f64 * (FRAME + TOP) + TOP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (place, (title, unit, columns)) in FRAMES.iter().enumerate() {
        let y = place as f64 * (FRAME + TOP) + TOP;
        let lines: Vec<_> = columns
            .iter()
            .filter_map(|(name, who)| Some((*who, column(name)?)))
            .collect();
        frame(&mut svg, y, title, *unit, &seconds, &lines);
    }
    svg.push_str("</svg>\n");
    svg
}

fn frame(svg: &mut String, y: f64, title: &str, unit: f64, seconds: &[f64], lines: &[(&str, Vec<f64>)]) {
    let last = seconds.last().copied().unwrap_or(0.0).max(1.0);
    let most = lines
        .iter()
        .flat_map(|(_, figures)| figures)
        .fold(unit, |most, figure| figure.max(most));
    let (inner, base) = (WIDTH - LEFT - RIGHT, y + FRAME);
    let mut draw = |text: std::fmt::Arguments<'_>| {
        let _ = svg.write_fmt(text); // A String takes everything.
    };
    draw(format_args!(
        "<text x=\"{LEFT}\" y=\"{}\">{title}</text>\n",
        y - 6.0
    ));
    draw(format_args!(
        "<path d=\"M{LEFT} {y}V{base}H{}\" fill=\"none\" stroke=\"#9ca3af\"/>\n",
        LEFT + inner
    ));
    for (share, anchor) in [(0.0, base), (0.5, y + FRAME / 2.0), (1.0, y + 10.0)] {
        let value = most * share / unit;
        draw(format_args!(
            "<text x=\"{}\" y=\"{anchor:.0}\" text-anchor=\"end\">{value:.1}</text>\n",
            LEFT - 6.0
        ));
    }
    draw(format_args!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.0} min</text>\n",
        LEFT + inner,
        base + 14.0,
        last / 60.0
    ));
    for (place, (who, figures)) in lines.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let points: Vec<String> = seconds
            .iter()
            .zip(figures)
            .map(|(second, figure)| {
                format!(
                    "{:.1},{:.1}",
                    LEFT + second / last * inner,
                    base - figure / most * FRAME
                )
            })
            .collect();
        let points = points.join(" ");
        draw(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\"/>\n"
        ));
        draw(format_args!(
            "<text x=\"{}\" y=\"{}\" fill=\"{colour}\">{who}</text>\n",
            LEFT + inner + 10.0,
            y + 14.0 + place as f64 * 16.0
        ));
    }
}

#[test]
fn a_run_is_drawn() {
    let csv = "seconds,completed,alice_rss,bob_rss,relay_rss\n0.0,0,1048576,2097152,1048576\n60.0,3000,2097152,2097152,1048576\n";
    let svg = svg(csv);
    assert_eq!(svg.matches("<polyline").count(), 4, "{svg}");
    assert!(svg.contains("1 min") && svg.contains("receiver"), "{svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let empty = super::plot::svg("");
    assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
}
