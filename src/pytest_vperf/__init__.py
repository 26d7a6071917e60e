"""Performance claims about containers and virtual machines, as pytest assertions.

Importing this package costs nothing: every part is imported where it is used, because a pytest plugin is
loaded by every test run, also by those that make no claim.
"""

__version__ = "0.1.0"
