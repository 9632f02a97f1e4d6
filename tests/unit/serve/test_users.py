"""Who is who: credentials in three ways, passwords by their hash, and no end of guesses."""

from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import pytest

from prism_ch.errors import SettingsError
from prism_ch.serve.request import RequestError
from prism_ch.serve.users import (
    UNMATCHED,
    Credentials,
    RateLimit,
    User,
    Users,
    credentials_of,
    hash_password,
    is_hash,
    is_loopback,
    is_password,
)
from prism_ch.settings import ServeSettings
from tests.serving import HASH, PASSWORD, users


def test_a_hash_is_salted_and_tells_its_password_only() -> None:
    first, second = hash_password("one"), hash_password("one")
    assert first != second
    assert is_password("one", first)
    assert not is_password("two", first)
    assert not is_password("", UNMATCHED)


@pytest.mark.parametrize(
    "text",
    ["", "one", "scrypt:1:8:1:YQ==:YQ==", HASH.replace("scrypt", "bcrypt"), HASH.replace("16384", "16385"), HASH[:-9]],
)
def test_only_bearable_hashes_are_accepted(text: str) -> None:
    assert is_hash(HASH)
    assert not is_hash(text)


def test_users_are_found_by_name_and_password() -> None:
    known = Users(ServeSettings.model_validate({"users": users()}))
    assert known.authenticate(Credentials("alpha", PASSWORD), "1.1.1.1") == User("alpha", "tenant", "alpha")
    assert known.known(Credentials("alpha", PASSWORD)) == User("alpha", "tenant", "alpha")
    assert known.known(Credentials("alpha", "wrong")) is None
    for wrong in (Credentials("alpha", "wrong"), Credentials("nobody", PASSWORD)):
        with pytest.raises(RequestError, match="wrong password, or there is no such user"):
            known.authenticate(wrong, "1.1.1.1")


def test_an_address_that_guesses_too_often_has_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prism_ch.serve.users.is_password", lambda password, _: password == PASSWORD)
    known = Users(ServeSettings.model_validate({"users": users()}))
    for _ in range(30):
        with pytest.raises(RequestError, match="wrong password"):
            known.authenticate(Credentials("alpha", "guess"), "1.1.1.1")
    with pytest.raises(RequestError, match="Too many failed attempts"):
        known.authenticate(Credentials("alpha", PASSWORD), "1.1.1.1")
    assert known.authenticate(Credentials("alpha", PASSWORD), "2.2.2.2").name == "alpha"
    # Others behind the same proxy are not shut out, and one that does not exist waits just as long.
    assert known.authenticate(Credentials("bravo", PASSWORD), "1.1.1.1").name == "bravo"
    for _ in range(30):
        with pytest.raises(RequestError, match="wrong password"):
            known.authenticate(Credentials("nobody", "guess"), "1.1.1.1")
    with pytest.raises(RequestError, match="Too many failed attempts"):
        known.authenticate(Credentials("nobody", "guess"), "1.1.1.1")


def test_a_crowd_of_guesses_costs_no_more_hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Users(ServeSettings.model_validate({"users": users()}))
    hashed = []

    def hash_it(password: str, _: str) -> bool:
        hashed.append(password)
        return False

    monkeypatch.setattr("prism_ch.serve.users.is_password", hash_it)

    def guess(password: str) -> str:
        with pytest.raises(RequestError) as refused:
            known.authenticate(Credentials("alpha", password), "1.1.1.1")
        return refused.value.name

    assert {guess("") for _ in range(5)} == {"AUTHENTICATION_FAILED"}
    assert hashed == []
    with ThreadPoolExecutor(40) as pool:
        refusals = list(pool.map(guess, ["guess"] * 200))
    assert len(hashed) == refusals.count("AUTHENTICATION_FAILED") < 50


def test_a_name_that_is_no_text_is_refused_as_others() -> None:
    known = Users(ServeSettings.model_validate({"users": users()}))
    given = credentials_of({"authorization": "Basic " + b64encode(b"\xff\xfe:x").decode()}, {})
    with pytest.raises(RequestError, match="wrong password") as refused:
        known.authenticate(given, "1.1.1.1")
    assert refused.value.body("1")


def test_a_password_that_is_no_hash_is_named_but_not_shown() -> None:
    settings = ServeSettings.model_validate(
        {"users": {"a": {"password": HASH.replace("16384", "9999999"), "role": "reader"}}}
    )
    with pytest.raises(SettingsError, match=r"serve\.users\.a\.password: is no hash"):
        Users(settings)


def test_credentials_come_in_one_of_three_ways() -> None:
    basic = {"authorization": "Basic " + b64encode(b"a:b:c").decode()}
    named = {"x-clickhouse-user": "a", "x-clickhouse-key": "b"}
    assert credentials_of(basic, {}) == Credentials("a", "b:c")
    assert credentials_of(named, {}) == Credentials("a", "b")
    assert credentials_of({}, {"user": "a", "password": "b"}) == Credentials("a", "b")
    assert credentials_of({}, {}) == Credentials("default", "")
    for headers, parameters in (({**basic, **named}, {}), (basic, {"user": "a"}), (named, {"password": "b"})):
        with pytest.raises(RequestError, match="more than one way"):
            credentials_of(headers, parameters)
    for wrong in ("Bearer x", "Basic", "Basic %", "Basic " + b64encode(b"nocolon").decode()):
        with pytest.raises(RequestError, match="only Basic"):
            credentials_of({"authorization": wrong}, {})


@pytest.mark.parametrize(
    "host, loopback",
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),  # noqa: S104 - told apart
     ("10.0.0.1", False), ("example.org", False)],
)  # fmt: skip
def test_the_loopback_interface_is_known(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_rate_limit_allows_more_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("prism_ch.serve.users.time.monotonic", lambda: now_s)
    limit = RateLimit(2)
    for _ in range(2):
        assert limit.allows("a")
        limit.count("a")
    assert not limit.allows("a")
    assert limit.allows("b")
    now_s += 30.0
    assert limit.allows("a")
