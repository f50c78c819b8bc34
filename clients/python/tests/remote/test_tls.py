"""Tests servers over TLS: clients work, and a wrong certificate raises a clear error."""

import asyncio
import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry
from test_topology import server, spare_port

SERVER = Path(__file__).parents[4] / "target/debug/undercroft"


def certificate(directory: Path, name: str) -> list[str]:
    """Create a self-signed certificate, and return the server arguments that use it."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed: cannot create a certificate")
    cert, key = str(directory / f"{name}.crt"), str(directory / f"{name}.key")
    made = f"-x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {cert}"
    named = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([openssl, "req", *made.split(), *named], check=True, capture_output=True)
    return ["--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no"]


@contextlib.contextmanager
def served(port: int, *arguments: str) -> Iterator[None]:
    """Run `undercroft serve` with a TLS port during a block."""
    if not SERVER.exists():
        pytest.skip(f"{SERVER} is not built: no store is served")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        process = subprocess.Popen(
            [
                SERVER,
                "serve",
                f"{directory}/store",
                "--port",
                "0",
                "--tls-port",
                str(port),
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert any("serves" in line for line in iter(process.stdout.readline, ""))
            yield
        finally:
            process.terminate()
            process.communicate()


@pytest.fixture(scope="module", params=["redis-server", "undercroft serve"])
def secure(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, str]]:
    """Yield a server's URL, its own certificate, and another certificate."""
    directory = tmp_path_factory.mktemp("tls")
    arguments = certificate(directory, "server")
    certificate(directory, "other")
    port = spare_port()
    is_redis = request.param == "redis-server"
    with server("--tls-port", str(port), *arguments) if is_redis else served(port, *arguments):
        url = f"rediss://127.0.0.1:{port}"
        yield url, str(directory / "server.crt"), str(directory / "other.crt")


def test_calls_pipelines_and_messages_work_over_tls(secure: tuple[str, str, str]) -> None:
    url, cert, _ = secure
    big = b"x" * 1_000_000
    with undercroft.Redis.from_url(url, ssl_ca_certs=cert) as client:
        assert client.set("big", big)
        assert client.get("big") == big
        assert client.pipeline(False).get("big").ping().execute() == [big, True]
        assert client.pipeline().get("big").ping().execute() == [big, True]
        with client.pubsub() as messages:
            messages.subscribe("news")
            assert messages.get_message(timeout=60)["type"] == "subscribe"
            client.publish("news", "hello")
            assert messages.get_message(timeout=60)["data"] == b"hello"
            assert messages.get_message() is None


def test_asyncio_clients_work_over_tls(secure: tuple[str, str, str]) -> None:
    url, cert, _ = secure

    async def main() -> None:
        client = undercroft.asyncio.Redis.from_url(url, ssl_ca_certs=cert)
        big = b"y" * 1_000_000
        assert await client.set("big", big)
        results: list[Any] = await asyncio.gather(*(client.get("big") for _ in range(5)))
        assert results == [big] * 5
        await client.aclose()

    asyncio.run(main())


def test_a_wrong_certificate_raises_an_error(secure: tuple[str, str, str]) -> None:
    url, _, wrong = secure
    options: dict[str, Any] = {"ssl_ca_certs": wrong}
    told = pytest.raises(redis.ConnectionError, match="certificate verify failed")
    retry = Retry(NoBackoff(), 0)
    with undercroft.Redis.from_url(url, retry=retry, **options) as client, told:
        client.ping()

    async def main() -> None:
        client = undercroft.asyncio.Redis.from_url(url, retry=AsyncRetry(NoBackoff(), 0), **options)
        with pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            await client.ping()
        await client.aclose()

    asyncio.run(main())
