"""Access tokens: which are accepted, what is stored, and where they are needed."""

import re
import socket
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.errors import InputError
from serving.http import authentication
from serving.http.authentication import Tokens, add_token, read_tokens, resolve_address

DIGEST = sha256(b"secret").hexdigest()
#: Tokens, and the lines that give them access.
WORDS = [f"word {number}".encode() for number in range(4)]
LINES = [f"n{number} read {sha256(word).hexdigest()}".encode() for number, word in enumerate(WORDS)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens"


def test_only_the_digest_of_a_token_is_stored(path):
    # a file may have been emptied
    path.touch(0o600)
    token, other = add_token(path, "reports", "read"), add_token(path, "anna", "read,label")
    found = [Tokens(path).find_token(one.encode()) for one in (token, other)]
    assert [(one.name, one.scopes) for one in found] == [("reports", {"read"}), ("anna", {"read", "label"})]
    assert token not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert found[0].digest.hex() not in repr(found[0])


@pytest.mark.parametrize("presented", [b"", b"secre", b"secret ", DIGEST.encode(), b"\xff"])
def test_strings_that_are_no_token_are_rejected(path, presented):
    path.write_text(f"# who may ask\n\nreports read {DIGEST}\n")
    path.chmod(0o600)
    assert Tokens(path).find_token(presented) is None
    assert Tokens(path).find_token(b"secret").name == "reports"


def test_all_token_digests_are_compared_in_constant_time(path, monkeypatch):
    path.write_bytes(b"\n".join(LINES[:2]))
    known, compared = Tokens(path), []
    monkeypatch.setattr(authentication.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    assert known.find_token(WORDS[0]).name == "n0"
    assert compared == [(sha256(word).digest(), sha256(WORDS[0]).digest()) for word in WORDS[:2]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no token"),
        ("reports read\n", "has 2 words"),
        (f"rep/orts read {DIGEST}\n", "NAME"),
        (f"reports write {DIGEST}\n", "SCOPES"),
        ("reports read pj_thetokenitself\n", "SHA256"),
        (f"a read {DIGEST}\na label {DIGEST}\n", '"a" occurs twice'),
    ],
)
def test_errors_of_bad_lines_do_not_reveal_tokens(path, text, told):
    path.write_text(text)
    with pytest.raises(InputError, match=told) as refused:
        read_tokens(path)
    assert not re.search(f"pj_|{DIGEST}", str(refused.value))


def test_invalid_names_and_files_writable_by_others_are_refused(path):
    add_token(path, "reports", "read")
    for name, told in (("reports", "has a token named"), ("two words", "expected up to 64")):
        with pytest.raises(InputError, match=told):
            add_token(path, name, "label")
    path.chmod(0o620)
    with pytest.raises(InputError, match="chmod go-w"):
        read_tokens(path)


whole = st.sampled_from(LINES)
cut = st.tuples(whole, st.integers(0, 100)).map(lambda line_and_size: line_and_size[0][: line_and_size[1]])
contents = st.lists(whole, unique=True) | st.lists(whole | cut | st.binary(max_size=3), max_size=5)
modes = st.sampled_from([0o600, 0o600, 0o644, 0o620, 0o606])
states = st.tuples(contents.map(b"\n".join), modes) | st.sampled_from(["missing", "a directory"])


def bring_into_state(path, state):
    if path.is_dir():
        path.rmdir()
    if isinstance(state, tuple):
        path.write_bytes(state[0])
        path.chmod(state[1])
    else:
        path.unlink(missing_ok=True)
        if state == "a directory":
            path.mkdir()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(states, min_size=1, max_size=8))
def test_tokens_removed_from_the_file_lose_access(path, changes):
    now = 0.0
    bring_into_state(path, (b"\n".join(LINES), 0o600))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authentication, "monotonic", lambda: now)
        known = Tokens(path)
        for state in changes:
            bring_into_state(path, state)
            now += 1.0
            accepted = {sha256(word).digest() for word in WORDS if known.find_token(word)}
            try:
                assert accepted == {one.digest for one in read_tokens(path)}
            except InputError:
                assert accepted == set()


def test_loss_and_return_of_access_are_logged_once(path, monkeypatch, caplog):
    monkeypatch.setattr(authentication, "EVERY", -1)
    token = add_token(path, "reports", "read").encode()
    known, content = Tokens(path), path.read_text()
    caplog.clear()
    for text in ("", "broken", content):
        path.write_text(text)
        assert [known.find_token(token) is not None for _ in range(3)] == [text == content] * 3
    told = [record.getMessage().removeprefix(f"{path}") for record in caplog.records]
    assert told == [
        ": holds no token; expected lines NAME SCOPES SHA256; nobody has access until this is mended",
        ":1: has 1 words; expected NAME SCOPES SHA256; nobody has access until this is mended",
        ": the tokens can be read again; they give access",
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "fe80::1", "elsewhere.example"])
def test_only_an_externally_reachable_address_needs_access_tokens(host, monkeypatch):
    real = socket.getaddrinfo

    def resolved(name, *arguments, **keywords):
        return real("10.9.8.7" if name == "elsewhere.example" else name, *arguments, **keywords)

    monkeypatch.setattr("serving.http.authentication.socket.getaddrinfo", resolved)
    with pytest.raises(InputError, match="perfjudge token NAME --tokens FILE"):
        resolve_address(host, 8000, None)
    assert resolve_address(host, 8000, "tokens")
    for loopback in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        assert resolve_address(loopback, 8000, None)
