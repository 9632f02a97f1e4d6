"""Native blocks that clients expect and the embedded engine does not write."""

from prism_ch.serve.request import parse
from prism_ch.serve.results import Server, empty_block, go_handshake


def test_only_the_handshake_is_answered_as_one() -> None:
    server = Server("name", "1.2")
    request, _ = parse(b"default_format=Native&client_protocol_version=54460", {})
    handshake = "SELECT displayName(), version(), revision(), timezone()"
    assert go_handshake(handshake, request, server) is not None
    assert go_handshake(f"{handshake} FROM jobs", request, server) is None
    assert go_handshake(f"{handshake} FORMAT CSV", request, server) is None
    assert go_handshake(handshake, parse(b"default_format=Native", {})[0], server) is None


def test_a_block_without_rows_names_its_columns() -> None:
    assert empty_block([("a", "UInt8"), ("b" * 200, "String")]) == (
        b"\x02\x00\x01a\x05UInt8\xc8\x01" + b"b" * 200 + b"\x06String"
    )
