-- Which migrations this database has had.
--
-- Rules of this folder: one concern a file; names of tables are unqualified, as the connection's database decides; from
-- release 0.1.0 on a migration is never edited or renamed, and a change of the schema is a new file.

CREATE TABLE IF NOT EXISTS schema_migrations
(
    version UInt32 COMMENT 'Number of the migration, the digits its file name starts with',
    name String COMMENT 'File name of the migration without .sql',
    checksum String COMMENT 'SHA-256 of its text, white space at line ends left out, hexadecimal',
    applied_at DateTime64(3) DEFAULT now64(3) COMMENT 'When its last statement had run, UTC',
    tool_version String COMMENT 'Version of prism-ch that applied it'
)
ENGINE = ReplacingMergeTree(applied_at)
ORDER BY version
COMMENT 'Migrations applied to this database, one row each';
