-- For each view that tenants may name, or that such a view reads: its rows are those of the tables below it.
GRANT SELECT ON {table:Identifier} TO prism_tenant;
