// What test_http_clients.py has @clickhouse/client do; prints what came of it as JSON.
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";

const { PORT, ROLE, PASSWORD, DATABASE } = process.env;
const options = { url: `http://127.0.0.1:${PORT}`, username: ROLE, password: PASSWORD, database: DATABASE, log: { level: ClickHouseLogLevel.OFF } };
const client = createClient({ ...options, compression: { response: true, request: ROLE === "operator" } });
const told = {};

told.ping = (await client.ping()).success;
const rows = async (query, query_params) => (await client.query({ query, query_params, format: "JSONEachRow" })).json();
told.rows = await rows("SELECT toUInt8(number) AS n FROM numbers(3)");
told.parameters = await rows("SELECT {a:UInt8} AS a, {b:String} AS b", { a: 5, b: "it's" });
told.streamed = 0;
const stream = await client.query({ query: "SELECT number FROM numbers(200000)", format: "JSONEachRow" });
for await (const some of stream.stream()) told.streamed += some.length;
told.error = await rows("SELECT * FROM nowhere").then(() => "none", (error) => error.code);
if (ROLE === "operator") {
  await client.command({ query: "CREATE TABLE from_javascript (n UInt64) ENGINE = Memory" });
  await client.insert({ table: "from_javascript", values: [{ n: 1 }, { n: 2 }, { n: 3 }], format: "JSONEachRow" });
  told.inserted = await rows("SELECT count() AS number, sum(n) AS s FROM from_javascript");
  await client.command({ query: "DROP TABLE from_javascript" });
  const session = createClient({ ...options, session_id: "javascript" });
  await session.command({ query: "CREATE TEMPORARY TABLE t (a UInt8)" });
  await session.insert({ table: "t", values: [{ a: 8 }], format: "JSONEachRow" });
  told.session = await (await session.query({ query: "SELECT a FROM t", format: "JSONEachRow" })).json();
  await session.close();
}
await client.close();
console.log(JSON.stringify(told));
