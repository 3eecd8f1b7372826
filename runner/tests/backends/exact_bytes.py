"""A program of JSON lines, or with the argument `acp` an agent of the Agent Client Protocol, that writes the bytes that its
task says: a JSON list of steps. A text is written, each character as the byte of its number, with `@ID` for the id of the
task or call, `@SESSION` for the session and `@ANSWER` for the option that was chosen; a number is a pause in seconds;
`{"utf16": TEXT}` is written in UTF-16, `{"utf32": TEXT}` in UTF-32; `{"await": ID}` waits for the answer to a call of the agent, `{"until": PATH}` for a file; `"forget"` has the agent not know
the session any more."""

import json
import os
import sys
import threading
import time

out = threading.Lock()
sessions = set()
made = 0
answers = {}
answered = threading.Condition()


def write(data):
    with out:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def play(steps, names):
    for step in steps:
        if isinstance(step, (int, float)):
            time.sleep(step)
        elif step == "forget":
            sessions.discard(names["SESSION"])
        elif isinstance(step, dict) and "until" in step:
            while not os.path.exists(step["until"]):
                time.sleep(0.02)
        elif isinstance(step, dict) and ("utf16" in step or "utf32" in step):
            (name, text), = step.items()
            write(text.replace("@ID", names["ID"]).encode(name))
        elif isinstance(step, dict):
            with answered:
                answered.wait_for(lambda: step["await"] in answers, 60)
            outcome = answers.get(step["await"], {}).get("result", {}).get("outcome", {})
            names["ANSWER"] = outcome.get("optionId") or outcome.get("outcome", "none")
        else:
            for name, value in names.items():
                step = step.replace("@" + name, value)
            write(step.encode("latin-1"))


def prompt(message):
    session = message["params"]["sessionId"]
    if session not in sessions:
        error = {"code": -32002, "message": "Resource not found", "data": {"uri": session}}
        return send({"id": message["id"], "error": error})
    steps = json.loads(message["params"]["prompt"][0]["text"])
    play(steps, {"ID": message["id"], "SESSION": session})


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if message.get("type") == "task":
        steps = json.loads(message["text"])
        threading.Thread(target=play, args=(steps, {"ID": message["id"]}), daemon=True).start()
    elif message.get("type") == "answer":
        write(json.dumps({"type": "result", "id": message["id"], "message": message["text"]}).encode() + b"\n")
    elif method == "initialize":
        send({"id": message["id"], "result": {"protocolVersion": 1}})
    elif method == "session/new":
        made += 1
        sessions.add(f"s{made}")
        send({"id": message["id"], "result": {"sessionId": f"s{made}"}})
    elif method == "session/prompt":
        threading.Thread(target=prompt, args=(message,), daemon=True).start()
    elif "jsonrpc" in message and "id" in message:
        with answered:
            answers[message["id"]] = message
            answered.notify_all()
