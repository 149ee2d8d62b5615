"""Checks of webhook URLs and IP addresses. They allow only https on the public internet, and no internal or cloud
networks."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

LONGEST_URL = 2048
"""Maximum number of characters of a webhook's URL."""
PORTS = (443, 8443)
"""Ports that a webhook's URL may have."""

_KINDS = {
    "an unspecified address": "0.0.0.0/8 ::/128",
    "a loopback address": "127.0.0.0/8 ::1/128",
    "a private address": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10",
    # The next two entries have metadata services of clouds, which return credentials of the machine. Azure's service
    # has an ordinary public address. Further services are in the private and shared networks of this list.
    "a link-local address": "169.254.0.0/16 fe80::/10",
    "a cloud-internal address": "168.63.129.16/32",
    "a shared address": "100.64.0.0/10",
    "a multicast address": "224.0.0.0/4 ff00::/8",
    "a documentation address": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
    "a benchmarking address": "198.18.0.0/15 2001:2::/48",
    "a reserved address": "192.0.0.0/24 240.0.0.0/4 100::/64 2001:10::/28 2001:20::/28 5f00::/16",
    # Prefixes of tunnels and translators, which forward packets to an IPv4 address.
    "a tunnel address": "192.88.99.0/24 2001::/32 2002::/16 ::/96 ::ffff:0:0:0/96 64:ff9b:1::/48",
}
_NETWORKS = [(ip_network(network), kind) for kind, networks in _KINDS.items() for network in networks.split()]
"""Forbidden networks, with their descriptions in error messages.

https://www.iana.org/assignments/iana-ipv4-special-registry, https://www.iana.org/assignments/iana-ipv6-special-registry
"""
_GLOBAL = IPv6Network("2000::/3")
"""Range of IPv6 addresses that are globally routable (RFC 4291, section 2.4)."""
_EMBEDDING = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Networks of IPv6 addresses with an IPv4 address in the last 32 bits: IPv4-mapped (RFC 4291) and NAT64 (RFC 6052)."""
_WITHIN = ("localhost", "local", "internal")
"""Top-level domains that are reserved for private networks. The host of a webhook must not use them."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(#.*)?")
_CHARACTERS = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*")
"""Regular expression of the characters that a URL may contain (RFC 3986, section 2)."""
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""Regular expression for the last label of a host. If the label matches, URL parsers read the host as an IPv4 address
(https://url.spec.whatwg.org/#ends-in-a-number-checker)."""


class ForbiddenAddress(ValueError):
    """Error: a URL or IP address is forbidden. The message is a predicate, such as `must begin with https://`."""


class ReceiverAddress(NamedTuple):
    """Parsed and checked URL of a webhook's receiver."""

    is_secure: bool
    host: str
    """Host name, or IP address without brackets."""
    is_name: bool
    port: int
    path: str
    """Path and query of the URL."""

    @property
    def authority(self) -> str:
        """Value of the request header `host`: the host, and the port if it is not the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_secure else 80) else f"{host}:{self.port}"


def find_fault(url: str, *, local: bool) -> str | None:
    """Return the fault of a webhook's URL as a predicate, such as `must begin with https://`. `None` if the URL is
    valid.

    `local` also allows http, any port and loopback addresses.
    """
    try:
        parse_receiver(url, local=local)
    except ForbiddenAddress as error:
        return str(error)
    return None


def parse_receiver(url: str, *, local: bool) -> ReceiverAddress:
    """Parse and check the URL of a webhook. Raises ForbiddenAddress.

    Both the validation of webhooks and the requests to receivers use this function, so that they cannot disagree.
    """
    if len(url) > LONGEST_URL:
        raise ForbiddenAddress(f"must have at most {LONGEST_URL} characters, not {len(url):,}")
    if not url.isascii():
        raise ForbiddenAddress("must be ASCII: write other host names in Punycode, other characters percent-encoded")
    if not _CHARACTERS.fullmatch(url):
        raise ForbiddenAddress("must not have spaces, backslashes, quotes or control characters: percent-encode them")
    parts = _URL.fullmatch(url)
    if not parts:
        raise ForbiddenAddress("must begin with https://")
    scheme, authority, path, fragment = parts.groups()
    if scheme.lower() not in (("https", "http") if local else ("https",)):
        raise ForbiddenAddress("must begin with https://")
    if fragment:
        raise ForbiddenAddress("must not have a fragment (#)")
    if "@" in authority:
        raise ForbiddenAddress("must not have a user name or a password")
    host_and_port = _AUTHORITY.fullmatch(authority)
    if not host_and_port:
        raise ForbiddenAddress("must have only a port of one to five digits after the host")
    is_secure = scheme.lower() == "https"
    port = int(host_and_port[2] or (443 if is_secure else 80))
    if not (1 <= port <= 65_535 if local else port in PORTS):
        raise ForbiddenAddress(f"must have the port {' or '.join(map(str, PORTS))}, not {port}")
    host = host_and_port[1].lower()
    address = _address_of(host)
    if address is None:
        _check_name(host, local=local)
    elif kind := forbidden_reason(str(address), local=local):
        raise ForbiddenAddress(kind)
    return ReceiverAddress(
        is_secure, host if address is None else str(address), address is None, port, f"/{path.removeprefix('/')}"
    )


def _address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a host denotes. `None` if the host is a name.

    Raises ForbiddenAddress if the address is not in standard notation.
    """
    try:
        if host.startswith("["):
            if "%" in host:
                raise ForbiddenAddress("must not have a zone (%) in an IPv6 address")
            return IPv6Address(host[1:-1])
        return IPv4Address(host) if _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) else None
    except AddressValueError:
        raise ForbiddenAddress("must have a host name, four decimal numbers, or an IPv6 address in brackets") from None


def _check_name(host: str, *, local: bool) -> None:
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ForbiddenAddress(
            "must have a host name of at most 253 characters, in labels of 1 to 63 letters, digits and hyphens"
        )
    if local and labels[-1] == "localhost":
        return
    if len(labels) == 1 or labels[-1] in _WITHIN:
        raise ForbiddenAddress("must have a public host name such as example.com")


def forbidden_reason(address: str, *, local: bool) -> str | None:
    """Return the reason why an IP address is forbidden, as a predicate. `None` if it is allowed. `local` also allows
    loopback addresses."""
    try:
        number = ip_address(address)
    except ValueError:
        return "must resolve to a valid IP address"
    if isinstance(number, IPv6Address):
        if number.scope_id:
            return _not_public("an address with a zone")
        if any(number in network for network in _EMBEDDING):
            number = IPv4Address(int(number) & 0xFFFF_FFFF)
    if local and number.is_loopback:
        return None
    for network, kind in _NETWORKS:
        if number in network:
            return _not_public(kind)
    is_given = isinstance(number, IPv4Address) or number in _GLOBAL
    return None if is_given and number.is_global else _not_public("a reserved address")


def _not_public(kind: str) -> str:
    return f"must resolve to a public address, not {kind}"
