"""Who may ask."""

import socket
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.errors import InputError
from serving.http import authentication
from serving.http.authentication import Tokens, add_token, read_tokens, resolve_address

DIGEST = sha256(b"secret").hexdigest()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens"


def test_only_the_digest_of_a_token_is_stored(path):
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


@pytest.mark.parametrize("last", [0, 1])
def test_all_token_digests_are_compared_in_constant_time(path, monkeypatch, last):
    held = [sha256(word).hexdigest() for word in (b"one", b"two")]
    path.write_text("".join(f"n{number} read {digest}\n" for number, digest in enumerate(held)))
    compared = []
    known = Tokens(path)
    monkeypatch.setattr(authentication.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    presented = (b"one", b"two")[last]
    assert known.find_token(presented).name == f"n{last}"
    assert compared == [(bytes.fromhex(digest), sha256(presented).digest()) for digest in held]


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
    assert "pj_" not in str(refused.value)
    assert DIGEST not in str(refused.value)


def test_a_token_file_writable_by_others_is_refused(path):
    add_token(path, "reports", "read")
    path.chmod(0o620)
    with pytest.raises(InputError, match="chmod go-w"):
        read_tokens(path)


def test_repeated_and_invalid_token_names_are_refused(path):
    add_token(path, "reports", "read")
    with pytest.raises(InputError, match="has a token named"):
        add_token(path, "reports", "label")
    with pytest.raises(InputError, match="expected up to 64"):
        add_token(path, "two words", "read")


def test_a_token_can_be_added_to_an_emptied_file(path):
    path.touch(0o600)
    token = add_token(path, "reports", "read").encode()
    assert Tokens(path).find_token(token).name == "reports"


#: Tokens that edits may write into a file, and the lines that give them access.
WORDS = [f"word {number}".encode() for number in range(4)]
LINES = [f"n{number} read {sha256(word).hexdigest()}" for number, word in enumerate(WORDS)]


def restore(path):
    if path.is_dir():
        path.rmdir()
    path.touch()
    path.chmod(0o600)


def write_line(path, line, at):
    restore(path)
    lines = path.read_text(errors="replace").splitlines()
    path.write_text("\n".join([*lines[:at], LINES[line], *lines[at:]]))


def delete_line(path, at):
    restore(path)
    lines = path.read_text(errors="replace").splitlines()
    path.write_text("\n".join(lines[:at] + lines[at + 1 :]))


def damage(path, noise, at):
    restore(path)
    content = path.read_bytes()
    path.write_bytes(content[:at] + noise + content[at + len(noise) :])


def truncate(path, size):
    restore(path)
    path.write_bytes(path.read_bytes()[:size])


def delete(path):
    restore(path)
    path.unlink()


def put_directory(path):
    delete(path)
    path.mkdir()


def change_mode(path, mode):
    restore(path)
    path.chmod(mode)


def replace_all(path, lines):
    restore(path)
    path.write_text("\n".join(LINES[line] for line in lines))


places, line_numbers = st.integers(0, 300), st.integers(0, len(LINES) - 1)
edits = st.one_of(
    st.tuples(st.just(write_line), line_numbers, st.integers(0, 4)),
    st.tuples(st.just(delete_line), st.integers(0, 4)),
    st.tuples(st.just(damage), st.binary(min_size=1, max_size=3), places),
    st.tuples(st.just(truncate), places),
    st.tuples(st.just(delete)),
    st.tuples(st.just(put_directory)),
    st.tuples(st.just(change_mode), st.sampled_from([0o600, 0o644, 0o620, 0o606])),
    st.tuples(st.just(replace_all), st.lists(line_numbers, unique=True)),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(edits, min_size=1, max_size=8))
def test_tokens_removed_from_the_file_lose_access(path, changes):
    now = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authentication, "monotonic", lambda: now)
        replace_all(path, range(len(LINES)))
        known = Tokens(path)
        for change, *arguments in changes:
            change(path, *arguments)
            now += 1.0
            accepted = {word for word in WORDS if known.find_token(word)}
            try:
                assert {sha256(word).digest() for word in accepted} == {
                    one.digest for one in read_tokens(path)
                } & {sha256(word).digest() for word in WORDS}
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


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_loopback_address_needs_no_access_tokens(host):
    assert resolve_address(host, 8000, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "fe80::1", "elsewhere.example"])
def test_an_externally_reachable_address_needs_access_tokens(host, monkeypatch):
    real = socket.getaddrinfo

    def resolved(name, *arguments, **keywords):
        return real("10.9.8.7" if name == "elsewhere.example" else name, *arguments, **keywords)

    monkeypatch.setattr("serving.http.authentication.socket.getaddrinfo", resolved)
    with pytest.raises(InputError, match="perfjudge token NAME --tokens FILE"):
        resolve_address(host, 8000, None)
    assert resolve_address(host, 8000, "tokens")
