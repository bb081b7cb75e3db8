"""The path policy of an evidence pack (section 10 of docs/evidence-format.md): patch in, verdict on each path out."""

import re

FILE, EXECUTABLE, LINK, REPOSITORY = "100644", "100755", "120000", "160000"
MODES = {FILE, EXECUTABLE, LINK, REPOSITORY}
EMPTY = {"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"}
NO_NEWLINE = b"\\ No newline at end of file"
ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}
RUNNER_FILES = {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "noxfile.py",
                ".coveragerc", ".mocharc", ".npmrc", "go.work", "rust-toolchain", "rust-toolchain.toml", "node.config.json", ".cargo"}
RUNNER_STARTS = ("jest.config.", "vitest.config.", "karma.conf.", ".mocharc.")
RUNNER_PAIRS = {(".cargo", "config"), (".cargo", "config.toml"), (".config", "nextest.toml")}
STEERING_FILES = {"agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", ".mcp.json", ".cursorrules",
                  ".windsurfrules"}
STEERING_DIRS = {".claude", ".codex", ".pi", ".cursor", ".gemini"}
STEERING_PAIRS = {(".github", "copilot-instructions.md"), (".github", "instructions"), (".vscode", "mcp.json")}


class PatchError(Exception):
    """A patch that git did not write this way."""


def need(holds, what):
    if not holds:
        raise PatchError(what)


# --- reading the patch -------------------------------------------------------------------------------------------------

def unquote(text):
    """The bytes of a name in git's C quotes, and what follows it."""
    need(text[:1] == b'"', "no quote")
    out, at = bytearray(), 1
    while True:
        c = text[at:at + 1]
        need(c, "open quote")
        at += 1
        if c == b'"':
            return bytes(out), text[at:]
        if c != b"\\":
            out += c
            continue
        e = text[at:at + 1]
        if e in ESCAPES:
            out.append(ESCAPES[e])
            at += 1
        else:
            need(re.fullmatch(rb"[0-3][0-7]{2}", text[at:at + 3]), "escape")
            out.append(int(text[at:at + 3], 8))
            at += 3


def header_path(both):
    if both.startswith(b'"'):
        before, rest = unquote(both)
        need(rest[:1] == b" ", "two names")
        after, rest = unquote(rest[1:])
        need(not rest, "two names")
    else:
        middle = (len(both) - 1) // 2
        before, after = both[:middle], both[middle + 1:]
        need(both[middle:middle + 1] == b" ", "two names")
    need(before[:2] == b"a/" and after[:2] == b"b/" and before[2:] == after[2:], "two names")
    need(before[2:] and b"\0" not in before, "no path")
    return before[2:]


class Reader:
    def __init__(self, patch):
        need(not patch or patch.endswith(b"\n"), "cut off")
        self.lines, self.at = patch.split(b"\n")[:-1], 0

    def peek(self):
        return self.lines[self.at] if self.at < len(self.lines) else None

    def next(self):
        line = self.peek()
        need(line is not None, "the patch ends too early")
        self.at += 1
        return line

    def after(self, prefix):
        """Takes the next line if it begins so."""
        line = self.peek()
        if line is None or not line.startswith(prefix):
            return None
        self.at += 1
        return line[len(prefix):]


