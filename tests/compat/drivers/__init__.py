"""Real clients, each behind the words of `base`."""

from tests.compat.drivers.aio import Aio
from tests.compat.drivers.base import Driver
from tests.compat.drivers.confluent import Confluent
from tests.compat.drivers.java import Java
from tests.compat.drivers.kafka_python import KafkaPython
from tests.compat.drivers.kcat import Kcat

DRIVERS: tuple[Driver, ...] = (Confluent(), KafkaPython(), Aio(), Kcat(), Java())
