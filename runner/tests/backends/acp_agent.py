"""An agent of the Agent Client Protocol on standard input and output, in the standard library alone. The words of a prompt
say what it does. Arguments: `load` offers session/load and remembers sessions in the file that follows."""

import json
import os
import sys
import threading

out = threading.Lock()
waiting = {}
cancels = {}
sessions = {}
memory = sys.argv[2] if sys.argv[1:2] == ["load"] else None


def send(message):
    with out:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method, params):
    call = f"agent-{len(waiting)}"
    waiting[call] = (threading.Event(), {})
    send({"id": call, "method": method, "params": params})
    done, answer = waiting[call]
    done.wait(60)
    return answer


def update(session, what, **fields):
    send({"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": what, **fields}}})


def say(session, text):
    update(session, "agent_message_chunk", content={"type": "text", "text": text})


def call(session, title, kind="other", status="in_progress"):
    update(session, "tool_call", toolCallId="c1", title=title, kind=kind, status=status)


def permission(session, kind):
    options = [
        {"optionId": f"the-{kind}", "name": kind.replace("_", " "), "kind": kind}
        for kind in ["allow_always", "allow_once", "reject_once"]
    ]
    tool = {"toolCallId": "c1", "title": f"Do {kind}", "kind": kind}
    answer = ask("session/request_permission", {"sessionId": session, "toolCall": tool, "options": options})
    outcome = answer["result"]["outcome"]
    return outcome.get("optionId", outcome["outcome"])


def terminal(session, command):
    made = ask("terminal/create", {"sessionId": session, "command": command})
    if "error" in made:
        return f"refused: {made['error'].get('data')}"
    which = {"sessionId": session, "terminalId": made["result"]["terminalId"]}
    code = ask("terminal/wait_for_exit", which)["result"].get("exitCode")
    output = ask("terminal/output", which)["result"]["output"]
    ask("terminal/release", which)
    return f"{code} {output.strip()}"


def turn(session, text, blocks):
    word, _, rest = text.partition(" ")
    history = sessions[session]
    history.append(text)
    if memory:
        with open(memory, "w") as file:
            json.dump(sessions, file)
    if word == "say":
        for piece in rest.split(" "):
            say(session, piece + " ")
    elif word == "paragraphs":
        say(session, "one")
        call(session, "Look around", status="completed")
        say(session, "two")
    elif word == "history":
        say(session, "|".join(history))
    elif word == "blocks":
        say(session, json.dumps(blocks))
    elif word == "permit":
        say(session, permission(session, rest))
    elif word == "twice":
        say(session, permission(session, "edit") + " " + permission(session, "execute"))
    elif word == "read":
        answer = ask("fs/read_text_file", {"sessionId": session, "path": rest})
        say(session, answer.get("result", {}).get("content", f"refused: {answer.get('error', {}).get('data')}"))
    elif word == "write":
        answer = ask("fs/write_text_file", {"sessionId": session, "path": rest, "content": "written"})
        say(session, "error" if "error" in answer else "ok")
    elif word == "run":
        say(session, terminal(session, rest))
    elif word == "work":
        call(session, "Think hard", kind="think")
        stopped = cancels[session].wait(60)
        with open(rest, "w") as file:
            file.write("cancelled" if stopped else "late")
        return "cancelled"
    elif word == "flood":
        for _ in range(int(rest)):
            say(session, "x" * 100_000)
    elif word == "die":
        say(session, "last words")
        os._exit(9)
    elif word == "refuse":
        return "refusal"
    return "end_turn"


def answer(method, params):
    if method == "initialize":
        takes = {"image": False, "audio": False, "embeddedContext": True}
        return {
            "protocolVersion": 1,
            "agentCapabilities": {"loadSession": memory is not None, "promptCapabilities": takes},
            "agentInfo": {"name": "stub", "version": "1"},
        }
    if method == "session/new":
        session = f"s{os.getpid()}-{len(sessions)}"
        sessions[session] = []
        return {"sessionId": session}
    if method == "session/load":
        with open(memory) as file:
            known = json.load(file)
        session = params["sessionId"]
        sessions[session] = known[session]
        for text in known[session]:
            update(session, "user_message_chunk", content={"type": "text", "text": text})
            say(session, "said before ")
        return {}
    if method == "session/prompt":
        session, blocks = params["sessionId"], params["prompt"]
        cancels[session] = threading.Event()
        return {"stopReason": turn(session, blocks[0].get("text", ""), blocks)}
    raise ValueError(method)


def handle(message):
    try:
        send({"id": message["id"], "result": answer(message["method"], message.get("params") or {})})
    except Exception as error:
        send({"id": message["id"], "error": {"code": -32603, "message": "failed", "data": repr(error)}})


if "PIDS" in os.environ:
    print(os.getpid(), file=open(os.environ["PIDS"], "a"), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "session/cancel":
        session = message["params"]["sessionId"]
        if session in cancels:
            cancels[session].set()
    elif "method" in message and "id" in message:
        threading.Thread(target=handle, args=(message,), daemon=True).start()
    elif "id" in message and message["id"] in waiting:
        done, kept = waiting[message["id"]]
        kept.update(message)
        done.set()