def read_hunks(reader, exists, wants_target):
    count, target, ended = 0, b"" if wants_target else None, [False, False]
    while (rest := reader.after(b"@@ -")) is not None:
        match = re.fullmatch(rb"(\d{1,15})(?:,(\d{1,15}))? \+(\d{1,15})(?:,(\d{1,15}))? @@(?: .*)?", rest, re.DOTALL)
        need(match, "@@ line")
        left = [int(match[2]) if match[2] else 1, int(match[4]) if match[4] else 1]
        need(all(n == 0 or e for n, e in zip(left, exists)), "lines of a file that is not there")
        count += 1
        if count > 1 or int(match[3]) != 1:
            target = None
        changes = False
        while any(left):
            line = reader.next()
            sides = {b" ": (1, 1), b"-": (1, 0), b"+": (0, 1)}.get(line[:1])
            need(sides, "a line of the hunk")
            need(all(l >= s and not (s and e) for l, s, e in zip(left, sides, ended)), "too many lines")
            left = [l - s for l, s in zip(left, sides)]
            changes |= sides != (1, 1)
            is_last = reader.peek() == NO_NEWLINE
            if is_last:
                reader.next()
                ended = [e or bool(s) for e, s in zip(ended, sides)]
            if sides[1] and target is not None:
                target += line[1:] + (b"" if is_last else b"\n")
                target = target if len(target) <= 4096 else None
        need(changes, "a hunk that changes nothing")
    need(count, "no hunk")
    return target if ended[1] else None


