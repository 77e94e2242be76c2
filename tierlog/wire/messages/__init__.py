"""The Kafka messages tierlog knows, one module per API: request, response, and their structs.

The classes are the schema (`tierlog.wire.schema`); field names are Kafka's own in snake case. Each
module opens with the versions and what they add. Modules are imported when an API is first used
(`tierlog.wire.catalogue`). A new API is a new module here and a line in `api_keys`.
"""
