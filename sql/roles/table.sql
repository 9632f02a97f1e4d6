-- For each table whose rows are the tenants', once they have their policies: everyone else goes on seeing all rows.
CREATE ROW POLICY OR REPLACE prism_everyone_else ON {table:Identifier} USING 1 TO ALL EXCEPT prism_tenant;
GRANT SELECT ON {table:Identifier} TO prism_tenant;
