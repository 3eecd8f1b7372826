"""`python -m agentanycastd` is `anycast`."""

from agentanycastd import anycast

anycast()
