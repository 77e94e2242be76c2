"""Why a coordinator does not answer now. All of them are worth another try (pitfall 19)."""

from tierlog.errors import TierlogError


class CoordinatorError(TierlogError):
    """Root of this room."""


class CoordinatorLoading(CoordinatorError):
    """Its log is being applied."""

    def __init__(self) -> None:
        super().__init__("the coordinator is loading its state; ask again")


class CoordinatorGone(CoordinatorError):
    """It was closed."""

    def __init__(self) -> None:
        super().__init__("the coordinator stops")


class CoordinatorNotAvailable(CoordinatorError):
    """Its topic is not there, and cannot be made now."""
