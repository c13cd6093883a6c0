"""A plan's folder says which claims it has, and every worker on it reads that, however it was started."""

from __future__ import annotations

from pathlib import Path

from headtohead.errors import UsageError
from headtohead.execution.claims.folder_claims import FolderClaims
from headtohead.execution.claims.run_claims import RunClaims
from headtohead.files import leases
from headtohead.files.atomic_write import replace_text
from headtohead.files.leases import Leases
from headtohead.files.safe_read import read_text

FILE = "claims"
"""The file in the folder of a plan; where it is missing, claims are leases in that folder."""
_FIRST, _MATCHING = ".1", "matching"
"""Leases of runs end with the former; one that begins with the latter is of the matching of arms."""


def claims_of(folder: Path) -> RunClaims:
    """Return the claims to the runs of a plan, by its folder."""
    if (address := _chosen(folder)) is None:
        return FolderClaims(Leases(folder / "leases"))
    from headtohead.execution.claims.postgres_claims import PostgresClaims

    return PostgresClaims(address, str(folder.resolve()))


def choose_claims(folder: Path, address: str | None) -> None:
    """Write down for all workers of a plan where its claims are; None leaves what was chosen before."""
    if address is None:
        return
    from headtohead.execution.claims.postgres_claims import check_address

    check_address(address)
    chosen = _chosen(folder)
    if chosen == address:
        return
    begun = any(
        name.endswith(_FIRST) and not name.startswith(_MATCHING) for name in leases.system.names(folder / "leases")
    )
    if chosen is not None or begun:
        raise UsageError(
            f"launcher.claims={address} is refused: claims to the runs in {folder} are "
            f"{f'in {chosen}' if chosen else 'leases in its folder'}, and workers may rest on them: once none is at "
            f"work, remove {folder / FILE if chosen else folder / 'leases'}, and start again"
        )
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / FILE, f"{address}\n")


def _chosen(folder: Path) -> str | None:
    try:
        return read_text(folder / FILE).strip() or None
    except FileNotFoundError:
        return None
