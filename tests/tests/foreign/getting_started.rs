//! docs/getting-started.md, followed from its first block to its last on two machines.

use std::fs;

use agentanycast_tests::fake_systemctl;

use crate::{
    client_env::python,
    doc_pages::{UserMachine, blocks, page},
    doc_run::{DocRun, HERE, free_port},
};

/// No text, so that it is written into a file when it comes back.
const REPORT: &[u8] = b"%PDF-1.4\n\xe2\xe3\xcf\xd3\x00\x01";

#[tokio::test]
async fn the_page_runs_as_it_is_written() {
    let text = fs::read_to_string(page("docs/getting-started.md")).unwrap();
    let mcp = page("examples/mcp/try.mjs");
    let here = UserMachine::new().python(&python()).node_modules();
    fake_systemctl::install(&here.programs());
    here.write("report.pdf", REPORT);
    here.write("try.mjs", fs::read(mcp).unwrap());
    let bob = UserMachine::new().python(&python()).node_modules();
    let mut walk = DocRun::new([(HERE, here), ("bob", bob)]).instead("8090", free_port());

    // The settings of an MCP client are started by one where the page has them.
    let (before, after) = text.split_once("\n## 9.").unwrap();
    walk.run_blocks(&blocks(before)).await;
    assert!(walk.machine(HERE).read("back/report.pdf") == REPORT);
    let client = "node try.mjs claude_desktop_config.json shout 'good morning'";
    let said = walk.machine(HERE).run(client).await;
    assert!(
        said.contains("ask_agent") && said.contains("GOOD MORNING"),
        "{said}"
    );
    walk.run_blocks(&blocks(after)).await;
}
