"""An MCP server on standard input and output, in the standard library alone: its tools do what tests of the runner need."""

import base64
import json
import os
import sys
import threading
import time

out = threading.Lock()
cancelled = {}
changed = threading.Event()
lists = 0
answers = {}
# How many lists of tools are empty at first, and whether they are refused; whether the second page or the handshake is
# refused as often.
warming_up = int(sys.argv[1]) if len(sys.argv) > 1 else 0
refuses = "refuse" in sys.argv
refuses_page = "page" in sys.argv
refuses_start = "start" in sys.argv


def send(message):
    with out:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def tool(name, properties, required, **more):
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": f"does {name}", "inputSchema": schema, **more}


NUMBER, TEXT = {"type": "number"}, {"type": "string"}
SUM = {"type": "object", "properties": {"sum": NUMBER}, "required": ["sum"]}
PAGES = [
    [
        tool("add", {"b": NUMBER, "a": NUMBER}, ["b", "a"], outputSchema=SUM),
        tool("greet", {"name": TEXT, "greeting": TEXT}, ["name"]),
    ],
    [
        tool("picture", {}, []),
        tool("slow", {"file": TEXT}, ["file"]),
        tool("fail", {}, []),
        tool("change", {}, []),
        tool("exit", {}, []),
        tool("large", {"bytes": NUMBER}, ["bytes"]),
        tool("ask", {}, []),
        tool("broken", {}, []),
        tool("lists", {}, []),
        {"name": "bare"},
    ],
]


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def slow(call, params):
    token = params["_meta"]["progressToken"]
    for step in range(3):
        progress = {"progressToken": token, "progress": step, "total": 3}
        if step == 0:
            progress["message"] = "begun"
        send({"method": "notifications/progress", "params": progress})
    if cancelled[call].wait(30):
        with open(params["arguments"]["file"], "w") as file:
            file.write("cancelled")
        return None
    return text("nobody cancelled")


def ask(call):
    schema = {"type": "object", "properties": {"city": TEXT}, "required": ["city"]}
    asked = {"message": "Which city?", "requestedSchema": schema}
    answers[f"ask-{call}"] = threading.Event()
    send({"id": f"ask-{call}", "method": "elicitation/create", "params": asked})
    answers[f"ask-{call}"].wait(60)
    return text(json.dumps(answers[f"ask-{call}"].result))


def run(call, params):
    name, arguments = params["name"], params.get("arguments", {})
    if name == "ask":
        return ask(call)
    if name == "broken":
        with out:
            print('{"jsonrpc": "2.0", "id": %d, "result": NaN}' % call, flush=True)
        return None
    if name == "lists":
        return text(str(lists))
    if name == "bare" and arguments.get("unended"):
        message = {"jsonrpc": "2.0", "id": call, "result": text("unended")}
        with out:
            shown = json.dumps(message)
            coloured = shown.replace('"jsonrpc"', '\x1b[34m"jsonrpc"\x1b[0m')
            sys.stdout.write(arguments["unended"].replace("@", shown).replace("#", coloured))
            sys.stdout.flush()
        return None
    if name == "bare":
        return {"content": [{"type": "hologram"}, {"type": "text", "text": "bare"}]}
    if name == "add":
        total = {"sum": arguments["a"] + arguments["b"]}
        return text(json.dumps(total), structuredContent=total)
    if name == "greet":
        return text(f"{arguments.get('greeting', 'Hello')}, {arguments['name']}!")
    if name == "picture":
        image = base64.b64encode(b"\x89PNG").decode()
        return {"content": [{"type": "image", "data": image, "mimeType": "image/png"}]}
    if name == "slow":
        return slow(call, params)
    if name == "fail":
        return text("it is closed on Sundays", isError=True)
    if name == "change":
        changed.set()
        for _ in range(600):
            send({"method": "notifications/tools/list_changed"})
        return text("changed")
    if name == "large":
        return text("x" * int(arguments["bytes"]))
    if name == "exit":
        print("leaving now", file=sys.stderr, flush=True)
        time.sleep(0.2)
        os._exit(7)
    if name == "new":
        return text("I am new")
    return text("no such tool", isError=True)


def answer(call, method, params):
    global lists, warming_up
    if method == "initialize":
        if refuses_start and warming_up > 0:
            warming_up -= 1
            raise RuntimeError("not ready")
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "stub", "version": "1"},
        }
    if method == "tools/list":
        page = int((params or {}).get("cursor") or 0)
        lists += page == 0
        if warming_up > 0 and (page > 0 or not refuses_page):
            warming_up -= 1
            if refuses or refuses_page:
                raise RuntimeError("not ready")
            return {"tools": []}
        tools = list(PAGES[page])
        if page == 0 and changed.is_set():
            tools.append(tool("new", {}, []))
        more = {"nextCursor": str(page + 1)} if page + 1 < len(PAGES) else {}
        return {"tools": tools, **more}
    if method == "tools/call":
        return run(call, params)
    return {}


def handle(message):
    call = message["id"]
    try:
        result = answer(call, message["method"], message.get("params") or {})
    except Exception as error:
        send({"id": call, "error": {"code": -32603, "message": repr(error)}})
        return
    if result is not None:
        send({"id": call, "result": result})


print("the stub has started", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "notifications/cancelled":
        cancelled[message["params"]["requestId"]].set()
    elif message.get("id") in answers:
        answers[message["id"]].result = message["result"]
        answers[message["id"]].set()
    elif "id" in message and "method" in message:
        cancelled[message["id"]] = threading.Event()
        threading.Thread(target=handle, args=(message,), daemon=True).start()
