"""SSHSIG signatures of operators (section 14 of the format page): ed25519, and security keys with either curve."""

import base64
import hashlib
import struct

from ed25519 import signed as ed25519_signed

NAMESPACE = b"cto-approval"
P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
G = (0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
     0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5)


def add(p, q):
    if p is None or q is None:
        return p or q
    if p[0] == q[0]:
        if (p[1] + q[1]) % P == 0:
            return None
        slope = (3 * p[0] * p[0] - 3) * pow(2 * p[1], -1, P) % P
    else:
        slope = (q[1] - p[1]) * pow(q[0] - p[0], -1, P) % P
    x = (slope * slope - p[0] - q[0]) % P
    return x, (slope * (p[0] - x) - p[1]) % P


def times(n, p):
    out = None
    while n:
        if n & 1:
            out = add(out, p)
        p, n = add(p, p), n >> 1
    return out


def ecdsa_signed(point, message, r, s):
    if len(point) != 65 or point[0] != 4 or not (0 < r < N and 0 < s < N):
        return False
    q = int.from_bytes(point[1:33], "big"), int.from_bytes(point[33:], "big")
    if max(q) >= P or (q[1] * q[1] - (q[0] ** 3 - 3 * q[0] + B)) % P:
        return False
    digest, inverse = int.from_bytes(hashlib.sha256(message).digest(), "big"), pow(s, -1, N)
    sum_ = add(times(digest * inverse % N, G), times(r * inverse % N, q))
    return sum_ is not None and sum_[0] % N == r


def strings(blob):
    """Every length-prefixed string of a blob."""
    out = []
    while blob:
        size = struct.unpack(">I", blob[:4])[0]
        if len(blob) < 4 + size:
            raise ValueError("a cut string")
        out.append(blob[4:4 + size])
        blob = blob[4 + size:]
    return out


def string(data):
    return struct.pack(">I", len(data)) + data


def armour(blob):
    text = base64.b64encode(blob).decode()
    lines = [text[i:i + 70] for i in range(0, len(text), 70)]
    return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])


def shown(line, text, message, pure):
    """Checks a signature by the key of this line. Gives (flags, counter), (None, None) for a plain key; else ValueError."""
    kind, data = line.split(" ")
    key = base64.b64decode(data, validate=True)
    blob = base64.b64decode("".join(text.split("\n")[1:-2]), validate=True)
    if armour(blob) != text or base64.b64encode(key).decode() != data:
        raise ValueError("another spelling")
    if blob[:10] != b"SSHSIG\0\0\0\1":
        raise ValueError("no SSHSIG")
    by, namespace, reserved, name, signature = strings(blob[10:])
    if by != key or namespace != NAMESPACE or name not in (b"sha256", b"sha512"):
        raise ValueError("another key, namespace or digest")
    digest = hashlib.new(name.decode(), message).digest()
    to_sign = b"SSHSIG" + string(namespace) + string(reserved) + string(name) + string(digest)
    parts, flags, counter = strings(key), None, None
    if kind.startswith("sk-"):
        signature, state = signature[:-5], signature[-5:]
        flags, counter = struct.unpack(">BI", state)
        to_sign = hashlib.sha256(parts[-1]).digest() + state + hashlib.sha256(to_sign).digest()
    same_kind, raw = strings(signature)
    if not same_kind == parts[0] == kind.encode():
        raise ValueError("another type of key")
    if kind == "sk-ecdsa-sha2-nistp256@openssh.com":
        r, s = (int.from_bytes(n, "big") for n in strings(raw))
        holds = len(parts) == 4 and parts[1] == b"nistp256" and ecdsa_signed(parts[2], to_sign, r, s)
    elif kind in ("ssh-ed25519", "sk-ssh-ed25519@openssh.com"):
        holds = len(raw) == 64 and len(parts) == (3 if flags is not None else 2) and ed25519_signed(parts[1], to_sign, raw, pure)
    else:
        raise ValueError("a type of key that no operator has")
    if not holds:
        raise ValueError("the signature does not hold")
    return flags, counter


def read_operators(text):
    """14. The keys of a file of operators: line of the key to (names, claims presence). Times are left to the stock tool."""
    out = {}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        at = next(i for i, w in enumerate(words) if i and w.startswith(("ssh-", "sk-")))
        options = words[1] if at == 2 else ""
        if at > 2 or options not in ("", 'namespaces="cto-approval"'):
            raise ValueError("an option that this program does not know")
        out[" ".join(words[at:at + 2])] = (words[0].split(","), "presence=claimed" in words[at + 2:])
    return out
