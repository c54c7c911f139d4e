"""Several moves and what lies between them: the network, rendering, the passing of time."""
