"""Which requests come from a page of another site, and who wants a page."""

import pytest

from prism_ch.serve.origin import is_cross_site, is_for_this_machine, is_same_origin, wants_page


@pytest.mark.parametrize(
    "headers, cross, same",
    [
        ({}, False, False),
        ({"origin": "http://a:9478", "host": "a:9478"}, False, True),
        ({"origin": "https://A:9478", "host": "a:9478"}, False, True),
        ({"origin": "http://a:3000", "host": "a:9478"}, True, False),
        ({"origin": "null", "host": "a:9478"}, True, False),
        ({"origin": "", "host": ""}, True, False),
        ({"origin": "http://a:9478"}, True, False),
        ({"sec-fetch-site": "same-origin", "origin": "http://proxied", "host": "a:9478"}, False, True),
        ({"sec-fetch-site": "cross-site", "origin": "http://a:9478", "host": "a:9478"}, True, False),
        ({"sec-fetch-site": "same-site"}, True, False),
        ({"sec-fetch-site": "none"}, False, False),
    ],
)
def test_the_site_of_a_request(headers: dict[str, str], cross: bool, same: bool) -> None:
    assert (is_cross_site(headers), is_same_origin(headers)) == (cross, same)


@pytest.mark.parametrize(
    "accepted, wants",
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("application/json, TEXT/HTML ; q=0.1", True),
        ("*/*", False),
        ("", False),
        ("text/*", False),
        ("text/html;q=0", False),
        ("text/html; q=0.00", False),
        ("text/html-sandboxed", False),
    ],
)
def test_who_names_html_wants_a_page(accepted: str, wants: bool) -> None:
    assert wants_page(accepted) is wants


@pytest.mark.parametrize(
    "host, is_own",
    [
        ("127.0.0.1:9478", True),
        ("localhost:9478", True),
        ("[::1]:9478", True),
        ("evil.example:9478", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_only_a_name_of_this_machine_opens_an_open_service(host: str, is_own: bool) -> None:
    assert is_for_this_machine({"host": host}) is is_own
