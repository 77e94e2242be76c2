"""How the recorder answers admin requests: topics come and go, settings stay."""

from tests.compat.world import NODE_ID, Partition, World
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages import create_partitions as partitions
from tierlog.wire.messages import create_topics as creates
from tierlog.wire.messages import delete_groups as group_deletes
from tierlog.wire.messages import delete_topics as deletes
from tierlog.wire.messages import describe_cluster as cluster
from tierlog.wire.messages import describe_configs as configs
from tierlog.wire.messages import describe_groups as described
from tierlog.wire.messages import incremental_alter_configs as alters
from tierlog.wire.messages import list_groups as listed

DELETE_BY_ID_FROM = 6
DEFAULT_SOURCE = 5
CONFIGS = {"cleanup.policy": "delete", "retention.ms": "604800000", "segment.bytes": "1073741824"}


def create_topics(
    world: World, request: creates.CreateTopicsRequest, version: int
) -> creates.CreateTopicsResponse:
    del version
    return creates.CreateTopicsResponse(
        throttle_time_ms=0,
        topics=[_created(world, topic, request.validate_only) for topic in request.topics],
    )


def _created(
    world: World, asked: creates.CreatableTopic, validate_only: bool
) -> creates.CreatableTopicResult:
    if asked.name in world.topics:
        return creates.CreatableTopicResult(
            name=asked.name,
            error_code=ErrorCode.TOPIC_ALREADY_EXISTS,
            error_message=f"there is a topic {asked.name}",
            configs=[],
        )
    count = max(asked.num_partitions, 1)
    topic_id = bytes(16) if validate_only else world.create(asked.name, count).id
    # Empty, never null: the Java client stumbles over null configs.
    return creates.CreatableTopicResult(
        name=asked.name,
        topic_id=topic_id,
        error_code=0,
        error_message=None,
        num_partitions=count,
        replication_factor=1,
        configs=[],
    )


def delete_topics(
    world: World, request: deletes.DeleteTopicsRequest, version: int
) -> deletes.DeleteTopicsResponse:
    if version >= DELETE_BY_ID_FROM:
        asked = [(topic.name or "", topic.topic_id) for topic in request.topics]
    else:
        asked = [(name, b"") for name in request.topic_names]
    return deletes.DeleteTopicsResponse(
        throttle_time_ms=0,
        responses=[_deleted(world, name, topic_id) for name, topic_id in asked],
    )


def _deleted(world: World, name: str, topic_id: bytes) -> deletes.DeletableTopicResult:
    topic = world.find(name=name, topic_id=topic_id)
    if topic is None:
        return deletes.DeletableTopicResult(
            name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    del world.topics[topic.name]
    return deletes.DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=0)


def create_partitions(
    world: World, request: partitions.CreatePartitionsRequest, version: int
) -> partitions.CreatePartitionsResponse:
    del version
    results = []
    for asked in request.topics:
        topic = world.find(name=asked.name)
        error = ErrorCode.NONE if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic and not request.validate_only:
            topic.partitions += [Partition() for _ in range(asked.count - len(topic.partitions))]
        results.append(partitions.CreatePartitionsTopicResult(name=asked.name, error_code=error))
    return partitions.CreatePartitionsResponse(throttle_time_ms=0, results=results)


def describe_configs(
    world: World, request: configs.DescribeConfigsRequest, version: int
) -> configs.DescribeConfigsResponse:
    del world, version
    return configs.DescribeConfigsResponse(
        throttle_time_ms=0,
        results=[
            configs.DescribeConfigsResult(
                error_code=0,
                error_message=None,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
                configs=[_setting(name) for name in asked.configuration_keys or CONFIGS],
            )
            for asked in request.resources
        ],
    )


def _setting(name: str) -> configs.DescribeConfigsResourceResult:
    return configs.DescribeConfigsResourceResult(
        name=name,
        value=CONFIGS.get(name),
        read_only=False,
        config_source=DEFAULT_SOURCE,
        is_sensitive=False,
        synonyms=[],
    )


def incremental_alter_configs(
    world: World, request: alters.IncrementalAlterConfigsRequest, version: int
) -> alters.IncrementalAlterConfigsResponse:
    del world, version
    return alters.IncrementalAlterConfigsResponse(
        throttle_time_ms=0,
        responses=[
            alters.AlterConfigsResourceResponse(
                error_code=0,
                error_message=None,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
            for asked in request.resources
        ],
    )


def describe_cluster(
    world: World, request: cluster.DescribeClusterRequest, version: int
) -> cluster.DescribeClusterResponse:
    del request, version
    broker = cluster.DescribeClusterBroker(broker_id=NODE_ID, host=world.host, port=world.port)
    return cluster.DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0,
        cluster_id="recorder",
        controller_id=NODE_ID,
        brokers=[broker],
    )


def list_groups(
    world: World, request: listed.ListGroupsRequest, version: int
) -> listed.ListGroupsResponse:
    del request, version
    return listed.ListGroupsResponse(
        error_code=0,
        groups=[
            listed.ListedGroup(
                group_id=name,
                protocol_type=group.protocol_type,
                group_state="Stable" if group.member else "Empty",
                group_type="classic",
            )
            for name, group in world.groups.items()
        ],
    )


def describe_groups(
    world: World, request: described.DescribeGroupsRequest, version: int
) -> described.DescribeGroupsResponse:
    del version
    return described.DescribeGroupsResponse(
        groups=[
            described.DescribedGroup(
                error_code=0,
                group_id=name,
                group_state="Empty",
                protocol_type=world.group(name).protocol_type,
                protocol_data="",
                members=[],
            )
            for name in request.groups
        ]
    )


def delete_groups(
    world: World, request: group_deletes.DeleteGroupsRequest, version: int
) -> group_deletes.DeleteGroupsResponse:
    del version
    results = []
    for name in request.groups_names:
        known = world.groups.pop(name, None) is not None
        results.append(
            group_deletes.DeletableGroupResult(
                group_id=name, error_code=0 if known else ErrorCode.GROUP_ID_NOT_FOUND
            )
        )
    return group_deletes.DeleteGroupsResponse(throttle_time_ms=0, results=results)
