-- Purpose: see whether the database takes what lands at all: that the landing table and its views are there, and may be written.
-- Parameters: none.
-- Result: none, and no row anywhere.
INSERT INTO flow_landing (landing) SELECT '' WHERE 0;
