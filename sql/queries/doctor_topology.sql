-- Purpose: see whether the topology covers the endpoints that flows show.
-- Parameters: none.
-- Result: one row. endpoints UInt64 in the topology; seen UInt64 of them in flows; unknown UInt64: addresses in flows that are
--   not in it; unknown_flows, flows UInt64: records with such an end, and all, as delivered; examples Array(String), at most 3.
WITH
    placed AS (SELECT DISTINCT endpoint FROM topology),
    traffic AS (SELECT src_addr, dst_addr, sum(p.flows) AS flows FROM flow_pair_1m_log AS p GROUP BY src_addr, dst_addr),
    ends AS (SELECT DISTINCT arrayJoin([src_addr, dst_addr]) AS addr, addr IN placed AS is_known FROM traffic)
SELECT
    (SELECT count() FROM placed) AS endpoints,
    (SELECT countIf(is_known) FROM ends) AS seen,
    (SELECT countIf(NOT is_known) FROM ends) AS unknown,
    (SELECT sumIf(flows, src_addr NOT IN placed OR dst_addr NOT IN placed) FROM traffic) AS unknown_flows,
    (SELECT sum(flows) FROM traffic) AS flows,
    (SELECT arraySlice(arraySort(groupUniqArrayIf(100)(addr, NOT is_known)), 1, 3) FROM ends) AS examples;
