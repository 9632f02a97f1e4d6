-- Purpose: read all files of a table's parts and compare them with their checksums.
-- Parameters: table.
-- Result: part_path String; is_passed Bool; message String; one row a part.
CHECK TABLE {table:Identifier};
