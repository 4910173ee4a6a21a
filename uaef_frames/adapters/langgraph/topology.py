"""Who speaks: agents, middleware and tool nodes, and whether a session has one agent or several.

It must not know how messages are read or told apart.

An agent that another one calls as a tool counts where its messages are in the stream
(`subgraphs=True`); where they are not, there is one agent with a tool.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uaef_frames.adapters.langgraph.emissions import Emission
    from uaef_frames.adapters.langgraph.messages import Msg

SINGLE = "single"
MULTI = "multi"

HOOKS = (".before_agent", ".before_model", ".after_model", ".after_agent")
HOOK_NODES = frozenset({"pre_model_hook", "post_model_hook"})
"""How the nodes of middleware end, and what those of the older agents are called."""

_GENERIC_NODES = frozenset({"agent", "model"})
"""What every prebuilt agent calls its model node: says nothing about which agent it is."""


@dataclass(slots=True)
class Evidence:
    """What one turn shows about topology."""

    turn_id: int
    agents: list[str]
    nodes: list[str]
    handoffs: int = 0
    swarm: bool = False

    @property
    def is_multi(self) -> bool:
        """Several agents in this very turn."""
        return len(self.agents) > 1 or self.handoffs > 0 or self.swarm

    def describe(self) -> str:
        """For an error: the turn and what it shows."""
        shown = ", ".join(self.agents) or "no agent"
        handed = f" with {self.handoffs} handoff(s)" if self.handoffs else ""
        kind = MULTI if self.is_multi else SINGLE
        return f"turn {self.turn_id} ({kind}-agent: {shown}{handed})"


@dataclass(slots=True)
class Names:
    """Who an emission's messages belong to; `allowed` are the agents a user named."""

    allowed: frozenset[str] | None = None
    _by_node: dict[tuple[tuple[str, ...], str], str] = field(
        default_factory=dict[tuple[tuple[str, ...], str], str]
    )

    def of(self, msg: Msg, emission: Emission) -> str | None:
        """The agent that wrote a message: the first that exists of the message's name, the name in
        the metadata, the node of the innermost namespace that is no tools node, and the node's key.
        """
        node, ns = emission.node, emission.ns
        if self.allowed is None and msg.name is not None:
            if node in _GENERIC_NODES:
                self._by_node[ns, node] = msg.name
            return msg.name
        if is_middleware(node):
            return msg.name if self.allowed is None or msg.name in self.allowed else None
        inner = ns[-1].partition(":")[0] if ns else None
        if inner is not None and is_tools_node(inner):
            inner = None
        if self.allowed is not None:
            named = (msg.name, emission.agent, inner, node)
            return next((n for n in named if n is not None and n in self.allowed), None)
        # Middleware may answer in place of a named model, without the name.
        known = None
        if self._by_node and node in _GENERIC_NODES:
            known = self._by_node.get((ns, node))
        return emission.agent or known or inner or node


def is_middleware(node: str | None) -> bool:
    """Whether a node is a hook around a model and therefore no agent."""
    return node is not None and (node.endswith(HOOKS) or node in HOOK_NODES)


def is_tools_node(name: str) -> bool:
    """Whether a node's name says that it runs tools; agents called by a tool stand inside it."""
    return name in ("tools", "tool_node", "tool") or name.endswith(("_tools", "_tool_node"))


def mixing(turns: Sequence[Evidence]) -> tuple[list[Evidence], list[Evidence]] | None:
    """The single-agent and the multi-agent turns of a session that cannot be one system.

    A turn with one agent belongs to a multi-agent session when it shares an agent or a top-level
    node with any of its multi-agent turns: a supervisor that answers itself, a swarm that stays
    with the agent it came to, a router that sends all to one. A turn without agents says nothing.
    """
    multi = [t for t in turns if t.is_multi]
    if not multi:
        return None
    agents = {a for t in multi for a in t.agents}
    nodes = {n for t in multi for n in t.nodes}
    strangers = [
        t
        for t in turns
        if not t.is_multi and t.agents and agents.isdisjoint(t.agents) and nodes.isdisjoint(t.nodes)
    ]
    return (strangers, multi) if strangers else None


def topology_of(turns: Sequence[Evidence]) -> str:
    """Multi if any turn shows it, or if agents change between turns."""
    agents = {a for t in turns for a in t.agents}
    return MULTI if len(agents) > 1 or any(t.is_multi for t in turns) else SINGLE


def mixing_reason(strangers: Sequence[Evidence], multi: Sequence[Evidence]) -> str:
    """The error text for a session that mixes topologies."""
    told = "; ".join(t.describe() for t in [*strangers[:3], *multi[:3]])
    return (
        f"single-agent and multi-agent turns are mixed in one session: {told}. They share no agent"
        " and no top-level node. If they come from one system (one that routes by conditional"
        " edges, for instance), say so with topology='multi' or 'single', or name the agents with"
        " agents=[...], on the adapter or in the payload; else give the turns different session_ids"
    )
