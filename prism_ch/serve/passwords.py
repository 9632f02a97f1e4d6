"""Passwords as settings keep them: scrypt with a salt, written so that the cost can grow later."""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode, b64encode

# OWASP's minimum for scrypt is 2**17, 8, 1 (128 MiB); a quarter of it, three times over, is its equal in a service that
# shares its memory with an engine.
_COST, _BLOCK, _PARALLEL = 2**15, 8, 3
_SALT_BYTES, _KEY_BYTES = 16, 32
_MOST_MEMORY_BYTES = 288 << 20
_COSTS, _BLOCKS, _PARALLELS = {2**14, 2**15, 2**16, 2**17}, range(8, 17), range(1, 9)


def _written(salt: bytes, key: bytes) -> str:
    """Write a hash with what it was derived with."""
    return f"scrypt:{_COST}:{_BLOCK}:{_PARALLEL}:{b64encode(salt).decode()}:{b64encode(key).decode()}"


#: A hash that no password has, to compare with where there is no user, so that both take as long.
UNMATCHED = _written(bytes(_SALT_BYTES), bytes(_KEY_BYTES))


def hash_password(password: str) -> str:
    """Return what to write into the settings for a password."""
    salt = os.urandom(_SALT_BYTES)
    key = _derive(password, salt, _COST, _BLOCK, _PARALLEL)
    return _written(salt, key)


def is_hash(text: str) -> bool:
    """Tell whether a text is a hash that is_password() can work with, in bearable time and memory."""
    try:
        cost, block, parallel, salt, key = _parts(text)
    except ValueError:
        return False
    bearable = cost in _COSTS and block in _BLOCKS and parallel in _PARALLELS
    return bearable and len(salt) >= _SALT_BYTES and len(key) == _KEY_BYTES


def is_password(password: str, hashed: str) -> bool:
    """Tell whether a password is the one that was hashed; takes as long for a wrong one."""
    cost, block, parallel, salt, key = _parts(hashed)
    return hmac.compare_digest(_derive(password, salt, cost, block, parallel), key)


def _parts(hashed: str) -> tuple[int, int, int, bytes, bytes]:
    """Read cost, block size, parallelism, salt and key."""
    kind, cost, block, parallel, salt, key = hashed.split(":")
    if kind != "scrypt":
        raise ValueError("not scrypt")
    return int(cost), int(block), int(parallel), b64decode(salt, validate=True), b64decode(key, validate=True)


def _derive(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    """Derive the key of a password."""
    text = password.encode(errors="surrogateescape")
    return hashlib.scrypt(text, salt=salt, n=cost, r=block, p=parallel, maxmem=_MOST_MEMORY_BYTES, dklen=_KEY_BYTES)
