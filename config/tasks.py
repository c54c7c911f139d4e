"""Tasks that belong to no app."""


def beat() -> None:
    """Do nothing: that it was done shows that its queue is being worked on."""
