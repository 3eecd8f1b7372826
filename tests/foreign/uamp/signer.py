"""Signs and verifies envelopes of UAMP with the published `rfc8785` and `jwcrypto`.

`signer.py sign` prints envelopes that it signed. `signer.py verify` reads such a list and verifies each of them.
An entry has `envelope`, `jwk` (the public key), and `canonical` (what the signature's hash is over).
"""

import base64
import hashlib
import json
import sys
import uuid
from datetime import datetime, timezone

import rfc8785
from jwcrypto import jwk, jws

# Values whose canonical form is easily wrong: numbers, letters beyond the BMP, escapes, the order of names.
CORNERS = {
    "x-numbers": [0.0, -0.0, 1e30, 1e21, 1e20, 1e-7, 1e-6, 5e-324, 1.7976931348623157e308, 333333333.33333329, 4.5, 100.0],
    "x-whole": [0, -1, 9007199254740991, -9007199254740991],
    "x-letters": "\u20ac$\x0f\nA'B\"\\\"/\u007f\u2028\U0001f600\ufb33",
    "\U0001f600": "astral names come before those from U+E000 on",
    "\ufb33": {"\r": 1, "1": 2, "\u0080": 3, "\u00f6": 4, "\u20ac": 5, "": 6},
    "x-nested": [[[[{"b": [], "a": {}}]]], None, True, False],
}


def canonical(envelope):
    """The bytes that an envelope's hash is over."""
    return rfc8785.dumps({name: value for name, value in envelope.items() if name != "sig"})


def payload(envelope):
    """What its signature is over."""
    return json.dumps({"sha256": hashlib.sha256(canonical(envelope)).hexdigest()}, separators=(",", ":"))


def base58(data):
    letters = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, rest = divmod(number, 58)
        text = letters[rest] + text
    return text


def did_of(key):
    """The did:key of a key, and the URL of the key in it."""
    exported = key.export_public(as_dict=True)
    part = lambda name: base64.urlsafe_b64decode(exported[name] + "==")
    if exported["kty"] == "OKP":
        named = b"\xed\x01" + part("x")
    else:
        named = b"\x80\x24" + bytes([2 + part("y")[-1] % 2]) + part("x")
    multikey = "z" + base58(named)
    return f"did:key:{multikey}", f"did:key:{multikey}#{multikey}"


def new_key(algorithm):
    if algorithm == "EdDSA":
        return jwk.JWK.generate(kty="OKP", crv="Ed25519")
    return jwk.JWK.generate(kty="EC", crv="P-256")


def signed(key, algorithm, attached, to, intent="ask", **members):
    """A signed envelope."""
    did, url = did_of(key)
    envelope = {
        "id": f"urn:uuid:{uuid.uuid4()}",
        "ts": datetime.now(timezone.utc).isoformat().replace("+00:00", "Z"),
        "from": did,
        "to": to,
        "intent": intent,
        **members,
    }
    token = jws.JWS(payload(envelope))
    token.add_signature(key, None, json.dumps({"alg": algorithm, "kid": url}), None)
    header, body, signature = token.serialize(compact=True).split(".")
    envelope["sig"] = f"{header}.{body if attached else ''}.{signature}"
    return envelope


def sign():
    entries = []
    for algorithm in ("EdDSA", "ES256"):
        for attached in (False, True):
            key = new_key(algorithm)
            body = {"type": "text/plain", "content": "2+2 \U0001f600", "pages": 1.0}
            envelope = signed(key, algorithm, attached, ["did:web:calc.example"], body=body, ext=CORNERS)
            entries.append(
                {
                    "envelope": envelope,
                    "jwk": key.export_public(as_dict=True),
                    "canonical": canonical(envelope).decode(),
                }
            )
    # Escapes, so that letters do not depend on the encoding of standard output.
    json.dump(entries, sys.stdout)


def verify():
    entries = json.load(sys.stdin)
    for entry in entries:
        envelope = entry["envelope"]
        assert canonical(envelope).decode() == entry["canonical"], "the canonical forms differ"
        header, body, signature = envelope["sig"].split(".")
        wanted = base64.urlsafe_b64encode(payload(envelope).encode()).decode().rstrip("=")
        assert body in ("", wanted), "the payload of the signature differs"
        token = jws.JWS()
        token.allowed_algs = ["EdDSA", "ES256"]
        token.deserialize(f"{header}.{wanted}.{signature}", jwk.JWK(**entry["jwk"]))
        assert token.jose_header["kid"].startswith(envelope["from"] + "#"), "kid is not a key of the sender"
    print(f"verified {len(entries)}")


if __name__ == "__main__":
    {"sign": sign, "verify": verify}[sys.argv[1]]()
