"""`python -m crmsync.sandbox`: start a local Salesforce org."""

import argparse
import sys

from crmsync.sandbox import options, server


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m crmsync.sandbox", description=__doc__)
    options.add_arguments(parser)
    return server.serve(options.from_arguments(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
