"""The tests of the published claims, in the installed package: ``pytest --pyargs pytest_vperf.published -m gallery``.

In the repository they are in ``tests/claims``; the wheel has them here.
"""
