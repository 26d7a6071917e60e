"""The number of examples of tests that do not draw the usual number."""

from __future__ import annotations

import hypothesis

#: hypothesis's default.
USUAL = 100


def examples(number: int) -> int:
    """This number, scaled as the profile in use scales the default."""
    return number * hypothesis.settings().max_examples // USUAL
