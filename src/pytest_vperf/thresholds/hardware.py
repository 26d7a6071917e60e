"""The profiles a run judges by: the one named with ``--hw``, or the one that fits this machine."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_vperf.thresholds.match import ANY, EVERYWHERE, GALLERY
from pytest_vperf.thresholds.profile import Hidden, stands_for
from pytest_vperf.thresholds.text_file import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_vperf.machine.fingerprint import Fingerprint
    from pytest_vperf.thresholds.profile import HardwareProfile, Threshold

AUTO = "auto"


class HardwareError(Exception):
    """``--hw`` names no profile, or two profiles fit this machine equally well."""


def no_profile(name: str, known: Sequence[str], hint: str = "") -> str:
    """The message about a profile that does not exist.

    Args:
        name: the requested profile.
        known: the existing ones.
        hint: replaces the suggestion of the most similar name.
    """
    there = ", ".join(known)
    return (
        f"there is no hardware profile {name!r}{hint or nearest(name, known)} (there are {there})"
    )


class UnknownClaim(LookupError):
    """No profile has a threshold for a claim: its name is wrong, or no file was read.

    Attributes:
        name: the claim.
        nearest: similar names, the most similar first.
    """

    def __init__(self, name: str, near: tuple[str, ...], folders: Iterable[str]) -> None:
        looked = ", ".join(folders)
        where = f"looked in {looked}" if looked else "there are no threshold files"
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"no threshold file has a claim {name!r}{hint} ({where})")
        self.name = name
        self.nearest = near


@dataclass(frozen=True)
class Selection:
    """The profiles of a run.

    Attributes:
        profiles: those used for judging, the most specific first, ``any`` and ``gallery`` last.
        named: whether the first was requested by name rather than found by the fingerprint.
        mismatches: how this machine differs from the named profile.
        remote: the readable name of the remote machine that targets run on; its fingerprint is not known here.
        emulated: whether the machine's processor is emulated.
        known: all profiles by name, including those not used for judging.
    """

    profiles: tuple[HardwareProfile, ...]
    named: bool = False
    mismatches: tuple[str, ...] = ()
    known: Mapping[str, HardwareProfile] = field(default_factory=dict)
    remote: str = ""
    emulated: bool = False

    def find(self, claim: str) -> Threshold | None:
        """The threshold of a claim: of the first profile that has its name, else of the first with a name that fits
        it, in which ``*`` stands for one word.

        Returns:
            ``None`` if only profiles for other hardware have one: the claim is not comparable here.

        Raises:
            UnknownClaim: no profile has one.
        """
        exact = [profile for profile in self.profiles if claim in profile.claims]
        for profile in exact or self.profiles:
            if threshold := profile.find(claim):
                return threshold
        if self.holders(claim):
            return None
        names = sorted({name for profile in self._all for name in profile.claims})
        near = tuple(difflib.get_close_matches(claim, names, n=3, cutoff=0.6))
        folders = dict.fromkeys(str(profile.path.parent) for profile in self._all)
        raise UnknownClaim(claim, near, folders)

    def holders(self, claim: str) -> tuple[str, ...]:
        """The names of all profiles that have a threshold for a claim, sorted."""
        return tuple(sorted(each.name for each in self._all if each.find(claim) is not None))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the profiles, for messages: of the gallery only if it was named."""
        return tuple(
            each.name for each in self.profiles if each.name != GALLERY or each is self.profiles[0]
        )

    def describe(self) -> str:
        """One line for the header of a run."""
        names = ", ".join(self.names) or "no profile"
        if self.remote and not self.named:
            return f"{names} (auto does not know {self.remote}: name its profile with --hw)"
        if not self.named:
            return f"{names} (by fingerprint)"
        if not self.mismatches:
            return f"{names} (named)"
        return f"{names} (named; this machine differs: {'; '.join(self.mismatches)})"

    @property
    def _all(self) -> tuple[HardwareProfile, ...]:
        return tuple({**self.known, **{each.name: each for each in self.profiles}}.values())


def hidden_in(profiles: Mapping[str, HardwareProfile]) -> list[Hidden]:
    """The thresholds that another one keeps from counting where it says something else.

    In each profile those of files in later folders; and where a run judges by a profile and by ``any``, those of
    either that the other one hides.
    """
    found = [each for profile in profiles.values() for each in profile.hidden]
    everywhere = profiles.get(ANY)
    for profile in profiles.values():
        if everywhere is None or profile is everywhere:
            continue
        for name, own in profile.claims.items():
            for common, other in everywhere.claims.items():
                if common == name:
                    found.append(Hidden(other, own))
                elif "*" in name and "*" not in common and stands_for(name, common):
                    if common not in profile.claims:
                        found.append(Hidden(own, other))
                elif "*" in common and "*" not in name and stands_for(common, name):
                    found.append(Hidden(other, own))
    return [
        each
        for each in found
        # One without a figure is no loss.
        if not each.threshold.criterion.reason and _asserts(each.threshold) != _asserts(each.by)
    ]


def _asserts(threshold: Threshold) -> tuple[object, ...]:
    settings = {key: setting.value for key, setting in threshold.judge.items()}
    return threshold.criterion, settings


def select(
    profiles: Mapping[str, HardwareProfile],
    hw: str,
    fingerprint: Fingerprint,
    *,
    remote: str = "",
) -> Selection:
    """Choose the profiles of a run.

    Args:
        profiles: all existing ones, by name.
        hw: a name, or ``auto`` for the profile that fits the machine by the most conditions. ``any`` and ``gallery``
            are always added.
        fingerprint: the machine.
        remote: the remote machine that targets run on; ``fingerprint`` is then not its own, and is not matched.

    Raises:
        HardwareError: there is no such profile, or ``auto`` finds two that fit equally well.
    """
    everywhere = tuple(profiles[name] for name in EVERYWHERE if name in profiles)
    emulated = fingerprint.emulated and not remote
    if hw == AUTO:
        best = () if remote else _fitting(profiles, fingerprint)
        return Selection(best + everywhere, known=profiles, remote=remote, emulated=emulated)
    if hw not in profiles:
        raise HardwareError(no_profile(hw, [AUTO, *sorted(profiles)]))
    chosen = profiles[hw]
    return Selection(
        (chosen, *(each for each in everywhere if each.name != hw)),
        named=True,
        mismatches=() if remote else chosen.match.mismatches(fingerprint),
        known=profiles,
        remote=remote,
        emulated=emulated,
    )


def _fitting(
    profiles: Mapping[str, HardwareProfile], fingerprint: Fingerprint
) -> tuple[HardwareProfile, ...]:
    fitting = [
        profile
        for profile in profiles.values()
        if profile.name not in EVERYWHERE and not profile.match.mismatches(fingerprint)
    ]
    most = max((profile.match.size for profile in fitting), default=0)
    best = sorted(each.name for each in fitting if each.match.size == most)
    if len(best) > 1:
        raise HardwareError(
            f"the profiles {' and '.join(best)} fit this machine equally well, by {most} "
            f"condition{'' if most == 1 else 's'} each: name one of them, e.g. --hw={best[0]}"
        )
    return tuple(profiles[name] for name in best)
