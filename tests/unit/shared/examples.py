"""How many examples a test draws that does not draw the usual number of them."""

from __future__ import annotations

import hypothesis

#: What hypothesis draws where nothing else is said.
USUAL = 100


def examples(number: int) -> int:
    """So many, and as many times more as the profile in use draws more than usual."""
    return number * hypothesis.settings().max_examples // USUAL
