//! An agent's question at the terminal.

use std::io::{self, BufRead};

use crate::{failure::CommandFailure, output};

/// Longest answer that is read, in bytes.
const MAX_ANSWER: u64 = 1 << 20;

/// Shows the question and reads one line; `None`: the input has ended.
pub(super) async fn ask(question: &str) -> Result<Option<String>, CommandFailure> {
    output::ask(&format!("The agent asks: {question}\n> "))?;
    let reading = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        io::Read::take(io::stdin().lock(), MAX_ANSWER)
            .read_line(&mut answer)
            .map(|_| answer)
    });
    let answer = reading.await.map_err(io::Error::other)??;
    Ok((!answer.is_empty()).then(|| answer.trim_end_matches(['\n', '\r']).to_owned()))
}
