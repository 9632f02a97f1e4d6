"""The only code that speaks SQL: connection, migrations, ledger of windows, results."""
