-- What operators and tenants have in common on a server, whoever the tenants are. Grafana sets max_execution_time and a few
-- settings of formats with each statement, so these may be changed in spite of `readonly`.
CREATE ROLE IF NOT EXISTS prism_operator;
CREATE ROLE IF NOT EXISTS prism_tenant;

CREATE SETTINGS PROFILE OR REPLACE prism_operator
SETTINGS
    readonly = 1,
    max_execution_time = 300 MAX 3600 CHANGEABLE_IN_READONLY
TO prism_operator;

CREATE SETTINGS PROFILE OR REPLACE prism_tenant
SETTINGS
    readonly = 1,
    max_execution_time = 30 MIN 1 MAX 60 CHANGEABLE_IN_READONLY,
    max_memory_usage = 2147483648,
    max_rows_to_read = 2000000000,
    max_result_rows = 5000000,
    max_result_bytes = 1073741824,
    output_format_write_statistics = 0,
    optimize_move_to_prewhere = 0,
    query_plan_optimize_prewhere = 0,
    short_circuit_function_evaluation = 'force_enable',
    use_query_condition_cache = 0
TO prism_tenant;

CREATE QUOTA OR REPLACE prism_tenant KEYED BY user_name
FOR INTERVAL 1 minute MAX queries = 1200, execution_time = 240
TO prism_tenant;

GRANT SELECT, SHOW ON {database:Identifier}.* TO prism_operator;
GRANT SELECT ON system.* TO prism_operator;
