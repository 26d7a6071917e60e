"""What the published claims ask of a machine, besides being of the right kind."""

from pathlib import Path

import pytest

from pytest_vperf import Unavailable


def pytest_collection_modifyitems(config, items):
    """A claim ends by its budget, not by a time limit for tests of another kind."""
    if config.pluginmanager.hasplugin("timeout"):
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.timeout(0))


@pytest.fixture
def boot_mode():
    """Make sure that a target was booted into the mode of the published run: ``normal`` or ``single_user``.

    Single-user mode is systemd's rescue.target, whose alias is runlevel 1 (systemd.special(7)).
    """

    def check(target, mode):
        # A guest's agent may answer before the boot has reached its target.
        target.run(["systemctl", "is-system-running", "--wait"], check=False, timeout=300)
        asked = target.run(["systemctl", "is-active", "rescue.target"], check=False, timeout=10)
        single = asked.text.strip() == "active"
        if single != (mode == "single_user"):
            what = "is in single-user mode" if single else "is not in single-user mode"
            raise Unavailable(
                f"the {target.name} {what}",
                remedy="systemctl default" if single else "systemctl rescue",
                target=target.name,
            )

    return check
