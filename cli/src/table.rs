//! Rows under a head, in columns that fit the terminal. Off a terminal, and where ids are to be whole,
//! nothing is cut.
//!
//! What is cut first: ids and addresses down to their short form, then texts; names, states and numbers last.

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

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnKind {
    Id,
    Text,
    Name,
}

/// What is made narrower one after the other, and down to how many columns.
const CUTS: [(ColumnKind, usize); 8] = [
    (ColumnKind::Id, 17),
    (ColumnKind::Text, 12),
    (ColumnKind::Id, 8),
    (ColumnKind::Text, 4),
    (ColumnKind::Name, 4),
    (ColumnKind::Id, 1),
    (ColumnKind::Text, 1),
    (ColumnKind::Name, 1),
];

impl ColumnKind {
    fn of(head: &str) -> Self {
        if IDS.contains(&head) {
            Self::Id
        } else if TEXTS.contains(&head) {
            Self::Text
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

/// PURE: the widths of columns that are not wider than that together, if that can be.
fn fitted<const N: usize>(mut widths: [usize; N], kinds: [ColumnKind; N], room: usize) -> [usize; N] {
    let room = room.saturating_sub(GAP * N.saturating_sub(1));
    for (kind, floor) in CUTS {
        while widths.iter().sum::<usize>() > room {
            let columns = widths
                .iter_mut()
                .zip(kinds)
                .filter(|(width, of)| *of == kind && **width > floor);
            let Some((widest, _)) = columns.max_by_key(|(width, _)| **width) else {
                break;
            };
            *widest -= 1;
        }
    }
    widths
}

fn rendered<const N: usize>(cells: &[impl AsRef<str>; N], widths: [usize; N]) -> String {
    let cells = cells.iter().zip(widths);
    let cells = cells.map(|(cell, width)| columns::padded(&columns::cut(cell.as_ref(), width), width));
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
        assert_eq!(fitted(wide, kinds(), 60), [8, 13, 7, 8, 10, 4]);
    }

    #[test]
    fn cells_are_cut_to_their_columns() {
        assert_eq!(rendered(&["日本語", "b", "c"], [5, 3, 1]), "日本…  b    c");
        assert_eq!(rendered(&["a", ""], [3, 2]), "a");
    }

    proptest! {
        #[test]
        fn a_table_fits_a_usual_terminal(widths in prop::array::uniform6(0..300_usize), room in 40..300_usize) {
            let fitted = fitted(widths, kinds(), room);
            prop_assert!(fitted.iter().sum::<usize>() + GAP * 5 <= room, "{fitted:?}");
            prop_assert!(fitted.iter().zip(widths).all(|(fitted, width)| *fitted <= width));
        }
    }
}
