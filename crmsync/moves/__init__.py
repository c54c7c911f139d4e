"""Every change of state of a message, a claim or a lane: one short transaction each, no network call inside."""
