"""For the Python processes that Spark starts in tests: pyspark from this environment, which is
compiled, and not from Spark's zip, which every process would compile anew. So they start three
times as fast, and Spark gives them ten seconds, on however crowded a machine.
"""

import sys

sys.path[:] = [one for one in sys.path if not one.endswith("pyspark.zip")]
