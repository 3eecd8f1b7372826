//! One process for all tasks, which speaks JSON lines: in Python, without a library.

use std::time::Duration;

use agentanycast::{Message, TaskStatus};

use super::{Host, ended, fs, processes, until};

const AGENT: &str = r#"
import json, os, sys, threading, time

out = threading.Lock()
answers = {}
canceled = set()

def say(**line):
    with out:
        print(json.dumps(line), flush=True)

def work(task):
    id, text = task["id"], task["text"]
    if text == "ask":
        say(type="question", id=id, text="Which colour?")
        while id not in answers:
            time.sleep(0.01)
        say(type="result", id=id, text="painted " + answers[id])
    elif text == "chunks":
        for number in range(3):
            say(type="chunk", id=id, name="log", text=f"piece {number}\n", last=number == 2)
        say(type="result", id=id, data={"pieces": 3}, message="all sent")
    elif text == "wait":
        say(type="working", id=id, text="waiting")
        while id not in canceled:
            time.sleep(0.01)
        with open(os.environ["CANCELED"], "a") as file:
            file.write(id + "\n")
    elif text == "fail":
        say(type="error", id=id, text="no ink")
    elif text == "bad":
        say(type="result", id=id, text="a", data=1)
    elif text == "exit":
        if task["attempt"] == 1:
            print("out of paper", file=sys.stderr, flush=True)
            os._exit(9)
        say(type="result", id=id, text=f"attempt {task['attempt']}")
    elif text == "pid":
        say(type="result", id=id, text=str(os.getpid()))
    else:
        say(type="result", id=id, text=text.upper())

print("not a line of the protocol", flush=True)
print(os.getpid(), file=open(os.environ["PIDS"], "a"), flush=True)
for line in sys.stdin:
    line = json.loads(line)
    if line["type"] == "task":
        threading.Thread(target=work, args=(line,), daemon=True).start()
    elif line["type"] == "answer":
        answers[line["id"]] = line["text"]
    elif line["type"] == "cancel":
        canceled.add(line["id"])
"#;

fn agent(host: &Host, options: &[&str]) -> super::AgentRun {
    fs::write(host.path("agent.py"), AGENT).unwrap();
    let (pids, canceled) = (host.path("pids"), host.path("canceled"));
    let variables = [
        format!("PIDS={}", pids.display()),
        format!("CANCELED={}", canceled.display()),
    ];
    let mut all = vec![
        "--protocol",
        "jsonl",
        "--env",
        &variables[0],
        "--env",
        &variables[1],
    ];
    all.extend(options);
    let program = host.path("agent.py").display().to_string();
    host.run(&all, &["python3", &program])
}

#[test]
fn tasks_go_through_one_process() {
    let host = Host::start();
    let _agent = agent(&host, &["--concurrency", "4"]);
    assert_eq!(
        ended(&host.does("hello")),
        (TaskStatus::Completed, "HELLO".to_owned())
    );
    let asks = host.send("ask");
    let task = host.halted(&asks);
    assert_eq!(
        (task.status, task.reason().as_str()),
        (TaskStatus::InputRequired, "Which colour?")
    );
    // Others go on meanwhile.
    assert_eq!(
        ended(&host.does("again")),
        (TaskStatus::Completed, "AGAIN".to_owned())
    );
    host.answer(&asks, "blue");
    assert_eq!(
        ended(&host.halted(&asks)),
        (TaskStatus::Completed, "painted blue".to_owned())
    );

    let task = host.does("chunks");
    assert_eq!(task.status, TaskStatus::Completed, "{}", task.reason());
    let log = task
        .artifacts
        .iter()
        .find(|artifact| artifact.name == "log")
        .unwrap();
    assert_eq!(log.text_content(), "piece 0\npiece 1\npiece 2\n");
    let data = task
        .artifacts
        .iter()
        .find_map(|artifact| artifact.parts[0].as_data())
        .unwrap();
    assert_eq!(data["pieces"], 3);
    assert_eq!(
        task.status_message.as_ref().map(Message::text_content),
        Some("all sent".to_owned())
    );

    assert_eq!(
        ended(&host.does("fail")),
        (TaskStatus::Failed, "no ink".to_owned())
    );
    let (status, reason) = ended(&host.does("bad"));
    assert!(
        status == TaskStatus::Failed && reason.contains("exactly one of"),
        "{reason}"
    );

    let waits = host.send("wait");
    until("it waits", || host.now(&waits).reason() == "waiting");
    host.cancel(&waits);
    let canceled = || fs::read_to_string(host.path("canceled")).unwrap_or_default();
    until("the program hears of it", || canceled().contains(waits.id()));
    assert_eq!(
        processes(&host.path("pids"), 1).len(),
        1,
        "one process did it all"
    );
}

