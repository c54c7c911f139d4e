"""Single changes of state, each inside one short transaction, each saying what it needs to be true."""
