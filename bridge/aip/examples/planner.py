"""A planner for devices: it has the first tool run `uname -a`, and answers with what came of it.

The gateway asks it by standard input, one JSON object a round: anycast run --name planner -- python3 planner.py
"""

import json
import sys

question = json.load(sys.stdin)
if question["results"]:
    last = question["results"][-1]
    answer = {"status": "completed", "result": last.get("result") or last.get("error")}
else:
    tool = question["tools"][0]["tool_name"]
    answer = {"status": "continue", "actions": [{"tool_name": tool, "parameters": {"command": "uname -a"}}]}
print(json.dumps(answer))
