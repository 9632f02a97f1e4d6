"""The benchmark of changepoint detection: what it compares with, and how it names what is missing."""

import numpy as np

from bench.bocd import OURS, Data, Peer, errors


def test_errors_are_0_where_nothing_is_merged() -> None:
    data = Data("short", np.random.default_rng(1).normal(size=40), np.array([0, 15, 40]))
    assert errors(data) == dict.fromkeys(OURS, (0.0, 0.0, 0.0))


def test_errors_shrink_with_a_smaller_tolerance() -> None:
    data = Data("long", np.random.default_rng(2).normal(size=1200), np.array([0, 600, 1200]))
    found = errors(data)
    assert 0 < found["ours, merged where more alike"][0] < found["ours"][0] < 0.01
    assert found["ours"][1] < found["ours"][2]


def test_peer_without_its_package_has_no_title() -> None:
    assert Peer("no-such-package", "all", len, 1).title() is None


def test_peers_get_first_sequences_cut() -> None:
    data = Data("two", np.arange(10.0), np.array([0, 4, 10]))
    assert [part.tolist() for part in data.first(2, 3)] == [[0, 1, 2], [4, 5, 6]]
