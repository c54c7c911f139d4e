"""Take back what dead workers hold, and clear away lanes and claims that nobody needs."""

import logging
from dataclasses import asdict, dataclass

from crmsync.moves.lanes import prune_lanes
from crmsync.moves.pruning import prune_empty_piles
from crmsync.moves.reap import prune_claims, reap_next

log = logging.getLogger(__name__)

IDLE_LANE_S = 600
OLD_CLAIM_S = 86_400
MOST_CLAIMS = 200
MOST_PRUNED = 20_000  # a mass update leaves a lane for each of its rows


@dataclass
class Harvest:
    """What one run of the reaper found."""

    claims: int = 0
    begun: int = 0
    put_back: int = 0
    dead: int = 0
    lanes_pruned: int = 0
    claims_pruned: int = 0
    piles_pruned: int = 0
    orphans_aborted: int = 0

    def as_counts(self) -> dict[str, int]:
        return asdict(self)


def reap() -> Harvest:
    """One bounded run. Call outside a transaction."""
    found = Harvest()
    for _ in range(MOST_CLAIMS):
        reaped = reap_next()
        if reaped is None:
            break
        log.warning(
            "claim expired worker=%s begun=%s put_back=%s dead=%s token=%s",
            reaped.worker, reaped.begun, reaped.put_back, reaped.dead, reaped.token,
        )  # fmt: skip
        found.claims += 1
        found.begun += reaped.begun
        found.put_back += reaped.put_back
        found.dead += reaped.dead
    found.lanes_pruned = prune_lanes(idle_s=IDLE_LANE_S, most=MOST_PRUNED)
    found.piles_pruned = prune_empty_piles(idle_s=IDLE_LANE_S, most=MOST_PRUNED)
    found.claims_pruned = prune_claims(older_s=OLD_CLAIM_S, most=MOST_PRUNED)
    return found
