"""What clients other than administrators hear when the metastore is in trouble."""

import pytest

from tests.broker.support import Served
from tierlog.broker.codes import code_of
from tierlog.broker.errors import Contended
from tierlog.metastore import (
    InvalidTxn,
    MetaStoreBroken,
    MetaStoreClosed,
    MetaStoreError,
    MetaStoreFull,
    MetaStoreUnavailable,
    SessionLost,
    TxnUncertain,
)
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.init_producer_id import InitProducerIdRequest
from tierlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

FAULTS = [MetaStoreUnavailable("away"), MetaStoreFull("no room"), TxnUncertain("no answer")]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_producer_is_asked_to_come_again_for_its_id(
    served: Served, fault: Exception
) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    served.metastore.fault = fault
    refused = await served.call(request, 4)
    assert (refused.error_code, refused.producer_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    served.metastore.fault = None
    assert (await served.call(request, 4)).error_code == 0


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_topic_that_cannot_be_created_now_is_told_as_without_a_leader(
    served: Served, fault: Exception
) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    served.metastore.fault = fault
    (refused,) = (await served.call(request, 9)).topics
    assert (refused.name, refused.error_code) == ("t", ErrorCode.LEADER_NOT_AVAILABLE)
    served.metastore.fault = None
    (made,) = (await served.call(request, 9)).topics
    assert made.error_code == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MetaStoreError("?"), ErrorCode.NOT_CONTROLLER),
        (MetaStoreUnavailable("away"), ErrorCode.NOT_CONTROLLER),
        (MetaStoreClosed("stopping"), ErrorCode.NOT_CONTROLLER),
        (SessionLost("over"), ErrorCode.NOT_CONTROLLER),
        (Contended("t"), ErrorCode.NOT_CONTROLLER),
        (MetaStoreFull("no room"), ErrorCode.KAFKA_STORAGE_ERROR),
        (MetaStoreBroken("fsync failed"), ErrorCode.KAFKA_STORAGE_ERROR),
        (TxnUncertain("no answer"), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_an_administrator_may_try_again(error: Exception, code: ErrorCode) -> None:
    assert code_of(error) == code
    assert code.retriable


def test_a_change_too_large_for_the_metastore_is_the_senders_mistake() -> None:
    assert code_of(InvalidTxn("too large")) == ErrorCode.INVALID_REQUEST