#[test]
fn a_process_that_ends_fails_its_tasks_and_is_started_again() {
    let host = Host::start();
    let _agent = agent(&host, &["--concurrency", "4"]);
    let waits = host.send("wait");
    until("it waits", || host.now(&waits).reason() == "waiting");
    for task in [host.does("exit"), host.halted(&waits)] {
        let (status, reason) = ended(&task);
        assert_eq!(
            (status, reason.as_str()),
            (TaskStatus::Failed, "the program ended: exit code 9: out of paper")
        );
    }
    let before = host.does("pid").text_content();
    assert_eq!(
        processes(&host.path("pids"), 2).last().unwrap().to_string(),
        before
    );
}

#[test]
fn with_retry_its_tasks_are_given_again() {
    let host = Host::start();
    let _agent = agent(&host, &["--retry", "1"]);
    assert_eq!(
        ended(&host.does("exit")),
        (TaskStatus::Completed, "attempt 2".to_owned())
    );
}

#[test]
fn a_task_that_waits_for_an_answer_takes_no_slot() {
    let host = Host::start();
    let _agent = agent(&host, &["--concurrency", "1", "--timeout", "3s"]);
    let asks = host.send("ask");
    assert_eq!(host.halted(&asks).status, TaskStatus::InputRequired);
    assert_eq!(ended(&host.does("hello")).1, "HELLO");
    // Its time stands still, too.
    std::thread::sleep(Duration::from_secs(4));
    host.answer(&asks, "red");
    assert_eq!(
        ended(&host.halted(&asks)),
        (TaskStatus::Completed, "painted red".to_owned())
    );
}

#[test]
fn a_program_that_speaks_something_else_is_ended() {
    let host = Host::start();
    let _agent = host.run(&["--protocol", "jsonl"], &["yes", "rubbish"]);
    let (status, reason) = ended(&host.does("x"));
    assert!(
        status == TaskStatus::Failed && reason.contains("1000 lines in a row that are not understood"),
        "{reason}"
    );
}

/// A process that hangs keeps its task until the time-out, and no other.
#[test]
fn after_a_process_that_hangs_the_next_task_goes_to_a_new_one() {
    const HANGS: &str = r#"
import json, sys, time
for line in sys.stdin:
    task = json.loads(line)
    if task.get("text") == "hang":
        time.sleep(600)
    if task["type"] == "task":
        print(json.dumps({"type": "result", "id": task["id"], "text": "said " + task["text"]}), flush=True)
"#;
    let host = Host::start();
    let options = ["--protocol", "jsonl", "--timeout", "2s"];
    let _agent = host.run(&options, &["python3", "-c", HANGS]);
    assert_eq!(ended(&host.does("one")).1, "said one");
    let (status, reason) = ended(&host.does("hang"));
    assert!(
        status == TaskStatus::Failed && reason.contains("--timeout"),
        "{reason}"
    );
    assert_eq!(
        ended(&host.does("two")),
        (TaskStatus::Completed, "said two".to_owned())
    );
}
