"""What the contract has and this Stoker does not serve yet: the one place that says so."""

from __future__ import annotations

from collections.abc import Mapping

NOT_YET: Mapping[str, str] = {
    "c24": "online prediction",
}
"""Id of a case → why it cannot pass yet. Somewhere on its way such a case must be answered with 501 UNIMPLEMENTED."""
