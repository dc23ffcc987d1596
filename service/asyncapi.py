"""The streams of results as AsyncAPI describes them."""

from typing import Any

__all__ = ["RESULT", "document"]

_ID = {"type": ["string", "integer"]}

#: A message of results.
RESULT: dict[str, Any] = {
    "type": "object",
    "required": ["cursor", "query", "ts"],
    "properties": {
        "cursor": {"type": "string", "description": "where it is; a client that comes back with it gets what follows"},
        "query": _ID,
        "ts": {"type": "integer"},
        "object": _ID,
        "detect": {"enum": ["enter", "exit", "inside"]},
        "objects": {"type": "array"},
        "terms": {"type": "array"},
    },
}


def document(version: str) -> dict[str, Any]:
    """Return the document."""
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Waterspout results", "version": version},
        "channels": {
            "results": {
                "address": "/results",
                "description": "over a WebSocket, or as server-sent events whose id is the cursor",
                "messages": {
                    "result": {"payload": RESULT},
                    "dropped": {"payload": {"type": "object", "properties": {"dropped": {"type": "integer"}}}},
                    "error": {"payload": {"type": "object", "properties": {"error": {"type": "object"}}}},
                },
                "bindings": {
                    "ws": {
                        "query": {
                            "type": "object",
                            "properties": {
                                "query": {"type": "array", "items": {"type": "string"}},
                                "cursor": {"type": "string"},
                                "policy": {"enum": ["block", "drop-oldest", "latest-only", "disconnect"]},
                                "queue": {"type": "integer"},
                                "lines": {"enum": ["one", "many"]},
                            },
                        }
                    }
                },
            }
        },
        "operations": {"receive": {"action": "send", "channel": {"$ref": "#/channels/results"}}},
    }
