//! docs/security.md says which test shows what: each of them is there.

use std::{fs, path::Path};

#[test]
fn the_tests_that_the_threat_table_names_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let mut named = 0;
    for row in text.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let mut file = String::new();
        for word in cells[cells.len() - 1].split('`').skip(1).step_by(2) {
            if Path::new(word).extension().is_some_and(|end| end == "rs") {
                let places = [root.join("tests/tests").join(word), root.join(word)];
                let read = places.iter().find_map(|place| fs::read_to_string(place).ok());
                file = read.unwrap_or_else(|| panic!("{word} is not there: {row}"));
            } else {
                assert!(
                    file.contains(&format!("fn {word}(")),
                    "{word} is not there: {row}"
                );
            }
            named += 1;
        }
    }
    assert!(
        named > 20,
        "only {named} files and tests were found in the tables"
    );
}
