-- For each tenant and table: the rows it sees, with its name as a constant.
CREATE ROW POLICY OR REPLACE {role:Identifier} ON {table:Identifier} USING {condition:Expression} TO {role:Identifier};
