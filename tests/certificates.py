"""Self-signed certificates for servers in tests. A client that trusts a certificate trusts its server."""

import datetime
import ssl
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make_certificate(folder: Path, host: str | IPv4Address, *, days: int = 1) -> Path:
    """Write `certificate.pem` for a host and its `key.pem`, valid for `days` days. Return the path of the
    certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=9))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([subject]), False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    unencrypted = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, unencrypted))
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(encoding))
    return folder / "certificate.pem"


def server_side(certificate: Path) -> ssl.SSLContext:
    """Return a server's TLS context for a certificate of `make_certificate`."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, certificate.with_name("key.pem"))
    return tls
