"""HOST:PORT, as people write it for listeners and bootstrap servers."""

import ipaddress
from dataclasses import dataclass

from tierlog.config.errors import InvalidConfig


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than localhost may be anything."""
        ip = _ip(self.host)
        return self.host.lower() == "localhost" if ip is None else ip.is_loopback

    @property
    def is_everywhere(self) -> bool:
        """Whether it means every address of the machine: to listen on, never to connect to."""
        ip = _ip(self.host)
        return ip is not None and ip.is_unspecified


def parse_address(text: str, *, name: str, port_min: int = 0) -> Address:
    """Raises `InvalidConfig` naming the setting. IPv6 hosts stand in brackets."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise InvalidConfig(name, f"{name} is '{text}'; write an IPv6 host in brackets: [::1]:9092")
    if not colon or not host or any(letter.isspace() or letter in "/,@" for letter in host):
        raise InvalidConfig(name, f"{name} is '{text}'; it must be HOST:PORT, as 127.0.0.1:9092")
    return Address(host, _port(port, text, name=name, port_min=port_min))


def _port(port: str, text: str, *, name: str, port_min: int) -> int:
    if not (port.isascii() and port.isdigit() and port_min <= int(port) <= 65535):
        raise InvalidConfig(
            name, f"{name} is '{text}'; its port must be a number in [{port_min}, 65535]"
        )
    return int(port)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
