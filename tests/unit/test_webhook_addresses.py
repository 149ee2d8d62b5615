"""Forbidden addresses of webhooks: deliveries refuse each address in any spelling, and names that resolve to it."""

import socket
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from unittest.mock import ANY
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.webhooks.address import LONGEST_URL, ForbiddenAddress, find_fault, forbidden_reason, parse_receiver
from shared.webhooks.http_client import ReceiverResponse, send

PUBLIC = "93.184.215.14"
HOOK = "https://hooks.example.com/in"


class Network:
    """Network with configured DNS results. It refuses and records all connections."""

    def __init__(self, *dns_results: Sequence[str]) -> None:
        self.dns_results = list(dns_results)
        self.opened: list[tuple[str, int]] = []
        self.resolved: list[str] = []

    def resolve(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.resolved.append(host)
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in self.dns_results.pop(0)
        ]

    def connect(self, address: tuple[str, int], seconds: float) -> socket.socket:
        assert seconds > 0
        self.opened.append(address)
        raise ConnectionRefusedError

    def send(self, url: str = HOOK, *, local: bool = False) -> ReceiverResponse:
        return send(url, {}, b"{}", local=local, resolve=self.resolve, connect=self.connect)


FORBIDDEN = {
    "unspecified": ["0.0.0.0", "0.1.2.3", "0.255.255.255", "::", "::ffff:0.0.0.0", "64:ff9b::"],
    "loopback": [
        *("127.0.0.1", "127.0.0.2", "127.255.255.255", "::1", "0:0:0:0:0:0:0:1"),
        *("::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::127.0.0.1", "64:ff9b::7f00:1"),
    ],
    "private": [
        *("10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"),
        *("fc00::", "fd12:3456:789a::1", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fec0::1"),
        *("::ffff:10.0.0.1", "::ffff:192.168.1.1", "64:ff9b::10.0.0.1", "64:ff9b::a9f:1"),
        "fd00:ec2::254",  # metadata service of AWS
        "fd20:ce::254",  # metadata service of Google Cloud
        "fd00:ec2::23",  # credentials of EKS pods
    ],
    "link-local": [
        "169.254.169.254",  # metadata service of AWS, Azure, Google Cloud and most others
        "169.254.170.2",  # credentials of ECS containers
        "169.254.170.23",  # credentials of EKS pods
        "169.254.100.1",  # within Lambda
        *("169.254.0.0", "169.254.255.255", "fe80::", "fe80::1", "febf::1"),
        *("::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::169.254.169.254"),
    ],
    "cloud-internal": ["168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::a83f:8110"],
    "shared": [
        "100.100.100.200",  # metadata service of Alibaba Cloud
        *("100.64.0.0", "100.127.255.255", "::ffff:100.64.0.1"),
    ],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1", "::ffff:224.0.0.251"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.255", "2001:db8::1", "3fff::1", "::ffff:192.0.2.1"],
    "benchmarking": ["198.18.0.0", "198.19.255.255", "2001:2::1"],
    "reserved": [
        "192.0.0.192",  # metadata service of Oracle Cloud
        *("192.0.0.8", "240.0.0.1", "254.1.2.3", "255.255.255.255"),
        *("100::1", "2001:10::1", "2001:20::1", "5f00::1", "4000::1", "1::1", "fe00::1", "64:ff9c::1"),
        *("::ffff:255.255.255.255", "64:ff9b::f000:1"),
    ],
    "tunnel": [
        *("2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:808:808::1"),  # 6to4
        *("2001::1", "2001:0:4136:e378:8000:63bf:f5ff:fffe", "2001:0:808:808::1"),  # Teredo
        *("::127.0.0.1", "::a9fe:a9fe", "::8.8.8.8"),  # IPv4-compatible
        *("::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8"),  # IPv4-translated
        *("64:ff9b:1::1", "64:ff9b:1::7f00:1", "192.88.99.1"),
    ],
    "with a zone": ["fe80::1%eth0", "fe80::1%1", "2606:4700:4700::1111%eth0"],
    "a valid IP address": [
        "",
        "localhost",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "1.2.3.4.5",
        ":::",
        "10.0.0.1/8",
    ],
}
EACH = [pytest.param(address, kind, id=f"{kind}-{address}") for kind in FORBIDDEN for address in FORBIDDEN[kind]]
PUBLIC_ONES = [
    *(PUBLIC, "1.1.1.1", "8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808"),
    *("2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "2600:1f18::1"),
    # Addresses next to forbidden ranges.
    *("1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0"),
    *("168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"),
    *("192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2003::1"),
]


class TestResolvedNames:
    @pytest.mark.parametrize(("address", "kind"), EACH)
    def test_name_that_resolves_to_a_forbidden_address_is_not_called(self, address: str, kind: str) -> None:
        network = Network([address])
        response = network.send()
        assert (response.is_forbidden, response.status, network.opened) == (True, None, [])
        assert kind in str(response.error)
        # the error does not reveal addresses of an internal network
        assert not address or address not in str(response.error)

        for addresses in ([PUBLIC, address], [address, PUBLIC], [PUBLIC, "8.8.8.8", address]):
            network = Network(addresses)
            assert network.send() == replace(response, ms=ANY)
            assert network.opened == []

        network = Network([address])
        response = network.send("http://hooks.example.com:8080/", local=True)
        assert (response.is_forbidden, bool(network.opened)) == (kind != "loopback", kind == "loopback")

    @pytest.mark.parametrize("address", PUBLIC_ONES)
    def test_name_that_resolves_to_a_public_address_is_called(self, address: str) -> None:
        network = Network([address])
        response = network.send()
        assert (response.is_forbidden, response.error) == (False, "The receiver refused the connection.")
        assert network.opened == [(address, 443)]

    def test_name_is_resolved_once_per_request_against_dns_rebinding(self) -> None:
        network = Network([PUBLIC], ["169.254.169.254"])
        assert not network.send().is_forbidden
        assert (network.resolved, network.opened) == (["hooks.example.com"], [(PUBLIC, 443)])
        # The next event is another request, for which the name is resolved and checked again.
        assert network.send().is_forbidden
        assert network.opened == [(PUBLIC, 443)]

    def test_name_with_several_public_addresses_falls_back_to_the_next(self) -> None:
        network = Network([PUBLIC, "8.8.8.8", PUBLIC])
        assert network.send("https://hooks.example.com:8443/").error == "The receiver refused the connection."
        assert network.opened == [(PUBLIC, 8443), ("8.8.8.8", 8443)]

    @pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"])
    def test_loopback_address_is_called_in_local_mode_only(self, address: str) -> None:
        network = Network([address], [address])
        assert not network.send("http://hooks.example.com:8080/", local=True).is_forbidden
        assert network.opened == [(address, 8080)]
        assert network.send().is_forbidden


@given(st.ip_addresses())
def test_address_that_the_standard_library_does_not_consider_public_is_forbidden(
    address: IPv4Address | IPv6Address,
) -> None:
    if forbidden_reason(str(address), local=False) is None:
        last = ip_address(int(address) % 2**32)
        assert address.is_global
        assert not address.is_multicast
        assert (
            isinstance(address, IPv4Address)
            or address.exploded[0] in "23"
            or forbidden_reason(str(last), local=False) is None
        )


HOSTS = {
    # Spellings of 127.0.0.1, 10.0.0.1 and 169.254.169.254 that some programs accept.
    "decimal": ["2130706433", "2852039166", "167772161"],
    "octal": ["0177.0.0.1", "0177.0.0.01", "017700000001", "0251.0376.0251.0376", "127.0.0.01"],
    "hexadecimal": ["0x7f000001", "0x7f.0.0.1", "0x7F.0x0.0x0.0x1", "0xa9fea9fe", "0x", "a.0x1"],
    "short": ["127.1", "127.0.1", "10.1", "0", "1", "169.254.43518"],
    "too long": ["127.0.0.1.1", "1.2.3.4.5", "256.0.0.1", "127.0.0.0001", "1.2.3.999999999999"],
    "a number at the end": ["example.1", "example.com.0x7f", "a.b.7", "127.0.0.1.", "2130706433."],
    "IPv4": ["127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "168.63.129.16", "100.100.100.200", "224.0.0.1"],
    "IPv6": [
        *("[::1]", "[::]", "[::127.0.0.1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:1]"),
        *("[fd00:ec2::254]", "[fe80::1]", "[2002:7f00:1::]", "[64:ff9b::7f00:1]", "[2001::1]", "[ff02::1]"),
        *("[fe80::1%25eth0]", "[fe80::1%eth0]", "[::1%251]", "[2606:4700:4700::1111%25eth0]", "[::1%25]"),
        *("[::1", "::1]", "::1", "[]", "[1]", "[127.0.0.1]", "[v1.fe80::1]", "[::1]a", "a[::1]", "[:::1]", "[[::1]]"),
    ],
    "names within a network": [
        *("localhost", "LOCALHOST", "a.localhost", "printer.local", "metadata", "metadata.google.internal", "intranet"),
        "ip-10-0-0-1.ec2.internal",
    ],
    "other letters": [
        *(
            "１２７.0.0.1",
            "127。0。0。1",
            "127．0．0．1",
            "①②⑦.0.0.1",
            "ⓛocalhost",
            "exämple.com",
            "еxample.com",
            "٣.com",
        ),
        *("example\u3002com", "example\u200d.com", "example.com\u202e", "ﬀ.com", "localhoﬆ", "example\u00ad.com"),
    ],
    "no name": [
        *("", ".", "..", ".example.com", "example..com", "example.com.", "a" * 64 + ".com", "a." * 127 + "com"),
        *("-a.com", "a-.com", "exa%6dple.com", "127.0.0.1%2f.com", "%31%32%37.0.0.1", "a,b.com", "a!b.com", "*.com"),
    ],
    "a user": [
        "alice@example.com",
        "alice:secret@example.com",
        "@example.com",
        ":@example.com",
        "a@127.0.0.1",
        "a@b@c.com",
    ],
    "ports": [
        *(
            "example.com:80",
            "example.com:22",
            "example.com:0",
            "example.com:65536",
            "example.com:99999999",
            "example.com:",
        ),
        *("example.com:-443", "example.com:+443", "example.com:443a", "example.com:443:443", "example.com:0x1bb"),
        *("example.com:8444", "[2606:4700:4700::1111]:9001", "example.com:4 43"),
    ],
    "characters": [
        *(
            "example.com\\@127.0.0.1",
            "127.0.0.1\\.example.com",
            "exam ple.com",
            "example.com\t",
            "example\n.com",
            "\x00",
        ),
        *(
            "example.com\r\nhost: a",
            "example.com\x7f",
            '"example.com"',
            "<example.com>",
            "example.com|a",
            "exa^mple.com",
        ),
    ],
}
BAD_URLS = [
    *(f"https://{host}/in" for hosts in HOSTS.values() for host in hosts),
    *("", "https", "https:", "https:/", "https://", "https:///in", "https:example.com", "//example.com/in", "/in"),
    *(
        "http://example.com/",
        "HTTP://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
    ),
    *(
        "javascript:alert(1)",
        "data:text/plain,a",
        "unix:///var/run/docker.sock",
        "https+unix://example.com/",
        "1https://a.com/",
    ),
    *(
        " https://example.com/",
        "https://example.com/ ",
        "https:// example.com/",
        "https:\\\\example.com\\",
        "\thttps://a.com/",
    ),
    *("https://example.com/#", "https://example.com/#a", "https://example.com#@127.0.0.1/", "https://a.com/?b#c#d"),
    *(
        "https://example.com/a b",
        "https://example.com/a\nb",
        "https://example.com/a\\b",
        "https://example.com/ä",
        "https://example.com/?\u2028",
    ),
    *("https://example.com/{a}", "https://example.com/`", 'https://example.com/"', "https://example.com/\x1f"),
    "https://example.com/" + "a" * (LONGEST_URL - 19),
]
GOOD_URLS = {
    "https://example.com": ("example.com", 443, "/", "example.com"),
    "https://example.com/": ("example.com", 443, "/", "example.com"),
    "HTTPS://Example.COM/In?A=b&c=%20": ("example.com", 443, "/In?A=b&c=%20", "example.com"),
    "https://example.com?a=b": ("example.com", 443, "/?a=b", "example.com"),
    "https://example.com:443/a": ("example.com", 443, "/a", "example.com"),
    "https://example.com:8443/a": ("example.com", 8443, "/a", "example.com:8443"),
    "https://example.com//a/../b//": ("example.com", 443, "//a/../b//", "example.com"),
    "https://example.com/@a:b@c?d=e@f:80/\u0067": ("example.com", 443, "/@a:b@c?d=e@f:80/g", "example.com"),
    "https://xn--exmple-cua.com/": ("xn--exmple-cua.com", 443, "/", "xn--exmple-cua.com"),
    "https://a_b.1.example.co.uk/": ("a_b.1.example.co.uk", 443, "/", "a_b.1.example.co.uk"),
    "https://127.0.0.1.example.com/": ("127.0.0.1.example.com", 443, "/", "127.0.0.1.example.com"),
    "https://1.1.1.1/": ("1.1.1.1", 443, "/", "1.1.1.1"),
    "https://[2606:4700:4700::1111]:8443/": ("2606:4700:4700::1111", 8443, "/", "[2606:4700:4700::1111]:8443"),
    "https://[2606:4700:4700:0:0:0:0:1111]/": ("2606:4700:4700::1111", 443, "/", "[2606:4700:4700::1111]"),
    "https://example.com/" + "a" * (LONGEST_URL - 20): (
        "example.com",
        443,
        "/" + "a" * (LONGEST_URL - 20),
        "example.com",
    ),
}
LOCAL_URLS = {
    "http://127.0.0.1:8080/in": ("127.0.0.1", 8080),
    "http://localhost/in": ("localhost", 80),
    "http://hooks.localhost:1/": ("hooks.localhost", 1),
    "http://[::1]:65535/": ("::1", 65_535),
    "https://localhost:9/": ("localhost", 9),
    "http://example.com/": ("example.com", 80),
}


class TestUrl:
    @pytest.mark.parametrize("url", BAD_URLS, ids=lambda url: ascii(url)[:60])
    def test_url_that_is_not_public_is_refused_with_a_reason_and_not_called(self, url: str) -> None:
        fault = find_fault(url, local=False)
        assert fault is not None
        network = Network([PUBLIC])
        assert replace(network.send(url), ms=0) == ReceiverResponse(None, 0, b"", f"The URL {fault}.", True, None)
        assert (network.resolved, network.opened) == ([], [])

    @pytest.mark.parametrize("url", GOOD_URLS, ids=lambda url: url[:60])
    def test_public_url_is_called(self, url: str) -> None:
        assert find_fault(url, local=False) is None
        host, port, path, authority = GOOD_URLS[url]
        receiver = parse_receiver(url, local=False)
        assert (receiver.host, receiver.port, receiver.path, receiver.authority) == (host, port, path, authority)
        network = Network([PUBLIC])
        network.send(url)
        assert network.opened == [(host if ":" in host or host == "1.1.1.1" else PUBLIC, port)]

    @pytest.mark.parametrize("url", LOCAL_URLS)
    def test_local_url_is_accepted_in_local_mode_only(self, url: str) -> None:
        assert find_fault(url, local=False)
        assert find_fault(url, local=True) is None
        receiver = parse_receiver(url, local=True)
        assert (receiver.host, receiver.port) == LOCAL_URLS[url]

    @pytest.mark.parametrize(
        "url",
        [
            *(f"http://{host}/" for host in ("10.0.0.1", "192.168.1.1", "169.254.169.254", "[fd00::1]", "0.0.0.0")),
            *("http://2130706433/", "http://127.1/", "http://0x7f.1/", "http://a@localhost/", "http://localhost:0/"),
            *(
                "http://intranet/",
                "http://a.internal/",
                "http://localhost:65536/",
                "http://localhost./",
                "ftp://localhost/",
            ),
        ],
    )
    def test_other_internal_url_is_refused_in_local_mode(self, url: str) -> None:
        assert find_fault(url, local=True)

    @given(
        st.text(alphabet="ahtps:/@.?#[]%\\ 0179x-_&é．\t", max_size=40).map("https://".__add__)
        | st.from_regex(r"https://[a-z0-9.:@%\[\]-]{1,30}(/[!-~]{0,9})?", fullmatch=True)
    )
    def test_url_is_parsed_as_by_the_standard_library(self, url: str) -> None:
        """Test that no URL has one host for the check and another host for the connection."""
        try:
            receiver = parse_receiver(url, local=False)
        except ForbiddenAddress:
            return
        read = urlsplit(url)
        host = str(ip_address(read.hostname or "")) if not receiver.is_name else read.hostname
        assert (receiver.host, receiver.port) == (host, read.port or 443)
        assert read.username is None
        assert url.lower().endswith(receiver.path.lower()) or receiver.path == "/" or read.path == ""
