#include "staging_rows.h"

#include <cstdio>
#include <utility>

#include "samerun/recorder/reader.h"
#include "schema.h"
#include "shape_text.h"

namespace samerun::recorder {
namespace {

std::string hex16(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

StagingRows::StagingRows(Database& database, std::int64_t run, std::optional<int> rank) : database_(database), run_(run), rank_(rank) {}

Statement& StagingRows::statement(const std::string& table) {
  const auto found = statements_.find(table);
  if (found != statements_.end()) return found->second;
  std::string sql = "INSERT OR REPLACE INTO " + table + " VALUES (";
  for (std::size_t i = columns_of(database_, table).size(); i > 0; --i) sql += i > 1 ? "?," : "?)";
  return statements_.emplace(table, Statement(database_, sql)).first->second;
}

void StagingRows::write(StagingItem& item) {
  if (const auto* start = std::get_if<RankStart>(&item)) {
    rank_ = start->rank;
    start_ = *start;
    insert(*start);
    write_waiting();
    return;
  }
  if (!rank_) {
    waiting_.push_back(std::move(item));
    return;
  }
  std::visit([this](const auto& value) { insert(value); }, item);
}

void StagingRows::write_waiting() {
  if (!rank_) rank_ = 0;
  for (const StagingItem& item : std::exchange(waiting_, {})) {
    std::visit([this](const auto& value) { insert(value); }, item);
  }
}

void StagingRows::write_dropped(std::int64_t rows) {
  statement("dropped").run(run_, rank(), rows);
}

void StagingRows::insert(const RankStart&) {
  insert_rank("running", std::nullopt, "");
}

void StagingRows::insert(const RunEnd& end) {
  insert_rank(end.status, end.steps, end.text);
}

void StagingRows::insert_rank(const std::string& status, std::optional<std::int64_t> steps, const std::string& message) {
  if (!start_) return;  // A rank that never started has nothing to end.
  const RankStart& s = *start_;
  statement("rank").run(run_, s.rank, s.world_size, s.local_rank, s.pid, s.host, s.build_id, s.utc_ns, s.monotonic_ns, status, steps, message);
}

void StagingRows::insert(const SettingValue& setting) {
  statement("setting").run(run_, rank(), setting.key, setting.value, setting.origin);
}

void StagingRows::insert(const EnvironmentFact& fact) {
  const std::optional<std::string> value = fact.why_null.empty() ? std::optional(fact.value) : std::nullopt;
  statement("environment").run(run_, rank(), fact.key, value, fact.source, fact.why_null);
}

void StagingRows::insert(const DatasetSeen& d) {
  statement("dataset").run(run_, rank(), d.purpose, d.size, d.rows, to_hex(d.digest));
}

void StagingRows::insert(const Shard& s) {
  statement("shard").run(run_, rank(), s.purpose, s.epoch, s.pass, s.round, s.global_batch, s.step, s.rank, ids_to_text(s.ids), s.real, s.filler,
                         hex16(s.stream_key), to_hex(s.digest));
}

void StagingRows::insert(const Step& s) {
  const Position& p = s.position;
  statement("step").run(run_, rank(), s.step, static_cast<std::int64_t>(p.data_seed), p.epoch, p.batch_index, p.micro_step, p.optimizer_step,
                        p.samples_seen, s.micro_batches, s.samples_counted, s.samples_set, Real{s.loss_numerator}, Real{s.loss_denominator},
                        Real{s.norm_raw}, Real{s.clip_max}, Real{s.clip_factor}, s.skipped, to_hex(s.root_raw), to_hex(s.root_clipped),
                        to_hex(s.root_update), to_hex(s.root_before), to_hex(s.root_after), to_hex(s.root_moments_before),
                        to_hex(s.root_moments_after));
}

void StagingRows::insert(const GroupStep& g) {
  statement("group_step")
      .run(run_, rank(), g.step, g.group, g.optimizer, Real{g.learning_rate}, Real{g.weight_decay}, Real{g.beta1}, Real{g.beta2}, Real{g.epsilon},
           Real{g.momentum});
}

std::int64_t StagingRows::tensor_id(const TensorTrace& trace) {
  const std::string shape = shape_to_text(trace.shape);
  std::string key = trace.name + '\n' + trace.dtype + '\n' + shape;
  const auto known = tensor_ids_.find(key);
  if (known != tensor_ids_.end()) return known->second;
  // Asked of the file, not counted here: a second writer of the same file (a program attached twice) adds names too.
  Statement find(database_, "SELECT id FROM tensor_name WHERE run=? AND rank=? AND name=? AND dtype=? AND shape=?");
  find.bind(run_, rank(), trace.name, trace.dtype, shape);
  std::int64_t id = 0;
  if (find.step()) {
    id = find.integer();
  } else {
    id = database_.integer("SELECT coalesce(max(id), -1) + 1 FROM tensor_name");
    statement("tensor_name").run(run_, rank(), id, trace.name, trace.dtype, shape, trace.numel);
  }
  tensor_ids_.emplace(std::move(key), id);
  return id;
}

void StagingRows::insert(const TensorTrace& t) {
  const std::int64_t id = tensor_id(t);
  std::optional<Blob> sketch;
  if (!t.sketch.empty()) sketch = Blob{t.sketch.data(), t.sketch.size() * sizeof(double)};
  statement("tensor").run(run_, rank(), t.step, t.stage, id, t.rank, t.micro_batch, to_hex(t.digest), Real{t.norm}, Real{t.abs_norm}, sketch, t.file);
}

void StagingRows::insert(const LockedRow& r) {
  statement("locked").run(run_, rank(), r.of_run, r.step, r.precision, r.stage, r.name, Real{r.distance}, Real{r.scale}, Real{r.common_scale},
                          r.terms, r.text);
}

void StagingRows::insert(const Metric& m) {
  statement("metric").run(run_, rank(), m.step, m.epoch, m.name, Real{m.value}, m.rule, m.purpose, m.pass, Real{m.numerator}, Real{m.denominator},
                          m.rows);
}

void StagingRows::insert(const SampleValues& v) {
  const Blob values{v.values.data(), v.values.size() * sizeof(double)};
  statement("sample_value").run(run_, rank(), v.step, v.epoch, v.purpose, v.pass, v.name, v.columns, ids_to_text(v.ids), values);
}

void StagingRows::insert(const Phase& p) {
  statement("phase").run(run_, rank(), p.step, p.data_ns, p.compute_ns, p.exposed_ns, p.optimizer_ns, p.checkpoint_ns, p.evaluation_ns,
                         p.recording_ns, p.other_ns, p.wall_ns);
}

void StagingRows::insert(const RunPhase& p) {
  statement("run_phase").run(run_, rank(), p.name, p.ns);
}

void StagingRows::insert(const CheckpointCommitted& c) {
  const Position& p = c.position;
  statement("checkpoint")
      .run(run_, rank(), p.optimizer_step, c.path, static_cast<std::int64_t>(p.data_seed), p.epoch, p.batch_index, p.micro_step, p.optimizer_step,
           p.samples_seen, c.bytes, c.manifest_sha256);
}

void StagingRows::insert(const StateLeaf& leaf) {
  statement("state_leaf").run(run_, rank(), leaf.step, leaf.moment, leaf.path, to_hex(leaf.digest));
}

void StagingRows::insert(const StampedEvent& stamped) {
  const RunEvent& e = stamped.event;
  statement("event").run(run_, rank(), stamped.utc_ns, e.step, e.severity, e.kind, e.text);
}

}  // namespace samerun::recorder
