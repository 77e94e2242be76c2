"""Errors of the coordinator as codes. None of them is fatal to a client (pitfall 19)."""

from tierlog.coordinator.errors import CoordinatorGone, CoordinatorLoading
from tierlog.errors import TierlogError
from tierlog.wire.error_codes import ErrorCode


def code_of(error: TierlogError) -> ErrorCode:
    if isinstance(error, CoordinatorLoading):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if isinstance(error, CoordinatorGone):
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
