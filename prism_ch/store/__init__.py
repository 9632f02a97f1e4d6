"""The only code that talks to ClickHouse: connections, migrations, the ledger of windows, results."""
