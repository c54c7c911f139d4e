"""One mail: what it says, whom it may address, and how it is handed to the relay."""
