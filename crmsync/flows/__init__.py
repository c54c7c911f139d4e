"""Moves and network calls in turn: what a worker does with the outbox."""
