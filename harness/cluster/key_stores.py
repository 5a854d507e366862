"""Certificates and keys from the files that people name: PEM, and the stores of Java (JKS and PKCS #12).

`keytool`, which comes with every Java, reads the stores, so that acked sees in them what a Java client sees.
Passwords reach it through files that only the user can read. Problems are `ValueError`s: a clause with the
reason and the remedy, without the name of the file.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from harness.artifacts.java import find_java
from harness.errors import UnfitError, printable, shortened
from harness.secrets import Secret

_KEYTOOL_S = 60
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_LINE = 64
_ENTRY = re.compile(r"^Alias name: (.*?)$(.*?)(?=^Alias name: |\Z)", re.DOTALL | re.MULTILINE)
_TRUSTED, _OWN = "trustedCertEntry", "PrivateKeyEntry"


@dataclass(frozen=True)
class OwnCertificate:
    """A client's certificate with its chain, and the key of it."""

    chain: str
    """In PEM, the client's own one first."""
    key: Secret
    """In PEM (PKCS #8), not encrypted."""


def certificates(pem: str) -> str:
    """The certificates of a PEM text, as PEM. Raises ValueError if there is none, or if one is damaged."""
    text = "".join(block for kind, block in _blocks(pem) if kind in ("CERTIFICATE", "TRUSTED CERTIFICATE"))
    try:
        x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        raise ValueError("it has no certificate in PEM, or a damaged one; name one in PEM") from None
    return text


def private_key(pem: str, password: Secret) -> Secret:
    """The private key of a PEM text, not encrypted. Raises ValueError."""
    blocks = [block for kind, block in _blocks(pem) if kind.endswith("PRIVATE KEY")]
    if not blocks:
        raise ValueError("it has no private key in PEM; name one")
    return _key(blocks[0].encode(), password)


def own_certificate(pem: str, password: Secret) -> OwnCertificate:
    """Certificate, chain and key of one PEM text. Raises ValueError."""
    return OwnCertificate(certificates(pem), private_key(pem, password))


def trusted_of_store(store: Path, password: Secret) -> str:
    """The certificates that a store of Java trusts, as PEM. Raises ValueError."""
    entries = _entries(store, password)
    trusted = [text for kind, text in entries.values() if kind == _TRUSTED]
    if not trusted:
        raise ValueError("it has no trusted certificate; name a store that `keytool -importcert` has filled")
    return certificates("\n".join(trusted))


def own_of_store(store: Path, password: Secret, key_password: Secret) -> OwnCertificate:
    """The first private key of a store of Java, and its certificates. Raises ValueError."""
    own = [alias for alias, (kind, _) in _entries(store, password).items() if kind == _OWN]
    if not own:
        raise ValueError("it has no private key; name a store that has the client's key and certificate")
    with _private_folder() as folder:
        target, chosen = folder / "own.p12", secrets.token_urlsafe(16)
        _keytool(
            folder,
            [*("-importkeystore", "-noprompt", "-srckeystore", str(store), "-srcalias", own[0])]
            + [*("-destkeystore", str(target), "-deststoretype", "PKCS12")],
            {
                "-srcstorepass": password,
                "-srckeypass": key_password or password,
                "-deststorepass": Secret(chosen),
            },
        )
        key, certificate, others = pkcs12.load_key_and_certificates(target.read_bytes(), chosen.encode())
    if key is None or certificate is None:
        raise ValueError("its key is of a kind that TLS does not use; name a store with an RSA or EC key")
    chain = [certificate, *others]
    return OwnCertificate("".join(one.public_bytes(Encoding.PEM).decode() for one in chain), _in_pem(key))


def _key(pem: bytes, password: Secret) -> Secret:
    try:
        key = load_pem_private_key(pem, password.reveal().encode() or None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        why = "" if password else ", or is encrypted"
        raise ValueError(
            f"its private key cannot be read: it is damaged{why}, or ssl.key.password is not its password"
        ) from None
    return _in_pem(key)


def _in_pem(key: PrivateKeyTypes) -> Secret:
    return Secret(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


def _blocks(pem: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each block; a text on one line, as properties files have it, gets its lines again."""
    for kind, body in _BLOCK.findall(pem):
        if ":" not in body:  # without headers, which only the old form of encrypted keys has
            body = "".join(body.split())
            body = "\n" + "\n".join(body[at : at + _LINE] for at in range(0, len(body), _LINE)) + "\n"
        yield kind, f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"


def _entries(store: Path, password: Secret) -> Mapping[str, tuple[str, str]]:
    """Kind and text (with certificates in PEM) of each entry of a store, by its alias."""
    with _private_folder() as folder:
        listed = _keytool(folder, ["-list", "-rfc", "-keystore", str(store)], {"-storepass": password})
    kinds = re.compile(r"^Entry type: (\w+)", re.MULTILINE)
    entries = {}
    for alias, text in _ENTRY.findall(listed):
        kind = kinds.search(text)
        entries[alias] = (kind[1] if kind else "", text)
    return entries


@contextmanager
def _private_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="acked-stores-") as folder:  # of mode 0700
        yield Path(folder)


def _keytool(folder: Path, arguments: list[str], passwords: Mapping[str, Secret]) -> str:
    """What keytool prints. Raises ValueError with its reason if it fails."""
    given: list[str] = []
    for option, password in passwords.items():
        if password:
            file = folder / option.lstrip("-")
            file.touch(mode=0o600)
            file.write_text(password.reveal() + "\n")
            given += [f"{option}:file", str(file)]
    java = Path(find_java().path)
    keytool = shutil.which("keytool", path=os.pathsep.join((str(java.parent), str(java.resolve().parent))))
    if keytool is None:
        raise UnfitError(f"There is no keytool beside {java}, which reads stores of Java; use stores in PEM.")
    spoken = ("-J-Duser.language=en", "-J-Dfile.encoding=UTF-8")
    done = subprocess.run(
        [keytool, *spoken, *arguments, *given],
        input="\n",
        capture_output=True,
        text=True,
        timeout=_KEYTOOL_S,
        check=False,
    )
    if done.returncode != 0:
        line = next((line for line in done.stdout.splitlines() if "error: " in line), "it is not readable")
        reason = re.sub(r"^.*error: (?:[\w.]+(?:Exception)?: )?", "", line)
        raise ValueError(
            f"it is no store that Java can read ({shortened(printable(reason), 100)}); correct the file "
            "or its password"
        )
    return done.stdout
