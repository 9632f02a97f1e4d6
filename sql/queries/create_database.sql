-- Purpose: make a database.
-- Parameters: name: of the database.
-- Result: none.
CREATE DATABASE IF NOT EXISTS {name:Identifier}
