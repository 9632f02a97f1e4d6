-- Purpose: delay per byte of each source to each destination over a span of time, relative to flows of the same size on ways of the same kind: a hot row is a sender's NIC, a hot column a receiver's, a hot cell a link, hot rows and columns of one leaf that switch.
-- Parameters: from_time, to_time: the span [from, to) in which flows end, UTC; min_bytes: the time of smaller ones is latency.
-- Result: src_addr, dst_addr, src_leaf, dst_leaf; flows; times_as_long, the cell; row_times_as_long, column_times_as_long, src_leaf_times_as_long, dst_leaf_times_as_long, medians of the cells of that sender, receiver, leaf; the slowest cell first.
WITH
    placed AS
    (
        SELECT endpoint, leaf, pod
        FROM topology
        WHERE (valid_from IS NULL OR valid_from < {to_time:DateTime('UTC')})
            AND (valid_to IS NULL OR valid_to > {from_time:DateTime('UTC')})
        LIMIT 1 BY endpoint
    ),
    measured AS
    (
        SELECT
            src_addr, dst_addr, s.leaf AS src_leaf, d.leaf AS dst_leaf,
            toUInt16(round(8 * log2(bytes))) AS size_class,
            multiIf(s.leaf = d.leaf, 'leaf', s.pod = d.pod, 'pod', 'far') AS way,
            (time_flow_end_ns - time_flow_start_ns) / bytes AS ns_per_byte
        FROM flows
        INNER JOIN placed AS s ON s.endpoint = src_addr
        INNER JOIN placed AS d ON d.endpoint = dst_addr
        WHERE time_flow_end_ns >= toUnixTimestamp({from_time:DateTime('UTC')}) * 1000000000
            AND time_flow_end_ns < toUnixTimestamp({to_time:DateTime('UTC')}) * 1000000000
            AND time_flow_end_ns > time_flow_start_ns AND bytes >= {min_bytes:UInt64}
    ),
    paced AS
    (
        SELECT
            src_addr, dst_addr, src_leaf, dst_leaf, size_class, way,
            count() AS flows, quantileExact(0.5)(ns_per_byte) AS pace
        FROM measured
        GROUP BY src_addr, dst_addr, src_leaf, dst_leaf, size_class, way
    ),
    compared AS
    (
        SELECT *, pace / quantileExact(0.5)(pace) OVER (PARTITION BY size_class, way) AS times
        FROM paced
    ),
    cells AS
    (
        SELECT
            src_addr, dst_addr, src_leaf, dst_leaf, sum(flows) AS flows,
            quantileExactWeighted(0.5)(times, compared.flows) AS times_as_long
        FROM compared
        GROUP BY src_addr, dst_addr, src_leaf, dst_leaf
    )
SELECT
    src_addr, dst_addr, src_leaf, dst_leaf, flows, times_as_long,
    quantileExact(0.5)(times_as_long) OVER (PARTITION BY src_addr) AS row_times_as_long,
    quantileExact(0.5)(times_as_long) OVER (PARTITION BY dst_addr) AS column_times_as_long,
    quantileExact(0.5)(times_as_long) OVER (PARTITION BY src_leaf) AS src_leaf_times_as_long,
    quantileExact(0.5)(times_as_long) OVER (PARTITION BY dst_leaf) AS dst_leaf_times_as_long
FROM cells
ORDER BY times_as_long DESC, src_addr, dst_addr;
