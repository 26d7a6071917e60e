"""For the unit tests."""

import hypothesis

# Machines are shared and noisy: how long an example takes proves nothing.
hypothesis.settings.register_profile("vperf", deadline=None)
hypothesis.settings.load_profile("vperf")
