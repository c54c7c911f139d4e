"""One line of the doctor's report."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How much a finding matters: a problem stops writes, a warning may refuse or delay some of them."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"  # the org did not answer the question


@dataclass(frozen=True, slots=True)
class Finding:
    """`fix` says what to do in the org or in the settings; empty where nothing needs doing."""

    step: str
    verdict: Verdict
    says: str
    fix: str = ""
