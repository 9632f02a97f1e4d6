-- A topic of JSON with the canonical names, one record a message or a line, into the same landing as files. Server only.

-- Brokers and credentials are in the server's named collection prism_kafka, never here.
CREATE TABLE IF NOT EXISTS kafka_flows
(
    line String COMMENT 'One record as JSON'
)
ENGINE = Kafka(prism_kafka)
SETTINGS
    kafka_topic_list = 'flows',
    kafka_format = 'LineAsString',
    kafka_flush_interval_ms = 1000
COMMENT 'Consumer of the topic flows; read by its view alone';

CREATE MATERIALIZED VIEW IF NOT EXISTS kafka_flows_mv TO flow_json_lines
AS
SELECT
    concat(_topic, '/', toString(_partition)) AS source,
    _offset + 1 AS position,
    now64(3) AS received_at,
    line
FROM kafka_flows;
