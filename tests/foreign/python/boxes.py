"""Seals and opens boxes of NaCl with PyNaCl: boxes.py seal|open SEED PUBLIC_KEY CONTENT, all of it in hex.

SEED is this side's Ed25519 seed, PUBLIC_KEY the other side's Ed25519 key.
"""

import sys

from nacl.public import Box
from nacl.signing import SigningKey, VerifyKey


def main() -> None:
    what, seed, public, content = sys.argv[1], *(bytes.fromhex(text) for text in sys.argv[2:5])
    box = Box(
        SigningKey(seed).to_curve25519_private_key(),
        VerifyKey(public).to_curve25519_public_key(),
    )
    done = box.encrypt(content) if what == "seal" else box.decrypt(content)
    print(bytes(done).hex())


main()
