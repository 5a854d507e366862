"""Certificates that are made at run time: an authority, and what it signs for hosts and clients."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from harness.cluster.key_stores import OwnCertificate
from harness.secrets import Secret

_VALID = timedelta(days=7)
_EARLIER = timedelta(days=1)
"""Certificates are valid from before their making on, so that clocks may differ."""


class CertificateAuthority:
    """Signs certificates with a key that nobody else has, and that is never written anywhere."""

    def __init__(self, name: str = "acked") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        ca = (
            _begun(self._name, self._key, _VALID)
            .issuer_name(self._name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
        )
        self.certificate = ca.sign(self._key, SHA256()).public_bytes(Encoding.PEM).decode()
        """Its own certificate, in PEM."""

    def issue(self, name: str, addresses: Iterable[str] = (), *, valid: timedelta = _VALID) -> OwnCertificate:
        """A certificate with the subject `CN=<name>`, and these host names and IP addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _begun(_name(name), key, valid)
            .issuer_name(self._name)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        names = [_general_name(address) for address in addresses]
        if names:
            certificate = certificate.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return OwnCertificate(
            certificate.sign(self._key, SHA256()).public_bytes(Encoding.PEM).decode(),
            Secret(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()),
        )


def _begun(subject: x509.Name, key: ec.EllipticCurvePrivateKey, valid: timedelta) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(address))
    except ValueError:
        return x509.DNSName(address)
