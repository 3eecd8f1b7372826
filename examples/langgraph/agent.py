"""A LangGraph graph as an agent: it sorts what customers write, without a model.

Usage: python agent.py, beside a daemon that runs (`anycast up`).
"""

import asyncio
from typing import TypedDict

from agentanycast import AgentCard, Skill
from agentanycast.adapters.langgraph import serve_graph
from langgraph.graph import END, START, StateGraph

DESKS = {
    "billing": ["bill", "charged", "invoice", "pay", "refund"],
    "support": ["broken", "crash", "error", "fails"],
}


class Ticket(TypedDict, total=False):
    input: str
    desk: str
    output: str


def sort(ticket: Ticket) -> Ticket:
    text = ticket["input"].lower()
    hits = {desk: sum(word in text for word in words) for desk, words in DESKS.items()}
    desk = max(hits, key=hits.get)
    return {"desk": desk if hits[desk] else "front"}


def hand_over(ticket: Ticket) -> Ticket:
    return {"output": f"goes to {ticket['desk']}"}


def ask_back(ticket: Ticket) -> Ticket:
    return {"output": "goes to the front desk: please say more"}


graph = StateGraph(Ticket)
graph.add_node("sort", sort)
graph.add_node("hand_over", hand_over)
graph.add_node("ask_back", ask_back)
graph.add_edge(START, "sort")
graph.add_conditional_edges("sort", lambda ticket: "ask_back" if ticket["desk"] == "front" else "hand_over")
graph.add_edge("hand_over", END)
graph.add_edge("ask_back", END)

card = AgentCard(
    name="Sorter",
    description="Says which desk a customer's message goes to",
    skills=[Skill(id="sort", description="Sorts a customer's message")],
)

try:
    # The adapter puts the text of a task into `input` and answers with `output`.
    asyncio.run(serve_graph(graph.compile(), card=card))
except KeyboardInterrupt:
    pass
