"""A store behind a certificate that somebody must vouch for."""

import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.objectstore.s3.scripted import Scripted, reply
from tierlog.env import local_env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import StoreDenied
from tierlog.objectstore.port import Outcome
from tierlog.objectstore.s3 import S3Settings, S3Store


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 127.0.0.1, by itself, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "scripted")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "store.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


@pytest.fixture
def server(certificate: Path) -> Iterator[Scripted]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = Scripted(context)
    yield server
    server.close()


def opened(server: Scripted) -> S3Store:
    settings = S3Settings(endpoint=server.endpoint, access_key="k", secret_key="s")
    return S3Store(local_env(), bucket="bucket", settings=settings)


async def test_a_certificate_in_the_bundle_is_trusted(
    monkeypatch: pytest.MonkeyPatch, certificate: Path, server: Scripted
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    store = opened(server)
    server.will(reply(200, etag='"e"'), reply(200, b"<ListBucketResult/>"))
    assert (await store.put_if_absent("a", BytesBody(b"data"))).outcome is Outcome.WON
    assert [page async for page in store.list("")] == []
    await store.close()


async def test_a_certificate_that_nobody_vouches_for_is_denied(
    monkeypatch: pytest.MonkeyPatch, server: Scripted
) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    store = opened(server)
    server.will()
    with pytest.raises(StoreDenied, match="certificate"):
        await store.get("a")
    with pytest.raises(StoreDenied, match="certificate"):
        await store.put_if_absent("a", BytesBody(b"data"))
    with pytest.raises(StoreDenied, match="certificate"):
        await anext(aiter(store.list("")))
    await store.close()
