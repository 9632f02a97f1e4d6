-- Purpose: say what there is to work on, for the summary that `prism-ch run` prints and for its words where no job is found.
-- Parameters: none.
-- Result: one row: flows, unknown_flows (an end is not in the topology), between_servers (both ends known, two servers), records
--   as delivered; endpoints in the topology; seen_endpoints, seen_servers of it in flows; unknown addresses; unknown_examples
--   Array(String), at most 3; windows, failed_windows; failure String, of the first failed one; partial_windows, which lack a
--   job that failed; partial_failure String, of the first of them;
--   rejected Array(Tuple(String, UInt64)), reasons and their records, the most frequent first.
WITH
    placed AS (SELECT endpoint, any(server) AS server FROM topology GROUP BY endpoint),
    traffic AS
    (
        SELECT
            p.src_addr AS src_addr,
            p.dst_addr AS dst_addr,
            s.endpoint != '' AS src_known,
            d.endpoint != '' AS dst_known,
            s.server AS src_server,
            d.server AS dst_server,
            p.flows AS flows
        FROM (SELECT src_addr, dst_addr, sum(flows) AS flows FROM flow_pair_1m GROUP BY src_addr, dst_addr) AS p
        LEFT JOIN placed AS s ON p.src_addr = s.endpoint
        LEFT JOIN placed AS d ON p.dst_addr = d.endpoint
    ),
    ends AS
    (
        SELECT DISTINCT addr, is_known, server
        FROM traffic
        ARRAY JOIN [src_addr, dst_addr] AS addr, [src_known, dst_known] AS is_known, [src_server, dst_server] AS server
    )
SELECT
    (SELECT sum(flows) FROM traffic) AS flows,
    (SELECT sumIf(flows, NOT (src_known AND dst_known)) FROM traffic) AS unknown_flows,
    (SELECT sumIf(flows, src_known AND dst_known AND src_server != dst_server) FROM traffic) AS between_servers,
    (SELECT count() FROM placed) AS endpoints,
    (SELECT uniqExactIf(addr, is_known) FROM ends) AS seen_endpoints,
    (SELECT uniqExactIf(server, is_known) FROM ends) AS seen_servers,
    (SELECT uniqExactIf(addr, NOT is_known) FROM ends) AS unknown,
    (SELECT arraySlice(arraySort(groupUniqArrayIf(100)(addr, NOT is_known)), 1, 3) FROM ends) AS unknown_examples,
    (SELECT count() FROM windows) AS windows,
    (SELECT countIf(status = 'failed') FROM windows) AS failed_windows,
    (SELECT argMinIf(error, window_start, status = 'failed') FROM windows) AS failure,
    (SELECT countIf(status = 'partial') FROM windows) AS partial_windows,
    (SELECT argMinIf(error, window_start, status = 'partial') FROM windows) AS partial_failure,
    (
        SELECT arrayReverseSort(pair -> pair.2, groupArray((reason, records)))
        FROM (SELECT reason, count() AS records FROM flows_rejected GROUP BY reason ORDER BY reason)
    ) AS rejected;
