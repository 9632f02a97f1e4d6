-- What ClickHouse's documentation teaches of SELECT, over the tables of the schema, a statement a line.
SELECT uniq(job_id, step, endpoint) FROM gpu_steps
SELECT uniqExact(job_id, step, endpoint) FROM gpu_steps
SELECT quantiles(0.5, 0.9)(duration_s) FROM steps
SELECT quantile(0.9)(duration_s), quantileTDigest(0.9)(duration_s), quantileExactInclusive(0.5)(duration_s) FROM steps
SELECT topK(3)(job_id), topKWeighted(3)(job_id, step) FROM steps
SELECT groupArray(3)(step), groupUniqArray(10)(job_id), groupArraySample(3, 1)(step), groupArraySorted(5)(step) FROM steps
SELECT argMin(step, duration_s), argMax(tuple(step, job_id), duration_s) FROM steps
SELECT histogram(5)(duration_s) FROM steps
SELECT sequenceMatch('(?1)(?2)')(toDateTime(start_time), step = 1, step = 2) FROM steps
SELECT windowFunnel(10)(toDateTime(start_time), step = 1, step = 2, step = 3) FROM steps
SELECT retention(step = 1, step = 2, step = 3) FROM steps
SELECT sumMap([1, 2], [3, 4]) FROM steps
SELECT sumIf(duration_s, step > 1), countIf(step > 1), avgIf(duration_s, step > 1 AND complete = 1) FROM steps
SELECT sum(duration_s) FILTER (WHERE step > 1) FROM steps
SELECT count(DISTINCT job_id, step) FROM steps
SELECT step, count() OVER (PARTITION BY job_id ORDER BY step ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM steps
SELECT step, lagInFrame(step, 1, 0) OVER w, leadInFrame(step) OVER w, nth_value(step, 2) OVER w, row_number() OVER w FROM steps WINDOW w AS (PARTITION BY job_id ORDER BY step)
SELECT step, dense_rank() OVER (ORDER BY step RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM steps
SELECT * FROM steps LIMIT 2 BY job_id
SELECT * FROM steps ORDER BY step LIMIT 1, 2 BY job_id LIMIT 10
SELECT * FROM steps ORDER BY step LIMIT 5 WITH TIES
SELECT * FROM steps ORDER BY step OFFSET 2 ROWS FETCH FIRST 3 ROWS ONLY
SELECT job_id, sum(step) FROM steps GROUP BY job_id WITH TOTALS
SELECT job_id, sum(step) FROM steps GROUP BY job_id WITH ROLLUP
SELECT job_id, step, count() FROM steps GROUP BY CUBE(job_id, step)
SELECT job_id, step, count() FROM steps GROUP BY GROUPING SETS ((job_id), (step), ())
SELECT job_id, count() FROM steps GROUP BY ALL
SELECT * FROM steps ORDER BY ALL
SELECT step, count() FROM steps GROUP BY step ORDER BY step WITH FILL FROM 0 TO 10 STEP 1
SELECT step, duration_s FROM steps ORDER BY step WITH FILL INTERPOLATE (duration_s AS duration_s + 1)
SELECT * EXCEPT (tenant) FROM steps
SELECT * EXCEPT tenant FROM steps
SELECT * REPLACE (step + 1 AS step) FROM steps
SELECT * EXCEPT (job_id, tenant, start_time, end_time, slowest_endpoint, slowest_endpoints) APPLY(sum) FROM steps
SELECT COLUMNS('_s$') FROM steps
SELECT COLUMNS('_s$') APPLY(quantile(0.9)) FROM steps
SELECT COLUMNS(step, duration_s) APPLY(x -> x + 1) FROM steps
SELECT steps.* FROM steps
SELECT s.* EXCEPT (tenant) FROM steps AS s
SELECT step > 1 ? 1 : 2 FROM steps
SELECT step::Float64, '2024-01-01'::Date, CAST(step AS String), CAST(step, 'String') FROM steps
SELECT slowest_endpoints[1], slowest_endpoints[-1] FROM steps
SELECT (step, job_id).1, tuple(step, job_id).2 FROM steps
SELECT tupleElement((step, job_id), 1) FROM steps
SELECT arrayMap(x -> x * 2, [1, 2, 3]), arrayFilter((x, y) -> x > y, [1, 2], [2, 1]), arrayJoin([1, 2])
SELECT arrayReduce('sum', [1, 2, 3])
SELECT * FROM steps ARRAY JOIN slowest_endpoints AS e
SELECT * FROM steps LEFT ARRAY JOIN slowest_endpoints AS e, arrayEnumerate(slowest_endpoints) AS i
SELECT * FROM steps AS s ANY LEFT JOIN jobs AS j USING (job_id)
SELECT * FROM steps AS s ASOF JOIN jobs AS j ON s.job_id = j.job_id AND s.start_time >= j.first_seen
SELECT * FROM steps SEMI LEFT JOIN jobs USING job_id
SELECT * FROM steps LEFT ANTI JOIN jobs USING job_id
SELECT * FROM steps GLOBAL ANY LEFT JOIN jobs USING job_id
SELECT * FROM steps PASTE JOIN jobs
SELECT * FROM steps CROSS JOIN jobs
SELECT * FROM steps, jobs WHERE steps.job_id = jobs.job_id
SELECT * FROM steps FULL OUTER JOIN jobs ON steps.job_id = jobs.job_id
SELECT * FROM steps INNER ANY JOIN jobs USING (job_id)
SELECT * FROM steps WHERE job_id IN (SELECT job_id FROM jobs)
SELECT * FROM steps WHERE job_id GLOBAL IN (SELECT job_id FROM jobs)
SELECT * FROM steps WHERE (job_id, step) IN (('a', 1), ('b', 2))
SELECT * FROM steps WHERE (job_id, step) NOT IN (SELECT job_id, max(step) FROM steps GROUP BY job_id)
SELECT * FROM steps WHERE step BETWEEN 1 AND 2 AND job_id NOT LIKE 'a%' AND job_id ILIKE 'B%'
SELECT * FROM steps WHERE job_id REGEXP '^a'
SELECT * FROM steps WHERE start_time > now() - INTERVAL 1 DAY
SELECT * FROM steps WHERE start_time > now() - INTERVAL '1 day'
SELECT * FROM steps WHERE start_time > now() - toIntervalHour(1)
SELECT INTERVAL 1 HOUR + INTERVAL 30 MINUTE
SELECT DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00'
SELECT date_diff('hour', start_time, end_time), dateDiff('second', start_time, end_time), date_trunc('hour', start_time), dateTrunc('day', start_time) FROM steps
SELECT toStartOfInterval(start_time, INTERVAL 5 MINUTE), toStartOfFiveMinutes(start_time) FROM steps
SELECT EXTRACT(HOUR FROM start_time), toYYYYMMDD(start_time), formatDateTime(start_time, '%Y-%m') FROM steps
SELECT addDays(start_time, 1), subtractHours(start_time, 2), date_add(DAY, 1, start_time), DATE_SUB(start_time, INTERVAL 1 DAY) FROM steps
SELECT timestamp_add(start_time, INTERVAL 1 DAY), age('day', start_time, end_time) FROM steps
SELECT multiIf(step = 1, 'a', step = 2, 'b', 'c'), if(step > 1, 1, 0), CASE step WHEN 1 THEN 'a' ELSE 'b' END, CASE WHEN step > 1 THEN 1 END FROM steps
SELECT coalesce(NULL, step), ifNull(NULL, 1), nullIf(step, 1), assumeNotNull(step), isNull(step), step IS NOT NULL FROM steps
SELECT step IS NOT DISTINCT FROM 1, step <=> 1 FROM steps
SELECT step == 1, step <> 1, step != 1, NOT step, -step, step % 2, step DIV 2, step MOD 2 FROM steps
SELECT 'a' || 'b', concat('a', 'b', 'c'), substring(job_id, 1, 2), SUBSTRING(job_id FROM 1 FOR 2), position(job_id, 'a'), POSITION('a' IN job_id) FROM steps
SELECT trim(BOTH ' ' FROM ' a '), trimLeft(' a'), TRIM(LEADING 'x' FROM 'xa'), ltrim(' a') FROM steps
SELECT JSONExtractString('{"a": 1}', 'a'), JSONExtract('{"a": 1}', 'a', 'Int64'), visitParamExtractInt('{"a": 1}', 'a')
SELECT toDate('2024-01-01'), toDateTime('2024-01-01 00:00:00', 'UTC'), parseDateTimeBestEffort('2024-01-01'), toDateTime64('2024-01-01', 3, 'UTC')
SELECT [1, 2, 3][2], array(1, 2), (1, 2), tuple(1), (1,)
SELECT 0xFF, 1e3, 1_000, inf, nan, 0b101, .5
SELECT x'41', b'01000001', unhex('41')
SELECT $$text$$, $a$text$a$
SELECT DISTINCT job_id FROM steps
SELECT DISTINCT ON (job_id) job_id, step FROM steps
SELECT ALL job_id FROM steps
SELECT TOP 3 * FROM steps
SELECT TOP 3 WITH TIES * FROM steps ORDER BY step
FROM steps SELECT step
WITH 5 AS k SELECT step + k FROM steps
WITH (SELECT max(step) FROM steps) AS m SELECT * FROM steps WHERE step = m
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) FROM t
WITH t AS MATERIALIZED (SELECT * FROM steps) SELECT * FROM t
WITH step * 2 AS double SELECT double FROM steps
WITH x -> x + 1 AS f SELECT f(step) FROM steps
WITH (x, y) -> x + y AS f SELECT f(step, 1) FROM steps
SELECT 1 UNION ALL SELECT 2
SELECT 1 UNION DISTINCT SELECT 2
(SELECT 1) UNION ALL (SELECT 2)
SELECT 1 INTERSECT SELECT 1
SELECT 1 EXCEPT SELECT 2
SELECT 1 INTERSECT DISTINCT SELECT 1
SELECT * FROM (SELECT 1 AS a) AS t (b)
SELECT * FROM numbers(10)
SELECT * FROM numbers(1, 10) WHERE number % 2
SELECT * FROM generate_series(1, 10, 2)
SELECT * FROM generateSeries(1, 10)
SELECT * FROM values('a UInt8, b String', (1, 'x'), (2, 'y'))
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t (x, y)
SELECT * FROM VALUES ('a UInt8', 1, 2)
SELECT step FROM steps QUALIFY row_number() OVER (PARTITION BY job_id ORDER BY step) = 1
SELECT job_id, sum(step) AS s FROM steps GROUP BY job_id HAVING s > 1
SELECT job_id FROM steps ORDER BY job_id COLLATE 'en'
SELECT job_id FROM steps ORDER BY duration_s DESC NULLS FIRST, step ASC NULLS LAST
SELECT count() FROM steps SETTINGS max_threads = 1
SELECT count() FROM steps FORMAT JSON
SELECT count() FROM steps SETTINGS max_threads = 1, max_result_rows = 100 FORMAT JSON
SELECT count() FROM steps FORMAT JSON SETTINGS max_threads = 1
SELECT count(*), count(1), COUNT() FROM steps
SELECT EXISTS(SELECT 1 FROM steps)
SELECT * FROM jobs WHERE EXISTS (SELECT 1 FROM steps WHERE steps.job_id = jobs.job_id)
SELECT (SELECT count() FROM steps) AS n
SELECT 1 = ANY (SELECT 1), 1 > ALL (SELECT 0)
SELECT step IN (1, 2), step IN [1, 2], step IN 1, step NOT IN tuple(1, 2) FROM steps
SELECT not(step = 1), and(step = 1, 1), or(1, 0), xor(1, 0) FROM steps
SELECT step AS s, s + 1 AS t FROM steps WHERE t > 1
SELECT sum(step) AS total, total / count() AS mean FROM steps
SELECT countIf(step > 1) / count() * 100 AS `share, %` FROM steps
SELECT quantile(0.5)(duration_s) AS "p50" FROM steps
SELECT sumOrNull(step), sumOrDefault(step), anyLast(step), any(step), any_value(step), first_value(step), last_value(step) FROM steps
SELECT any(step) RESPECT NULLS, first_value(step) IGNORE NULLS FROM steps
SELECT corr(step, duration_s), covarPop(step, duration_s), stddevPop(step), stddev_pop(step), varSamp(step), simpleLinearRegression(step, duration_s) FROM steps
SELECT uniqMerge(u) FROM (SELECT uniqState(job_id) AS u FROM steps)
SELECT avgWeighted(duration_s, step), sumWithOverflow(step), sumKahan(duration_s), groupBitXor(step), groupBitmap(step) FROM steps
SELECT minMap([step], [step]), maxMap([step], [step]), sumMapFiltered([1])([step], [step]) FROM steps
SELECT exponentialMovingAverage(5)(duration_s, step), intervalLengthSum(1, 2), deltaSum(step), boundingRatio(step, duration_s) FROM steps
SELECT approx_top_k(3)(step), approx_top_count(3)(step), sparkbar(5)(step, step), entropy(step), skewPop(step), kurtSamp(step) FROM steps
SELECT cramersV(step, complete), theilsU(step, complete), contingency(step, complete), categoricalInformationValue(complete, complete) FROM steps
SELECT largestTriangleThreeBuckets(4)(step, duration_s), quantileInterpolatedWeighted(0.5)(duration_s, step), quantileGK(100, 0.5)(duration_s), quantileDD(0.01, 0.5)(duration_s), medianExact(duration_s), median(duration_s) FROM steps
SELECT groupConcat(', ')(job_id), groupConcat(job_id), groupArrayMovingAvg(3)(step), groupArrayInsertAt('x', 3)(job_id, step), groupArrayIntersect([step]), groupArrayLast(2)(step) FROM steps
SELECT cityHash64(job_id, step), sipHash64(job_id), xxHash32(job_id), MD5(job_id), hex(SHA256(job_id)), farmHash64(job_id), intHash32(step), murmurHash3_64(job_id) FROM steps
SELECT round(duration_s, 2), floor(duration_s), ceil(duration_s), truncate(duration_s), roundBankers(duration_s), log10(step), pow(step, 2), sqrt(step), exp(1), pi(), sign(step), abs(step), gcd(1, 2), lcm(1, 2), greatest(1, 2), least(1, 2) FROM steps
SELECT bitAnd(step, 1), bitShiftLeft(step, 1), bitTest(step, 0), intDiv(step, 2), modulo(step, 2), plus(step, 1), minus(step, 1), negate(step), divide(step, 2) FROM steps
SELECT IPv4NumToString(1), toIPv4('1.2.3.4'), isIPv4String('a'), IPv6StringToNum('::1'), isIPAddressInRange('1.2.3.4', '1.2.0.0/16'), IPv4CIDRToRange(toIPv4('1.2.3.4'), 16)
SELECT tupleToNameValuePairs(tuple(1, 2)), untuple((1, 2)), flatten([[1], [2]]), arraySort(x -> -x, [1, 2]), arrayReverseSort([1, 2]), arrayZip([1], [2]), arrayDistinct([1, 1]), arrayFold((acc, x) -> acc + x, [1, 2], toInt64(0)), range(5), arrayEnumerateUniq([1, 1]), has([1], 1), hasAny([1], [2]), indexOf([1], 1), arrayElement([1], 1), arraySlice([1, 2], 1, 1), arrayConcat([1], [2]), arrayCumSum([1, 2]), arrayDifference([1, 2]), arrayUniq([1]), empty([]), notEmpty([1]), length('a')
SELECT lower(job_id), upper(job_id), reverse(job_id), lengthUTF8(job_id), base64Encode(job_id), format('{} {}', job_id, step), leftPad(job_id, 5, ' '), repeat('a', 3), startsWith(job_id, 'a'), ngrams('abc', 2), levenshteinDistance('a', 'b'), countSubstrings('aa', 'a'), soundex('a'), initcap('a') FROM steps
SELECT url, domain('http://a.b'), path('http://a/b'), cutToFirstSignificantSubdomain('http://a.b'), extractURLParameter('http://a?b=1', 'b') FROM (SELECT 'x' AS url)
SELECT tumble(now(), INTERVAL 1 HOUR), tumbleStart(now(), INTERVAL 1 HOUR), timeSlot(now()), timeSlots(now(), toUInt32(600)), toRelativeHourNum(now()), toUnixTimestamp(now()), fromUnixTimestamp(1), toTimeZone(now(), 'UTC'), makeDate(2024, 1, 1), monthName(now()), toLastDayOfMonth(now()), toISOWeek(now()), toWeek(now(), 1), dateName('year', now())
SELECT * FROM system.one
SELECT step FROM steps WHERE NOT (step = 1 OR step = 2) AND (job_id, step) = ('a', 1)
SELECT * FROM steps AS s LEFT JOIN (SELECT job_id, max(step) AS m FROM steps GROUP BY job_id) AS m ON s.job_id = m.job_id AND s.step = m.m
SELECT * FROM steps ORDER BY step DESC LIMIT 10 OFFSET 5;
SELECT * FROM steps LIMIT -1
SELECT * FROM steps LIMIT 0.1
SELECT s.step.1 FROM (SELECT (1, 2) AS step) AS s
SELECT a.b, a.c FROM (SELECT CAST((1, 2), 'Tuple(b UInt8, c UInt8)') AS a)
SELECT (a).b FROM (SELECT CAST((1, 2), 'Tuple(b UInt8, c UInt8)') AS a)
SELECT a.* FROM (SELECT CAST((1, 2), 'Tuple(b UInt8, c UInt8)') AS a)
SELECT '{"a": {"b": 1}}'::JSON AS j, j.a.b, j.a.b::Int64, j.^a
SELECT 1::Nullable(Int8), 1::LowCardinality(String), 1::Decimal(10, 2), [1]::Array(UInt8), (1, 'a')::Tuple(a UInt8, b String), map(1, 2)::Map(UInt8, UInt8), 'a'::Enum8('a' = 1), '2024-01-01 00:00:00'::DateTime64(3, 'UTC'), 'a'::FixedString(3), 1::Variant(UInt8, String), 1::Dynamic
SELECT date(now()), year(now()), month(now()), day(now()), hour(now()), CURRENT_DATE, CURRENT_TIMESTAMP, DATE(start_time) FROM steps
SELECT char(65), ascii('a'), concat_ws(',', 'a', 'b'), left('abc', 1), right('abc', 1), mid('abc', 1, 1), instr('abc', 'b'), replace('a', 'a', 'b'), translate('a', 'a', 'b'), overlay('abc', 'x', 2), locate('b', 'abc')
SELECT grouping(job_id), job_id FROM steps GROUP BY ROLLUP(job_id)
SELECT sumArray([1, 2]), sumForEach([step]), sumDistinct(step), countResample(0, 10, 5)(step, step), avgArgMin(duration_s, step), sumArgMax(duration_s, step) FROM steps
SELECT step, sum(step) OVER () FROM steps
SELECT percent_rank() OVER (ORDER BY step), lag(step, 1) OVER (ORDER BY step) FROM steps
SELECT step FROM steps GROUP BY step HAVING count() > 1 ORDER BY count() DESC
SELECT step FROM {database}.steps AS s WHERE s.step = 1
SELECT {database}.steps.step FROM {database}.steps
DESCRIBE steps
DESCRIBE TABLE steps
DESC steps
DESCRIBE (SELECT 1)
SHOW TABLES
SHOW TABLES LIKE 's%'
SHOW COLUMNS FROM steps
SHOW FULL TABLES FROM {database}
SHOW DATABASES
EXISTS steps
EXISTS TABLE steps
EXISTS VIEW {database}.steps
EXISTS DATABASE {database}
SELECT * FROM information_schema.tables WHERE table_schema = '{database}'
SELECT * FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'steps'
SELECT step FROM steps WHERE start_time >= toDateTime64('2024-01-01', 9) AND start_time < today() - 7
SELECT (step + 1) * 2 - 3 / 4 % 5 FROM steps
SELECT - - 1, NOT NOT 1, 1 = 1 = 1
SELECT step FROM steps WHERE job_id = 'a' AND NOT step BETWEEN 1 AND 2 OR step IS NULL
SELECT toString(step) || '-' || job_id AS k FROM steps
SELECT if(step = 1, 'x', NULL) FROM steps
SELECT lagInFrame(duration_s) OVER (PARTITION BY job_id ORDER BY step ASC ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING) AS prev FROM steps
SELECT * FROM steps JOIN jobs ON steps.job_id = jobs.job_id AND steps.step > 3 SETTINGS join_use_nulls = 1
SELECT job_id, kind, count() FROM diagnoses WHERE kind = 'slow_gpu' OR severity IN ('warning', 'critical') GROUP BY 1, 2 ORDER BY 3 DESC
SELECT step, any(duration_s) AS d FROM steps GROUP BY step WITH TOTALS HAVING d > 0 ORDER BY step LIMIT 3
SELECT 'it''s', 'it\\''s', "step", `step` FROM steps
SELECT duration_s AS `Step time (s.)`, compute_s / duration_s AS "compute/step" FROM steps ORDER BY `Step time (s.)`
SELECT max(s.duration_s) AS "s/step" FROM steps AS s GROUP BY s.job_id HAVING "s/step" > 0 ORDER BY "s/step" DESC
SELECT step = 1, step = 2 FROM steps GROUP BY step = 1, step = 2
SELECT hex('a\x01b'), hex(x'3108b440'), reinterpret(x'3108b440', 'Array(Float32)'), hex(b'1010')
SELECT 'a “quoted” text – with a dash and a no-break blank', job_id FROM jobs WHERE job_id != '“'
SELECT s.* ILIKE '%\_s' EXCEPT (duration_s) FROM steps AS s
SELECT “job_id” FROM jobs
SELECT j.job_id FROM jobs AS j, steps AS s WHERE j.job_id IN (s.job_id) AND s.step NOT IN (j.steps)
SELECT j.job_id FROM jobs AS j WHERE j.job_id IN j.job_id AND j.job_id GLOBAL IN ((j.job_id))
SELECT count() FROM jobs WHERE job_id IN (job_id) OR `jobs`.`job_id` IN `jobs`.`job_id`
SELECT count() FROM jobs WHERE job_id IN ({database}.jobs.job_id)
SELECT uniq(1, 2, 3), count() FROM jobs AS j WHERE j.job_id IN (j.job_id) AND job_id IN (job_id)
SELECT DISTINCT j.job_id FROM jobs AS j JOIN steps AS s ON j.job_id IN (s.job_id)
SELECT (10007, 2) AS ids, steps IN ids FROM jobs
SELECT arrayFilter(x -> x IN (job_id), ['a', job_id]) FROM jobs
SELECT job_id, endpoint IN slowest_endpoints FROM (SELECT *, slowest_endpoint AS endpoint FROM steps)
WITH a(x) AS (SELECT job_id FROM jobs), b(x, y) AS (SELECT job_id, step FROM steps) SELECT count() FROM b WHERE x IN a
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT max(n) FROM t
WITH ['a', 'b'] AS ids SELECT count() FROM jobs WHERE job_id IN ids
SELECT sumTuple((step, duration_s)) FROM steps
