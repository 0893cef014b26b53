-- As it was, kept to build records of version 1 that tests open.
-- Schema version 1 of samerun.db; the same tables stand in each rank's staging file.
-- Times: *_utc_ns since 1970, *_mono_ns of CLOCK_MONOTONIC. Digests: 32 hex digits of XXH3-128.
-- Every REAL column x is followed by x_kind: 0 finite, 1 NaN, 2 +infinity, 3 -infinity; x is NULL unless finite.
-- Staging files only ever insert (a changed row is inserted anew), so a higher rowid is a newer row: folding relies on
-- it, hence no WITHOUT ROWID. Tables of a staging file, then, from the line of equal signs on, those of the record only.
CREATE TABLE rank (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, world_size INTEGER NOT NULL, local_rank INTEGER NOT NULL, pid INTEGER NOT NULL, host TEXT NOT NULL,
  build_id TEXT NOT NULL, utc_ns INTEGER NOT NULL, mono_ns INTEGER NOT NULL, status TEXT NOT NULL DEFAULT 'running', steps INTEGER, message TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (run, rank)
) STRICT;
CREATE TABLE environment (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, key TEXT NOT NULL, value TEXT, source TEXT NOT NULL, why_null TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (run, rank, key)
) STRICT;
CREATE TABLE setting (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, origin TEXT NOT NULL,
  PRIMARY KEY (run, rank, key)
) STRICT;
CREATE TABLE dataset (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, purpose TEXT NOT NULL, size INTEGER NOT NULL, rows INTEGER NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (run, rank, purpose)
) STRICT;
CREATE TABLE shard (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, purpose TEXT NOT NULL, epoch INTEGER NOT NULL, pass INTEGER NOT NULL, round INTEGER NOT NULL,
  global_batch INTEGER NOT NULL, step INTEGER NOT NULL, virtual_rank INTEGER NOT NULL,
  ids TEXT NOT NULL,                        -- row order, as ranges: "5,9,12-20"
  real INTEGER NOT NULL, filler INTEGER NOT NULL,
  stream_key TEXT NOT NULL,                 -- 16 hex digits
  digest TEXT NOT NULL
) STRICT;
CREATE TABLE step (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, step INTEGER NOT NULL,
  data_seed INTEGER NOT NULL,               -- of the position; 64 bits, read as signed
  epoch INTEGER NOT NULL, batch_index INTEGER NOT NULL, micro_step INTEGER NOT NULL, optimizer_step INTEGER NOT NULL, samples_seen INTEGER NOT NULL,
  micro_batches INTEGER NOT NULL, samples_counted INTEGER NOT NULL, samples_set INTEGER NOT NULL,
  loss_numerator REAL, loss_numerator_kind INTEGER NOT NULL DEFAULT 0, loss_denominator REAL, loss_denominator_kind INTEGER NOT NULL DEFAULT 0,
  norm_raw REAL, norm_raw_kind INTEGER NOT NULL DEFAULT 0, clip_max REAL, clip_max_kind INTEGER NOT NULL DEFAULT 0,
  clip_factor REAL, clip_factor_kind INTEGER NOT NULL DEFAULT 0, skipped INTEGER NOT NULL DEFAULT 0,
  root_raw TEXT NOT NULL, root_clipped TEXT NOT NULL, root_update TEXT NOT NULL, root_before TEXT NOT NULL, root_after TEXT NOT NULL,
  root_moments_before TEXT NOT NULL, root_moments_after TEXT NOT NULL,
  PRIMARY KEY (run, rank, step)
) STRICT;
CREATE TABLE group_step (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, step INTEGER NOT NULL, group_index INTEGER NOT NULL, optimizer TEXT NOT NULL,
  learning_rate REAL, learning_rate_kind INTEGER NOT NULL DEFAULT 0, weight_decay REAL, weight_decay_kind INTEGER NOT NULL DEFAULT 0,
  beta1 REAL, beta1_kind INTEGER NOT NULL DEFAULT 0, beta2 REAL, beta2_kind INTEGER NOT NULL DEFAULT 0,
  epsilon REAL, epsilon_kind INTEGER NOT NULL DEFAULT 0, momentum REAL, momentum_kind INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (run, rank, step, group_index)
) STRICT;
CREATE TABLE tensor_name (                  -- one row a tensor, so that the rows of each step stay small
  run INTEGER NOT NULL, rank INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL, numel INTEGER NOT NULL,
  PRIMARY KEY (run, rank, id)
) STRICT;
CREATE TABLE tensor (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, step INTEGER NOT NULL, stage TEXT NOT NULL, tensor INTEGER NOT NULL, -- tensor_name.id of (run, rank)
  virtual_rank INTEGER NOT NULL, micro_batch INTEGER NOT NULL,
  digest TEXT NOT NULL, norm REAL, norm_kind INTEGER NOT NULL DEFAULT 0, abs_norm REAL, abs_norm_kind INTEGER NOT NULL DEFAULT 0,
  sketch BLOB,                              -- float64, little-endian; NULL where not kept
  file TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE locked (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, of_run INTEGER NOT NULL, step INTEGER NOT NULL, precision TEXT NOT NULL, stage TEXT NOT NULL, name TEXT NOT NULL,
  distance REAL, distance_kind INTEGER NOT NULL DEFAULT 0, scale REAL, scale_kind INTEGER NOT NULL DEFAULT 0,
  common_scale REAL, common_scale_kind INTEGER NOT NULL DEFAULT 0, terms INTEGER NOT NULL, text TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE metric (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, step INTEGER NOT NULL, epoch INTEGER NOT NULL, name TEXT NOT NULL, value REAL, value_kind INTEGER NOT NULL DEFAULT 0, rule TEXT NOT NULL
) STRICT;
CREATE TABLE event (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, utc_ns INTEGER NOT NULL, step INTEGER NOT NULL, severity TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL
) STRICT;
CREATE TABLE dropped (run INTEGER NOT NULL, rank INTEGER NOT NULL, rows INTEGER NOT NULL, PRIMARY KEY (run, rank)) STRICT;
-- ====
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  group_id TEXT NOT NULL DEFAULT '',        -- runs of one pair share it
  role TEXT NOT NULL DEFAULT 'run',         -- run, candidate, reference, candidate64, reference64, rerun64-1, ...
  world_size INTEGER NOT NULL,
  argv TEXT NOT NULL,                       -- JSON array: program and its arguments
  cwd TEXT NOT NULL,
  program_digest TEXT NOT NULL DEFAULT '',  -- XXH3-128 of the program file
  status TEXT NOT NULL,                     -- starting, running, finished, stopped, failed, lost
  exit_code INTEGER,
  message TEXT NOT NULL DEFAULT '',
  started_utc_ns INTEGER NOT NULL,
  ended_utc_ns INTEGER,
  heartbeat_utc_ns INTEGER NOT NULL,
  pid INTEGER NOT NULL,                     -- of the launcher
  host TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  pid_start INTEGER NOT NULL DEFAULT 0,     -- of the launcher, clock ticks since boot: tells a reused pid
  staging TEXT NOT NULL DEFAULT '',         -- folder of the staging files, relative to the record where it lies inside; '' once folded and removed
  complete INTEGER NOT NULL DEFAULT 0       -- 1: every rank said bye and no row was dropped
) STRICT;
CREATE TABLE rank_exit (
  run INTEGER NOT NULL REFERENCES run (id), rank INTEGER NOT NULL, exit_code INTEGER, signal INTEGER, stderr_tail TEXT NOT NULL DEFAULT '', first_failure INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (run, rank)
) STRICT;
CREATE TABLE code (
  run INTEGER PRIMARY KEY REFERENCES run (id), head TEXT, branch TEXT, dirty INTEGER, remote TEXT, patch TEXT, patch_sha256 TEXT, untracked TEXT, why_null TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE verdict (
  id INTEGER PRIMARY KEY, group_id TEXT NOT NULL, candidate INTEGER NOT NULL, reference INTEGER NOT NULL, word TEXT NOT NULL, summary TEXT NOT NULL, created_utc_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE evidence (
  verdict INTEGER NOT NULL REFERENCES verdict (id), ordinal INTEGER NOT NULL, check_name TEXT NOT NULL, word TEXT NOT NULL, stage TEXT NOT NULL, tensor TEXT NOT NULL, step INTEGER NOT NULL, rank INTEGER NOT NULL,
  value REAL, value_kind INTEGER NOT NULL DEFAULT 0, limit_value REAL, limit_value_kind INTEGER NOT NULL DEFAULT 0, text TEXT NOT NULL,
  PRIMARY KEY (verdict, ordinal)
) STRICT;
CREATE INDEX shard_by_run ON shard (run, purpose, pass, global_batch);
CREATE INDEX tensor_by_step ON tensor (run, stage, step, tensor);
CREATE INDEX locked_by_run ON locked (run);
CREATE INDEX metric_by_run ON metric (run, name, step);
CREATE INDEX event_by_run ON event (run);
CREATE TABLE fold_mark (                    -- how far each staging file has been copied; not for readers
  run INTEGER NOT NULL REFERENCES run (id), file TEXT NOT NULL, table_name TEXT NOT NULL, last_rowid INTEGER NOT NULL,
  PRIMARY KEY (run, file, table_name)
) STRICT;
