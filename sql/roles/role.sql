-- For each tenant, first: a role of its own, which carries its row policies.
CREATE ROLE IF NOT EXISTS {role:Identifier};
