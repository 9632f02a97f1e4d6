-- Which pairs of servers moved most in the last hour?
SELECT s.server AS src_server, d.server AS dst_server, formatReadableSize(sum(t.bytes)) AS volume
FROM pair_traffic(
    from_time = '2026-03-02 02:00:00', to_time = '2026-03-02 03:00:00', points = 60) AS t
INNER JOIN topology AS s ON t.src_addr = s.endpoint
INNER JOIN topology AS d ON t.dst_addr = d.endpoint
WHERE s.server != d.server
GROUP BY src_server, dst_server
ORDER BY sum(t.bytes) DESC, src_server, dst_server
LIMIT 3
