"""Run an import in a process of its own, as a task or the command does, until it ends or the process is killed.

python -m tests.races.importer IMPORT [CHUNK]
"""

import sys

import django


def main() -> None:
    django.setup()
    from routing import imports
    from routing.errors import ImportTaken
    from routing.models import Import

    import_id = int(sys.argv[1])
    imports.CHUNK = int(sys.argv[2]) if len(sys.argv) > 2 else imports.CHUNK
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        imports.run(import_id=import_id, budget_s=600, say=lambda row: print(row.position, flush=True))
    except ImportTaken:
        print("taken", flush=True)
    print(Import.objects.get(pk=import_id).status, flush=True)


if __name__ == "__main__":
    main()
