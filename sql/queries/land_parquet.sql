-- Purpose: land a Parquet file that the engine itself reads, in one statement. Its blocks are always the same, and each is known
--   to the deduplication by the token and its number: cut short and repeated, the statement completes what is missing.
-- Parameters: landing, source: identity and name of the content; path: where the file is; structure: its columns, which are those
--   of flow_landing, with proto as text; those that it has not are empty or 0; text_bytes_max: longer names of switches are bad.
-- Result: none.
INSERT INTO flow_landing
(
    landing, source, position, time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, src_port, dst_port, proto_name, bytes,
    packets, sampler_address, sampling_rate, path, problem
)
SELECT
    {landing:String},
    {source:String},
    _row_number + 1,
    time_flow_start_ns,
    time_flow_end_ns,
    src_addr,
    dst_addr,
    src_port,
    dst_port,
    proto,
    bytes,
    packets,
    sampler_address,
    sampling_rate,
    path,
    if(arrayExists(switch -> length(switch) > {text_bytes_max:UInt64} OR NOT isValidUTF8(switch), path), 'bad_path', '')
FROM file({path:String}, Parquet, {structure:String});
