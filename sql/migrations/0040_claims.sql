-- Who is working a window at this moment, so that several processes can share one database.

ALTER TABLE revision_claims
    ADD COLUMN IF NOT EXISTS worker String COMMENT 'Who works it: host, process and number of the analysis; empty where claimed before this was noted';

CREATE TABLE IF NOT EXISTS claim_beats
(
    revision UInt64 COMMENT 'Number of the working',
    worker String COMMENT 'Who works it, as in revision_claims',
    beat_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When the worker was alive, or had come to an end, UTC',
    ended UInt8 COMMENT '1 where the working has come to an end, whether or not the window is worked'
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(beat_at)
ORDER BY (revision, worker)
COMMENT 'Signs of life of those who work windows; a claim without one for a while is void';
