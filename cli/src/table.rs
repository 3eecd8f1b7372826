//! Rows under a head, in columns that fit the terminal. Off a terminal, and where ids are to be whole,
//! nothing is cut.
//!
//! What is cut first: ids and addresses down to their short form, then texts, which are left out where little of them
//! would be left; names and numbers last, and states never on a terminal of 40 columns or more.

use std::io::{self, IsTerminal as _};

use crate::{
    columns,
    output::{Paint, pieces},
};

/// Columns between two cells.
const GAP: usize = 2;

/// Heads of columns with ids and addresses.
const IDS: [&str; 6] = ["PEER", "PEERS", "WITH", "RELAY", "TASK", "ADDRESSES"];

/// Heads of columns with texts.
const TEXTS: [&str; 7] = [
    "DESCRIPTION",
    "ABOUT",
    "TAGS",
    "SKILLS",
    "AGENTS",
    "COMMAND",
    "ASKED",
];

/// Heads of columns with the state of something, a word of a few.
const STATES: [&str; 1] = ["STATE"];

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnKind {
    Id,
    Text,
    Name,
    State,
}

/// How columns of a kind are made narrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The widest ones, down to so many columns of the terminal.
    To(usize),
    /// The last ones are left out, but for the first of all.
    Out,
}

/// What is made narrower one after the other.
const CUTS: [(ColumnKind, Cut); 10] = [
    (ColumnKind::Id, Cut::To(17)),
    (ColumnKind::Text, Cut::To(12)),
    (ColumnKind::Id, Cut::To(8)),
    (ColumnKind::Text, Cut::To(4)),
    (ColumnKind::Text, Cut::Out),
    (ColumnKind::Id, Cut::To(4)),
    (ColumnKind::Id, Cut::Out),
    (ColumnKind::Id, Cut::To(1)),
    (ColumnKind::Name, Cut::To(1)),
    (ColumnKind::State, Cut::To(1)),
];

impl ColumnKind {
    fn of(head: &str) -> Self {
        if IDS.contains(&head) {
            Self::Id
        } else if TEXTS.contains(&head) {
            Self::Text
        } else if STATES.contains(&head) {
            Self::State
        } else {
            Self::Name
        }
    }
}

/// Prints rows under a head. `is_whole`: nothing is cut.
pub(crate) fn print<const N: usize>(
    head: [&'static str; N],
    rows: &[[String; N]],
    is_whole: bool,
) -> io::Result<()> {
    Table::new(head, is_whole).print(rows)
}

/// A table whose rows come one after the other.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    head: [&'static str; N],
    is_begun: bool,
    is_whole: bool,
    widths: [usize; N],
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(head: [&'static str; N], is_whole: bool) -> Self {
        Self {
            head,
            is_begun: false,
            is_whole,
            widths: head.map(columns::width),
        }
    }

    /// Prints further rows, and the head before the first; columns do not become narrower, but with their
    /// terminal.
    pub(crate) fn print(&mut self, rows: &[[String; N]]) -> io::Result<()> {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(columns::width(cell));
            }
        }
        let room = if self.is_whole || !io::stdout().is_terminal() {
            usize::MAX
        } else {
            columns::of_terminal(rustix::stdio::stdout())
        };
        let widths = fitted(self.widths, self.head.map(ColumnKind::of), room);
        if !std::mem::replace(&mut self.is_begun, true) {
            pieces(&[(&rendered(&self.head, widths), Paint::Faint)])?;
        }
        rows.iter()
            .try_for_each(|row| pieces(&[(&rendered(row, widths), Paint::Plain)]))
    }
}

/// PURE: the widths of columns that are not wider than that together, if that can be; 0: the column is left out.
fn fitted<const N: usize>(mut widths: [usize; N], kinds: [ColumnKind; N], room: usize) -> [usize; N] {
    for (kind, cut) in CUTS {
        while total(&widths) > room {
            let columns = widths.iter_mut().zip(kinds).enumerate();
            let mut columns = columns.filter_map(|(at, (width, of))| (of == kind).then_some((at, width)));
            match cut {
                Cut::To(floor) => {
                    let wide = columns.filter(|(_, width)| **width > floor);
                    let Some((_, widest)) = wide.max_by_key(|(_, width)| **width) else {
                        break;
                    };
                    *widest -= 1;
                }
                Cut::Out => {
                    let Some((_, last)) = columns.rfind(|(at, width)| *at > 0 && **width > 0) else {
                        break;
                    };
                    *last = 0;
                }
            }
        }
    }
    widths
}

/// PURE: what columns take together.
fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    widths.iter().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

fn rendered<const N: usize>(cells: &[impl AsRef<str>; N], widths: [usize; N]) -> String {
    let shown = cells.iter().zip(widths).filter(|(_, width)| *width > 0);
    let cells = shown.map(|(cell, width)| columns::padded(&columns::cut(cell.as_ref(), width), width));
    cells
        .collect::<Vec<_>>()
        .join(&" ".repeat(GAP))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: [&str; 6] = ["TASK", "STATE", "CHANGED", "WITH", "SKILL", "ASKED"];

    fn kinds() -> [ColumnKind; 6] {
        HEAD.map(ColumnKind::of)
    }

    #[test]
    fn ids_are_cut_first_and_names_and_states_last() {
        let wide = [36, 14, 7, 60, 10, 60];
        assert_eq!(fitted(wide, kinds(), usize::MAX), wide);
        assert_eq!(fitted(wide, kinds(), 200), [36, 14, 7, 60, 10, 60]);
        assert_eq!(fitted(wide, kinds(), 140), [20, 14, 7, 19, 10, 60]);
        assert_eq!(fitted(wide, kinds(), 100), [17, 14, 7, 17, 10, 25]);
        assert_eq!(fitted(wide, kinds(), 80), [14, 14, 7, 13, 10, 12]);
        // Little of the text would be left.
        assert_eq!(fitted(wide, kinds(), 60), [8, 14, 7, 8, 10, 0]);
        assert_eq!(fitted(wide, kinds(), 40), [3, 14, 7, 0, 10, 0]);
        let usual = [8, 9, 7, 13, 5, 30];
        assert_eq!(fitted(usual, kinds(), 60), [8, 9, 7, 9, 5, 12]);
        assert_eq!(fitted(usual, kinds(), 40), [6, 9, 7, 5, 5, 0]);
    }

    #[test]
    fn cells_are_cut_to_their_columns() {
        assert_eq!(rendered(&["日本語", "b", "c"], [5, 3, 1]), "日本…  b    c");
        assert_eq!(rendered(&["a", ""], [3, 2]), "a");
        assert_eq!(rendered(&["a", "b", "c"], [1, 0, 1]), "a  c");
    }

    proptest! {
        #[test]
        fn a_table_fits_a_usual_terminal(widths in prop::array::uniform6(0..300_usize), room in 40..300_usize) {
            let fitted = fitted(widths, kinds(), room);
            prop_assert!(total(&fitted) <= room, "{fitted:?}");
            prop_assert!(fitted.iter().zip(widths).all(|(fitted, width)| *fitted <= width));
        }

        #[test]
        fn states_and_names_are_whole_at_40_columns(
            id in 8..60_usize, state in 6..15_usize, with in 4..60_usize, skill in 5..9_usize, asked in 5..100_usize
        ) {
            let fitted = fitted([id, state, 7, with, skill, asked], kinds(), 40);
            prop_assert_eq!((fitted[1], fitted[2], fitted[4]), (state, 7, skill));
            prop_assert!(fitted[0] >= 3, "{:?}", fitted);
        }
    }
}
