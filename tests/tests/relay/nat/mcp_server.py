"""An MCP server on standard input and output with one tool, which gives its arguments back.

Usage: mcp_server.py FILE, a file with the input schema of the tool. Its text is written as it stands, in one line.
"""

import json
import sys

with open(sys.argv[1]) as file:
    SCHEMA = file.read().replace("\n", " ")


def answer(method, params):
    if method == "initialize":
        return json.dumps({
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "one tool", "version": "1"},
        })
    if method == "tools/list":
        return f'{{"tools": [{{"name": "book", "description": "Books a table", "inputSchema": {SCHEMA}}}]}}'
    if method == "tools/call":
        return json.dumps({"content": [{"type": "text", "text": json.dumps(params["arguments"])}]})
    return "{}"


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params"))
        print(f'{{"jsonrpc": "2.0", "id": {json.dumps(message["id"])}, "result": {result}}}', flush=True)
