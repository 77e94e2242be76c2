"""What the cluster remembers of itself: ids, and values of earlier days."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from tierlog.metastore.values import ClusterState, cluster_id_text


@given(st.binary(min_size=16, max_size=16))
def test_an_id_is_sixteen_bytes_of_base64(random: bytes) -> None:
    text = cluster_id_text(random)
    assert len(text) == 22
    assert base64.urlsafe_b64decode(text + "==")[1:] == random[1:]


def test_no_id_looks_like_an_option_of_a_command() -> None:
    made = [cluster_id_text(bytes([first]) + b"\xff" * 15) for first in range(256)]
    assert not [one for one in made if one.startswith("-")]
    assert len({one[0] for one in made}) == 63, "every other letter"


def test_an_id_of_earlier_days_that_begins_with_a_dash_stays_readable() -> None:
    old = ClusterState.first("-BcDefGhIjKlMnOpQrStUv")
    assert ClusterState.from_bytes(old.to_bytes()) == old
    assert ClusterState.from_bytes(b'{"id":"-BcDefGhIjKlMnOpQrStUv"}').id == old.id
