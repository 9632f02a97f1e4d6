"""Closes connections that ask nothing, so that they can't take what the engine needs to open files."""

from __future__ import annotations

import asyncio
import resource

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

#: A connection without a whole request is closed after this long, in seconds: an idle one is kept as long as by a
#: ClickHouse server, which clients rely on.
_ASKS_WITHIN_S = 30.0
#: Connections at once, and the share of this process's descriptors that they may take: the engine needs most of them.
_CONNECTIONS_MAX, _SHARE = 1024, 0.25


class Connections:
    """The open connections of one listener.

    More than `most` are never open: the one that has asked nothing for longest goes, of the address that has most.
    Only where all are being answered a new one is turned away.
    """

    def __init__(self, most: int | None = None, asks_within_s: float = _ASKS_WITHIN_S) -> None:
        self.asks_within_s = asks_within_s
        self._most = most or bearable()
        self._open = 0
        #: Of each address, in the order in which they began to rest; some are being answered.
        self._by_address: dict[str, dict[BoundedProtocol, None]] = {}

    def add(self, connection: BoundedProtocol) -> None:
        """Take a new connection, and close another where there are too many."""
        if self._open >= self._most:
            gone = self._longest_resting() or connection
            self.discard(gone)
            gone.close()
            if gone is connection:
                return
        self._open += 1
        self._by_address.setdefault(connection.address, {})[connection] = None

    def discard(self, connection: BoundedProtocol) -> None:
        """Forget a connection that is closed."""
        of_address = self._by_address.get(connection.address, {})
        if connection in of_address:
            self._open -= 1
            del of_address[connection]
            if not of_address:
                del self._by_address[connection.address]

    def rests(self, connection: BoundedProtocol) -> None:
        """Put a connection that begins to rest behind the others of its address."""
        of_address = self._by_address.get(connection.address, {})
        if connection in of_address:
            del of_address[connection]
            of_address[connection] = None

    def _longest_resting(self) -> BoundedProtocol | None:
        """Return the connection that has rested longest, of the address that has most."""
        for of_address in sorted(self._by_address.values(), key=len, reverse=True):
            for connection in of_address:
                if not connection.is_answered:
                    return connection
        return None

    def protocol(self) -> type[asyncio.Protocol]:
        """Return the class of these connections, as uvicorn takes it."""
        return type("Protocol", (BoundedProtocol,), {"among": self})


class BoundedProtocol(HttpToolsProtocol):
    """One connection, which is closed if it asks nothing for a while."""

    among: Connections

    # The library's own is as narrow.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.resting_since_s = self.loop.time()
        self._watch = self.loop.call_later(self.among.asks_within_s, self._close_if_resting)
        self.among.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End it."""
        self._watch.cancel()
        self.among.discard(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self.resting_since_s = self.loop.time()
        self.among.rests(self)
        super().on_response_complete()

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    @property
    def is_answered(self) -> bool:
        """Whether a request has come whose answer is not complete."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def close(self) -> None:
        """Close it at once."""
        self.transport.abort()

    def _close_if_resting(self) -> None:
        rest_s = self.among.asks_within_s
        if not self.is_answered:
            rest_s -= self.loop.time() - self.resting_since_s
        if rest_s <= 0:
            self.close()
        else:
            self._watch = self.loop.call_later(rest_s, self._close_if_resting)


def bearable() -> int:
    """Return how many connections this process's limit of descriptors allows."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else int(soft * _SHARE)
    return max(min(_CONNECTIONS_MAX, allowed), 16)
