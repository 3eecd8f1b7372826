// Signs and verifies envelopes of UAMP with the published `jose` and `canonicalize`. `uamp_signer.mjs sign` prints
// envelopes that it signed; `uamp_signer.mjs verify` reads such a list and verifies each of them. An entry has `envelope`,
// `jwk` (the public key), and `canonical` (what the signature's hash is over).

import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { text } from "node:stream/consumers";

import canonicalize from "canonicalize";
import { CompactSign, compactVerify, exportJWK, generateKeyPair, importJWK } from "jose";

// Values whose canonical form is easily wrong.
const CORNERS = {
    "x-numbers": [0, 1e30, 1e21, 1e20, 1e17, 2 ** 63, 2 ** 53 + 2, 1e-7, 1e-6, 5e-324, 1.7976931348623157e308, 333333333.3333333, 4.5],
    "x-whole": [0, -1, 9007199254740991, -9007199254740991],
    "x-letters": "\u20ac$\u000f\nA'B\"\\\"/\u007f\u2028\u{1f600}\ufb33",
    "\u{1f600}": "astral names come before those from U+E000 on",
    "\ufb33": { "\r": 1, 1: 2, "\u0080": 3, "\u00f6": 4, "\u20ac": 5, "": 6 },
    "x-nested": [[[[{ b: [], a: {} }]]], null, true, false],
};

function canonical({ sig: _, ...envelope }) {
    return canonicalize(envelope);
}

function payload(envelope) {
    const sha256 = createHash("sha256").update(canonical(envelope)).digest("hex");
    return Buffer.from(JSON.stringify({ sha256 }));
}

function base58(bytes) {
    const letters = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let number = BigInt(`0x${Buffer.from(bytes).toString("hex")}`);
    let written = "";
    for (; number > 0n; number /= 58n) {
        written = letters[Number(number % 58n)] + written;
    }
    return written;
}

function didOf(jwk) {
    const part = (name) => Buffer.from(jwk[name], "base64url");
    const named =
        jwk.kty === "OKP"
            ? [0xed, 0x01, ...part("x")]
            : [0x80, 0x24, 2 + (part("y").at(-1) % 2), ...part("x")];
    return `did:key:z${base58(named)}`;
}

async function sign() {
    const entries = [];
    for (const alg of ["EdDSA", "ES256"]) {
        for (const attached of [false, true]) {
            const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
            const jwk = await exportJWK(publicKey);
            const did = didOf(jwk);
            const envelope = {
                id: `urn:uuid:${randomUUID()}`,
                ts: new Date().toISOString(),
                from: did,
                to: ["did:web:calc.example"],
                intent: "ask",
                body: { type: "text/plain", content: "2+2 \u{1f600}", pages: 1 },
                ext: CORNERS,
            };
            const kid = `${did}#${did.slice("did:key:".length)}`;
            const token = await new CompactSign(payload(envelope)).setProtectedHeader({ alg, kid }).sign(privateKey);
            const [header, body, signature] = token.split(".");
            const entry = { envelope, jwk, canonical: canonical(envelope) };
            envelope.sig = `${header}.${attached ? body : ""}.${signature}`;
            entries.push(entry);
        }
    }
    process.stdout.write(JSON.stringify(entries));
}

async function verify() {
    const entries = JSON.parse(await text(process.stdin));
    for (const { envelope, jwk, canonical: wanted } of entries) {
        assert.equal(canonical(envelope), wanted);
        const [header, body, signature] = envelope.sig.split(".");
        const whole = payload(envelope).toString("base64url");
        assert.ok(body === "" || body === whole, "the payload of the signature differs");
        const { protectedHeader } = await compactVerify(
            `${header}.${whole}.${signature}`,
            await importJWK(jwk, JSON.parse(Buffer.from(header, "base64url")).alg),
        );
        assert.ok(protectedHeader.kid.startsWith(`${envelope.from}#`));
    }
    console.log(`verified ${entries.length}`);
}

await { sign, verify }[process.argv[2]]();
