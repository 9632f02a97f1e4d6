"""Errors for people: each message is one line with what is wrong, where, and how to mend it."""


class PrismError(Exception):
    """Base of all errors that prism-ch raises on purpose; shown as one line."""


class UsageError(PrismError):
    """The command or its arguments are wrong (exit status 2)."""


class SettingsError(PrismError):
    """A setting, URL or configuration file can't be used."""


class StoreError(PrismError):
    """The database refused, can't be reached, or holds what this version can't read.

    `reason` is the message without the place; `code` is ClickHouse's number of the error, 0 where it has none.
    """

    def __init__(self, reason: str, *, place: str = "", code: int = 0) -> None:
        super().__init__(f"{place}: {reason}" if place else reason)
        self.reason = reason
        self.code = code


class StoreLockedError(StoreError):
    """Another process holds the embedded database's folder."""


class ClaimedError(StoreError):
    """Another worker is at the windows of the same database."""


class InputError(PrismError):
    """A file of flows or a topology can't be used at all."""


class GrafanaError(PrismError):
    """A dashboard or a query for Grafana can't be used, or Grafana refused."""


class ClusterError(PrismError):
    """The machines that the analysis is spread over can't be reached, or can't go on."""
