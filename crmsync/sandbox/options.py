"""How a sandbox org is started: where it keeps its records, where it listens, how slow it is, who may log in."""

import argparse
from dataclasses import dataclass, field, fields
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Costs are milliseconds and, like the lock wait of 10 s, are multiplied by `scale`; `token_ttl` is in seconds.

    `noise` is the sigma of the lognormal factor on what a transaction costs. `facts`: see that module.
    """

    data: Path = Path("var/sandbox")
    host: str = "127.0.0.1"
    port: int = 8001
    scale: float = 1.0
    transaction_ms: float = 20.0
    row_ms: float = 1.0
    parent_ms: float = 0.0
    noise: float = 0.0
    seed: int = 0
    schema: Path | None = None
    facts: list[str] = field(default_factory=list)
    password: str = "sandbox"
    security_token: str = "token"
    jwt_key: Path | None = None
    client_id: str = "rota"
    client_secret: str = "sandbox"
    token_ttl: float = 7200.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command line, for `python -m crmsync.sandbox` and for the `sandbox_org` command alike."""
    start = Options()
    parser.add_argument(
        "--data", type=Path, default=start.data, metavar="DIR", help="directory of the org's records (%(default)s)"
    )
    parser.add_argument(
        "--host", default=start.host, help="address to listen on; the org has no other guard (%(default)s)"
    )
    parser.add_argument(
        "--port", type=_port, default=start.port, help="port to listen on, 0 for any free one (%(default)s)"
    )
    parser.add_argument(
        "--scale",
        type=_amount,
        default=start.scale,
        help="multiplies the lock wait of 10 s and all costs (%(default)s)",
    )
    parser.add_argument(
        "--transaction-ms",
        type=_amount,
        default=start.transaction_ms,
        help="what a transaction costs, in ms (%(default)s)",
    )
    parser.add_argument(
        "--row-ms", type=_amount, default=start.row_ms, help="what each of its rows costs, in ms (%(default)s)"
    )
    parser.add_argument(
        "--parent-ms",
        type=_amount,
        default=start.parent_ms,
        help="what each parent it locks costs, in ms (%(default)s)",
    )
    parser.add_argument("--noise", type=_amount, default=start.noise, help="how much costs vary (%(default)s)")
    parser.add_argument("--seed", type=int, default=start.seed, help="the chance in costs and orders (%(default)s)")
    parser.add_argument("--schema", type=Path, metavar="FILE", help="objects of the org, in place of its own")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="facts",
        metavar="NAME=VALUE",
        help="a setting of crmsync/sandbox/facts.py; may be repeated",
    )
    parser.add_argument("--password", default=start.password, help="password of every user (%(default)s)")
    parser.add_argument("--security-token", default=start.security_token, help="and their token (%(default)s)")
    parser.add_argument("--jwt-key", type=Path, metavar="FILE", help="public key or certificate of JWT logins (PEM)")
    parser.add_argument("--client-id", default=start.client_id, help="consumer key of client credentials (%(default)s)")
    parser.add_argument("--client-secret", default=start.client_secret, help="consumer secret (%(default)s)")
    parser.add_argument("--token-ttl", type=_amount, default=start.token_ttl, help="life of a token in s (%(default)s)")


def from_arguments(arguments: argparse.Namespace) -> Options:
    return Options(**{option.name: getattr(arguments, option.name) for option in fields(Options)})


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1
    if not 0 <= amount < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 up")
    return amount


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return int(text)
