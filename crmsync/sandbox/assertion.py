"""Checks the signed assertion of a login without a password (OAuth 2.0 JWT bearer flow)."""

import base64
import binascii
import json
import time
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

LIFE_MOST_S = 300  # "OAuth 2.0 JWT Bearer Flow": an assertion ends within five minutes


class BadAssertion(Exception):
    """The text is the `error_description` of the refusal."""


def username_in(assertion: str, client_id: str, key_file: Path | None) -> str:
    """The user named by an assertion that was signed by RS256 with the key's other half. Raises BadAssertion."""
    if key_file is None:
        raise BadAssertion("user hasn't approved this consumer")
    signed, _, signature = assertion.rpartition(".")
    try:
        head, claims = (json.loads(_decoded(part)) for part in signed.split("."))
        _public_key(key_file).verify(_decoded(signature), signed.encode(), PKCS1v15(), SHA256())
    except (ValueError, InvalidSignature):
        raise BadAssertion("invalid assertion") from None
    if not isinstance(claims, dict) or head.get("alg") != "RS256":
        raise BadAssertion("invalid assertion")
    if claims.get("iss") != client_id:
        raise BadAssertion("client identifier invalid")
    if not _ends_soon(claims.get("exp")):
        raise BadAssertion("expired authorization code")
    if not str(claims.get("aud", "")).startswith("https://"):
        raise BadAssertion("audience is invalid")
    return str(claims.get("sub", ""))


def _ends_soon(at: Any) -> bool:
    """Whether the end, a second of the epoch as number or text, is ahead but not far."""
    try:
        left = float(at) - time.time()
    except (TypeError, ValueError):
        return False
    return 0 < left <= LIFE_MOST_S


def _public_key(file: Path) -> RSAPublicKey:
    pem = file.read_bytes()
    key = load_pem_x509_certificate(pem).public_key() if b"CERTIFICATE" in pem else load_pem_public_key(pem)
    if not isinstance(key, RSAPublicKey):
        raise BadAssertion("the key is none of RSA")
    return key


def _decoded(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise ValueError(text) from None
