"""What all tests share."""

from hypothesis import settings

# No deadline for an example: on a busy machine it would measure the neighbours.
settings.register_profile("tierlog", deadline=None)
settings.load_profile("tierlog")

pytest_plugins = ["tests.stores.fixtures"]
