-- For each tenant, last, when all policies hold: a user that nobody can log in as until it is given a password by
-- ALTER USER ... IDENTIFIED BY '...' HOST ANY.
GRANT prism_tenant TO {role:Identifier};
CREATE USER IF NOT EXISTS {user:Identifier} IDENTIFIED WITH no_password HOST NONE
    DEFAULT ROLE {role:Identifier} DEFAULT DATABASE {database:Identifier};
GRANT {role:Identifier} TO {user:Identifier};