def read_binary(reader):
    for _ in range(2):
        need(re.fullmatch(rb"(literal|delta) \d{1,15}", reader.next()), "binary block")
        lines = 0
        while (line := reader.next()) or not lines:
            need(re.fullmatch(rb"[A-Za-z][0-9A-Za-z!#$%&()*+\-;<=>?@^_`{|}~]+", line), "base85")
            length = line[0] - 64 if line[0] < 91 else line[0] - 70
            need(len(line) - 1 == (length + 3) // 4 * 5, "base85 length")
            lines += 1


def read_file(reader):
    both = reader.after(b"diff --git ")
    need(both is not None, "diff --git")
    path = header_path(both)
    before = after = None
    kind = "content"
    if (mode := reader.after(b"new file mode ")) is not None:
        kind, after = "added", mode.decode("latin-1")
    elif (mode := reader.after(b"deleted file mode ")) is not None:
        kind, before = "deleted", mode.decode("latin-1")
    elif (mode := reader.after(b"old mode ")) is not None:
        other = reader.after(b"new mode ")
        need(other is not None, "new mode")
        kind, before, after = "mode", mode.decode("latin-1"), other.decode("latin-1")
        need(before != after and before[:3] == after[:3], "modes")
    index, ids = reader.after(b"index "), None
    if index is not None:
        match = re.fullmatch(rb"([0-9a-f]{40}|[0-9a-f]{64})\.\.([0-9a-f]{40}|[0-9a-f]{64})(?: (\d{6}))?", index)
        need(match and len(match[1]) == len(match[2]) and (match[3] is not None) == (kind == "content"), "index")
        ids = (match[1].decode(), match[2].decode())
        if match[3]:
            before = after = match[3].decode()
    need((before or after) and all(m is None or m in MODES for m in (before, after)), "modes")
    body, target = None, None
    if (label := reader.after(b"--- ")) is not None:
        other = reader.after(b"+++ ")
        need(other is not None, "+++")
        for seen, prefix, mode in ((label, b"a/", before), (other, b"b/", after)):
            if mode is None:
                need(seen == b"/dev/null", "label")
                continue
            if b" " in path:
                need(seen.endswith(b"\t"), "label")
                seen = seen[:-1]
            if seen.startswith(b'"'):
                seen, rest = unquote(seen)
                need(not rest, "label")
            need(seen == prefix + path, "label")
        body, target = "text", read_hunks(reader, (before is not None, after is not None), after == LINK)
    elif reader.peek() == b"GIT binary patch":
        reader.next()
        read_binary(reader)
        body = "binary"
    if ids is None:
        need(kind == "mode" and body is None, "no index line")
    else:
        zero = tuple(not i.strip("0") for i in ids)
        need(zero == (kind == "added", kind == "deleted") and ids[0] != ids[1], "object ids")
        shown = body or (kind == "added" and ids[1] in EMPTY) or (kind == "deleted" and ids[0] in EMPTY)
        need(shown, "content is missing")
    return {"path": path, "kind": kind, "before": before, "after": after, "target": target, "ids": ids}


def read_patch(patch):
    reader, entries = Reader(patch), []
    while reader.peek() is not None:
        entry, last = read_file(reader), entries[-1] if entries else None
        if (last and last["path"] == entry["path"] and (last["kind"], entry["kind"]) == ("deleted", "added")
                and last["before"][:3] != entry["after"][:3]):
            entries[-1] = {**entry, "kind": "type", "before": last["before"]}
            continue
        need(all(e["path"] != entry["path"] for e in entries), "twice")
        entries.append(entry)
    return entries


# --- patterns ----------------------------------------------------------------------------------------------------------

def tokens(pattern):
    out, at = [], 0
    while at < len(pattern):
        c = pattern[at]
        at += 1
        if c == "\\":
            out.append(("char", pattern[at]))
            at += 1
        elif c == "?":
            out.append(("one",))
        elif c == "*":
            start = at
            while pattern[at:at + 1] == "*":
                at += 1
            out.append(("deep",) if at > start else ("star",))
        elif c == "[":
            negated = pattern[at] in "!^"
            at += negated
            ranges, first = [], True
            while first or pattern[at] != "]":
                first = False
                at += pattern[at] == "\\"
                low = high = pattern[at]
                at += 1
                if pattern[at] == "-" and pattern[at + 1] != "]":
                    at += 1
                    at += pattern[at] == "\\"
                    high = pattern[at]
                    at += 1
                ranges.append((low, high))
            at += 1
            out.append(("set", negated, [r for r in ranges if r[0] <= r[1]]))
        else:
            out.append(("char", c))
    return out


class Pattern:
    def __init__(self, text):
        parts = tokens(text)
        below = bool(parts) and parts[-1] == ("char", "/")
        parts = parts[:-1] if below else parts
        self.exact = None
        if all(p[0] == "char" for p in parts) and not below:
            self.exact = "".join(p[1] for p in parts)
        self.subtree = below or (parts[-1] == ("deep",) and (len(parts) == 1 or parts[-2] == ("char", "/")))
        out, at = "", 0
        while at < len(parts):
            part, opens = parts[at], at == 0 or parts[at - 1] == ("char", "/")
            if part[0] == "char":
                out += re.escape(part[1])
            elif part[0] == "one":
                out += "[^/]"
            elif part[0] == "star":
                out += "[^/]*"
            elif part[0] == "deep" and opens and parts[at + 1:at + 2] == [("char", "/")]:
                out, at = out + "(?:[^/]+/)*", at + 1
                parts[at] = ("char", "/")
            elif part[0] == "deep":
                out += ".+" if opens and at + 1 == len(parts) else ".*"
            else:
                body = "".join(re.escape(low) + "-" + re.escape(high) for low, high in part[2])
                if part[1]:
                    out += f"[^/{body}]"
                else:
                    out += f"(?!/)[{body}]" if body else r"(?!)"
            at += 1
        self.regex = re.compile(out + ("/.+" if below else ""), re.DOTALL)

    def matches(self, path):
        return self.regex.fullmatch(path) is not None

    def covers(self, path):
        return self.subtree and self.matches(path + "/x")


# --- scopes ------------------------------------------------------------------------------------------------------------

def folded(name):
    kept = re.sub("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]", "", name)
    return "".join(c.lower() if c.isascii() else c for c in kept)


def plain(piece):
    return piece.split(":")[0].rstrip(". ")


def is_git(component):
    return any(plain(piece) in (".git", "git~1") for piece in folded(component).split("\\"))


def is_bad_link(path, target):
    if target is None or not target or b"\0" in target or target.startswith(b"/"):
        return True
    if plain(folded(path.split("/")[-1])) in (".gitmodules", "gitmod~1"):
        return True
    depth, down = path.count("/"), False
    for component in target.split(b"/"):
        if component in (b"", b"."):
            continue
        if component == b"..":
            depth -= 1
            if down or depth < 0:
                return True
            continue
        down = True
        try:
            if is_git(component.decode("utf-8")):
                return True
        except UnicodeDecodeError:
            pass
    return False


def is_runner(path):
    parts = path.split("/")
    name, pair = parts[-1], tuple(parts[-2:])
    module = re.compile(r"(sitecustomize|usercustomize|pytest|_pytest|pluggy)(\..*)?", re.DOTALL)
    git = re.compile(r"\.gitattributes|gitatt~[0-9]|\.gitignore|gitign~[0-9]")
    if any(git.fullmatch(plain(piece)) for piece in folded(name).split("\\")):
        return True
    return (any(p.startswith("unittest") or module.fullmatch(p) for p in parts) or name.endswith(".pth") or name in RUNNER_FILES
            or name.startswith(RUNNER_STARTS) or pair in RUNNER_PAIRS)


def is_steering(path):
    parts = "".join(c.lower() if c.isascii() else c for c in path).split("/")
    return bool(STEERING_DIRS & set(parts)) or parts[-1] in STEERING_FILES or bool(STEERING_PAIRS & set(zip(parts, parts[1:])))


def scope_of(entry, allowed, forbidden, frozen):
    try:
        path = entry["path"].decode("utf-8")
    except UnicodeDecodeError:
        return "not_utf8"
    if "\0" in path or any(p in ("", ".", "..") or is_git(p) for p in path.split("/")):
        return "never_allowable"
    link = entry["after"] == LINK
    if REPOSITORY in (entry["before"], entry["after"]) or (link and is_bad_link(path, entry["target"])):
        return "never_allowable"
    for name, patterns in (("forbidden", forbidden), ("frozen", frozen)):
        if any(p.matches(path) for p in patterns):
            return name
    if not any(p.exact == path for p in allowed):
        if is_runner(path):
            return "runner_file"
        if is_steering(path):
            return "steering_file"
    for name, patterns in (("forbidden", forbidden), ("frozen", frozen)):
        if link and any(p.covers(path) for p in patterns):
            return name
    return "allowed" if any(p.matches(path) for p in allowed) else "not_allowed"


def shown(path):
    """A path as text: itself, or C-quoted."""
    try:
        text = path.decode("utf-8")
        if not text.startswith('"'):
            return text
    except UnicodeDecodeError:
        pass
    names = {34: '\\"', 92: "\\\\", 10: "\\n", 9: "\\t"}
    return '"' + "".join(names.get(b) or (chr(b) if 32 <= b < 127 else "\\%03o" % b) for b in path) + '"'


def changes_of(patch):
    """What `patch.applied` must say of each path."""
    words = {"added": "added", "deleted": "deleted", "type": "type_changed", "content": "modified"}
    word = lambda e: words.get(e["kind"]) or ("modified" if e["ids"] else "mode_changed")
    return {shown(e["path"]): (word(e), e["before"], e["after"]) for e in read_patch(patch)}


def judge_patch(patch, contract):
    """What `git.diff.checked` must say."""
    allowed = contract.get("allowed_paths", contract.get("allowed_writes", []))
    results = [command["expect"]["junit"] for command in contract.get("verification_commands", []) if command.get("expect", {}).get("junit")]
    frozen = contract.get("frozen_paths", []) + results
    lists = [[Pattern(p) for p in patterns] for patterns in (allowed, contract.get("forbidden_paths", []), frozen)]
    scopes = [(shown(e["path"]), scope_of(e, *lists)) for e in read_patch(patch)]
    against = {"forbidden", "frozen", "runner_file", "steering_file", "never_allowable"}
    return {
        "changed_files": [path for path, _ in scopes],
        "scopes": scopes,
        "allowed_writes_passed": all(scope == "allowed" for _, scope in scopes),
        "forbidden_paths_passed": not any(scope in against for _, scope in scopes),
    }
