"""What all tests share."""

import asyncio

from hypothesis import settings

# Whoever asks for "the" loop of this thread is told that there is none. Otherwise pytest-asyncio
# has one made, which nobody closes, and the collector complains in whatever test runs then.
asyncio.set_event_loop(None)

# No deadline for an example: on a busy machine it would measure the neighbours.
settings.register_profile("tierlog", deadline=None)
settings.load_profile("tierlog")

pytest_plugins = ["tests.stores.fixtures"]
