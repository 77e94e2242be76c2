"""Foreign encoders and decoders, imported once and quietly: kafka-python warns at its import."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder

__all__ = [
    "AiokafkaBatch",
    "AiokafkaBuilder",
    "KafkaPythonBatch",
    "KafkaPythonBuilder",
    "aiokafka_murmur2",
    "kafka_python_murmur2",
]
