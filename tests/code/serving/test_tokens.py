"""Who may ask."""

import socket
from hashlib import sha256

import pytest

from data.errors import InputError
from serving.doors import tokens
from serving.doors.access import address
from serving.doors.tokens import Tokens, add, read

DIGEST = sha256(b"secret").hexdigest()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens"


def test_a_token_that_was_made_is_known_by_its_name_and_only_its_digest_is_kept(path):
    token, other = add(path, "reports", "read"), add(path, "anna", "read,label")
    found = [Tokens(path).known(one.encode()) for one in (token, other)]
    assert [(one.name, one.scopes) for one in found] == [
        ("reports", {"read"}),
        ("anna", {"read", "label"}),
    ]
    assert token not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert found[0].digest.hex() not in repr(found[0])


@pytest.mark.parametrize("presented", [b"", b"secre", b"secret ", DIGEST.encode(), b"\xff"])
def test_what_is_no_token_is_not_known(path, presented):
    path.write_text(f"# who may ask\n\nreports read {DIGEST}\n")
    path.chmod(0o600)
    assert Tokens(path).known(presented) is None
    assert Tokens(path).known(b"secret").name == "reports"


@pytest.mark.parametrize("last", [0, 1])
def test_every_digest_is_compared_in_constant_time_whichever_is_right(path, monkeypatch, last):
    held = [sha256(word).hexdigest() for word in (b"one", b"two")]
    path.write_text("".join(f"n{number} read {digest}\n" for number, digest in enumerate(held)))
    compared = []
    known = Tokens(path)
    monkeypatch.setattr(tokens.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    presented = (b"one", b"two")[last]
    assert known.known(presented).name == f"n{last}"
    assert compared == [(bytes.fromhex(digest), sha256(presented).digest()) for digest in held]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no token"),
        ("reports read\n", "has 2 words"),
        (f"rep/orts read {DIGEST}\n", "NAME"),
        (f"reports write {DIGEST}\n", "SCOPES"),
        ("reports read pj_thetokenitself\n", "SHA256"),
        (f"a read {DIGEST}\na label {DIGEST}\n", '"a" stands twice'),
    ],
)
def test_a_bad_line_is_refused_without_telling_what_might_be_a_token(path, text, told):
    path.write_text(text)
    with pytest.raises(InputError, match=told) as refused:
        read(path)
    assert "pj_" not in str(refused.value)
    assert DIGEST not in str(refused.value)


def test_a_file_that_others_may_write_is_refused(path):
    add(path, "reports", "read")
    path.chmod(0o620)
    with pytest.raises(InputError, match="chmod go-w"):
        read(path)


def test_a_name_is_taken_once_and_an_impossible_one_is_refused(path):
    add(path, "reports", "read")
    with pytest.raises(InputError, match="has a token named"):
        add(path, "reports", "label")
    with pytest.raises(InputError, match="expected up to 64"):
        add(path, "two words", "read")


def test_a_line_that_is_deleted_counts_no_more_and_a_file_that_breaks_changes_nothing(path, monkeypatch):
    monkeypatch.setattr(tokens, "EVERY", -1)
    first, second = add(path, "first", "read"), add(path, "second", "read")
    known = Tokens(path)
    path.write_text(path.read_text().splitlines()[1] + "\n")
    assert known.known(first.encode()) is None
    assert known.known(second.encode()).name == "second"
    path.write_text("broken")
    assert known.known(second.encode()).name == "second"
    path.unlink()
    assert known.known(second.encode()).name == "second"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machines_own_address_needs_no_tokens(host):
    assert address(host, 8000, None).loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "fe80::1", "elsewhere.example"])
def test_an_address_that_others_reach_needs_tokens(host, monkeypatch):
    real = socket.getaddrinfo

    def resolved(name, *arguments, **keywords):
        return real("10.9.8.7" if name == "elsewhere.example" else name, *arguments, **keywords)

    monkeypatch.setattr("serving.doors.access.socket.getaddrinfo", resolved)
    with pytest.raises(InputError, match="perfjudge token NAME --tokens FILE"):
        address(host, 8000, None)
    assert not address(host, 8000, "tokens").loopback
