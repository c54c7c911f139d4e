"""What nobody could find out about the real Salesforce, and the org's limits: settings, to be changed while it runs.

Each comment gives the source, or says that there is none: then tests run the org both ways. Durations are multiplied by
the org's `scale`.
"""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_args

from crmsync.sandbox.schema import Moment


class BadSetting(ValueError):
    """A setting of that name does not exist, or does not take that value."""


@dataclass
class Facts:
    """The settings in force. `change` sets some of them, `restore` goes back to how the org was started."""

    # HTTP status of a REST call whose row is locked. No source; 400 is assumed.
    lock_error_status: int = 400
    # Whether a lock error names the record. Reports show both.
    lock_error_names_record: bool = True
    # Lock rules of single relations in place of the schema's: {"Contact.AccountId": {"update": "if_changed"}}. Sources
    # differ on updates that keep the parent.
    relation_locks: dict[str, dict[str, str]] = field(default_factory=dict)
    # Whether updating a detail record locks its master. "Record-Level Locking" says so, its cheat sheet only for moves.
    detail_update_locks_master: bool = True
    # Whether a change of owner takes the org-wide lock on group membership. Documented for portal account owners only.
    owner_change_locks_groups: bool = False
    # Without allOrNone the rows that were left over are saved again, triggers and all, up to this many passes. No
    # source.
    partial_save_passes: int = 3
    # Whether an upsert by the external id of a deleted record makes a new one, or is refused. No source.
    upsert_revives_deleted: bool = True

    # Bulk API 1.0 and 2.0: batches that are worked on at once. Undocumented; an org gets what the pod can spare.
    bulk1_workers: int = 4
    bulk2_workers: int = 4
    # Bulk API guide v66: more lock failures than this in a batch put the rest of it back into the queue.
    bulk_lock_failures_most: int = 100
    # Bulk API guide v66: how often a batch goes back before it fails. Older guides say 10 for 2.0 too.
    bulk1_retries_most: int = 10
    bulk2_retries_most: int = 20
    # Bulk API guide v66: a batch of 1.0 may take 10 minutes, of 2.0 5 minutes; older guides say 10 for both. 0 is none.
    bulk1_batch_s: float = 600.0
    bulk2_batch_s: float = 300.0
    # Seconds before a batch that went back is taken up again. No source.
    bulk_requeue_s: float = 5.0
    # Chunks of one 2.0 batch that are saved at once. Undocumented; one after another is reported for 1.0.
    bulk2_chunks_at_once: int = 1
    # Whether the type of a 2.0 result names its charset. Reports show both.
    bulk2_results_name_charset: bool = True
    # Whether a 2.0 result without rows is 204 without a body instead of a header line. Reports show both.
    bulk2_empty_result_is_204: bool = False
    # Whether result rows come in another order than they were sent. The guide promises none.
    bulk2_results_shuffled: bool = True
    # Codes of refused 2.0 calls: INVALIDJOBSTATE, as seen live, or InvalidJobState, as in the guide.
    bulk2_codes_in_capitals: bool = True
    # Whether the result of a failed 1.0 batch lists what was saved, or is refused with InvalidBatch. Reports show both.
    bulk1_failed_batch_has_results: bool = False

    # Limits; 0 is none. REST: calls a day; calls at once that have run for 20 s; records; logins an hour.
    daily_calls_most: int = 5_000_000
    long_calls_most: int = 25
    long_call_s: float = 20.0
    records_most: int = 0
    logins_an_hour_most: int = 0
    # Bulk API guide v66: batches of 1.0 and 2.0 together in 24 hours.
    bulk_batches_most: int = 15_000

    def __post_init__(self) -> None:
        self._started_with = asdict(self)

    def change(self, wanted: dict[str, Any]) -> None:
        """Set these. Raises BadSetting, and then none is set."""
        for name, value in wanted.items():
            start = self._started_with.get(name)
            if start is None:
                raise BadSetting(f"no setting is called {name}")
            if isinstance(start, dict):
                _check_locks(name, value)
            elif isinstance(start, bool) != isinstance(value, bool) or not isinstance(value, (bool, int, float)):
                raise BadSetting(f"{name} is {'true or false' if isinstance(start, bool) else 'a number'}")
            elif value < 0 or (isinstance(start, int) and not isinstance(value, int)):
                raise BadSetting(f"{name} is a {'whole ' if isinstance(start, int) else ''}number from 0 up")
        for name, value in wanted.items():
            setattr(self, name, value)

    def restore(self) -> None:
        for name, value in self._started_with.items():
            setattr(self, name, value)

    def shown(self) -> dict[str, Any]:
        return asdict(self)


def started_with(given: list[str]) -> Facts:
    """The settings of a new org from texts like `bulk2_workers=8`, values as in JSON. Raises BadSetting."""
    wanted = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            wanted[name] = json.loads(value)
        except ValueError:
            raise BadSetting(f"{text}: the value is no JSON") from None
    facts = Facts()
    facts.change(wanted)
    return Facts(**{each.name: getattr(facts, each.name) for each in fields(Facts)})


def _check_locks(name: str, value: Any) -> None:
    good = isinstance(value, dict) and all(
        isinstance(moments, dict)
        and set(moments) <= {"insert", "update", "delete"}
        and set(moments.values()) <= set(get_args(Moment))
        for moments in value.values()
    )
    if not good:
        raise BadSetting(f'{name} looks like {{"Contact.AccountId": {{"update": "never"}}}}')
