"""The programs of AgentAnycast. They are one program, which does what the name says that it is called by."""

import os
import sys
from typing import NoReturn

#: Where the program is.
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "anycast")


def _become(name: str) -> NoReturn:
    """Replaces this process, so that signals and standard streams are the program's own."""
    try:
        os.execv(PROGRAM, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {PROGRAM} cannot be run: {error.strerror}; install agentanycastd again")


def anycast() -> NoReturn:
    """The command."""
    _become("anycast")


def agentanycastd() -> NoReturn:
    """The node daemon."""
    _become("agentanycastd")


def agentanycast_relay() -> NoReturn:
    """The relay."""
    _become("agentanycast-relay")


def agentanycast_bridge() -> NoReturn:
    """The HTTP bridge."""
    _become("agentanycast-bridge")
