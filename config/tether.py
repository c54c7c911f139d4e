"""Tie a process to its parent's life: when what started it is killed, however rudely, it does not run on alone.

`python -m config.tether PARENT COMMAND ...` becomes the command, which gets SIGTERM at its parent's death and may
finish what it holds. `die_with` ties the calling process. Linux: the kernel sends the signal (PR_SET_PDEATHSIG).
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int, signum: signal.Signals) -> None:
    """Have the kernel send this process `signum` when its parent, known by pid, dies; at once if it is dead."""
    if libc.prctl(PR_SET_PDEATHSIG, int(signum), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it died before we asked
        os.kill(os.getpid(), signum)


def tether_forks() -> None:
    """Have every process forked from this one, and from those, killed at once when its own parent dies."""
    parents = [0]

    def remember() -> None:
        parents[0] = os.getpid()

    os.register_at_fork(before=remember, after_in_child=lambda: die_with(parents[0], signal.SIGKILL))


if __name__ == "__main__":
    die_with(int(sys.argv[1]), signal.SIGTERM)
    os.execvp(sys.argv[2], sys.argv[2:])
