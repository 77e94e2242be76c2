"""Consumer groups: who reads what, and how far they came.

The machines here are protocol logic without I/O (`classic`, `offsets`, `machine`): events and the
time go in; records, replies and deadlines come out. `coordinator/` drives them over their log, the
topic `__consumer_offsets`, in Kafka's own record formats. `handlers/` speak the wire protocol.
"""
