"""Run a manage.py command in this process, and say how much memory the process had at most, in MB, in the last line."""

import re
import sys
from pathlib import Path

import django
from django.core.management import call_command

if __name__ == "__main__":
    django.setup()
    call_command(*sys.argv[1:])
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    print(int(found[1]) // 1024)
