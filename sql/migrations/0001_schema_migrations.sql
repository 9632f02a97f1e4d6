-- Which migrations this database has had. Table names are unqualified in all migrations: the connection's database decides.

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
