#include "reader_impl.h"

// What a run yields besides its steps: metrics, phases, checkpoints, and what comparisons found.
namespace samerun::recorder {

std::vector<MetricRow> Reader::metrics(std::int64_t run) const {
  const auto make = [](Statement& s) {
    MetricRow row;
    Metric& metric = row.metric;
    row.rank = s.small();
    metric.step = s.integer();
    metric.epoch = s.integer();
    metric.name = s.text();
    metric.value = s.real();
    metric.rule = s.text();
    metric.purpose = s.text();
    metric.pass = s.integer();
    metric.numerator = s.real();
    metric.denominator = s.real();
    metric.rows = s.integer();
    return row;
  };
  return impl_->rows<MetricRow>(
      "SELECT rank, step, epoch, name, value, value_kind, rule, purpose, pass, numerator, numerator_kind, denominator, denominator_kind, rows "
      "FROM metric WHERE run=? ORDER BY name, step, rank, rowid",
      make, run);
}

std::vector<SampleValuesRow> Reader::sample_values(std::int64_t run) const {
  const auto make = [](Statement& s) {
    SampleValuesRow row;
    SampleValues& values = row.values;
    row.rank = s.small();
    values.step = s.integer();
    values.epoch = s.integer();
    values.purpose = s.text();
    values.pass = s.integer();
    values.name = s.text();
    values.columns = s.integer();
    values.ids = ids_from_text(s.text());
    values.values = doubles_from(s);
    if (values.columns < 1 || values.values.size() != values.ids.size() * static_cast<std::size_t>(values.columns)) {
      throw Error(ErrorCode::kCorruption, "values of a metric in the record do not fit its samples", {{"metric", values.name}});
    }
    return row;
  };
  return impl_->rows<SampleValuesRow>(
      "SELECT rank, step, epoch, purpose, pass, name, columns, ids, vals FROM sample_value WHERE run=? ORDER BY purpose, pass, name, rank, rowid",
      make, run);
}

std::vector<PhaseRow> Reader::phases(std::int64_t run) const {
  const auto make = [](Statement& s) {
    PhaseRow row;
    Phase& phase = row.phase;
    row.rank = s.small();
    phase.step = s.integer();
    for (std::int64_t* part : {&phase.data_ns, &phase.compute_ns, &phase.exposed_ns, &phase.optimizer_ns, &phase.checkpoint_ns, &phase.evaluation_ns,
                               &phase.recording_ns, &phase.other_ns, &phase.wall_ns}) {
      *part = s.integer();
    }
    return row;
  };
  return impl_->rows<PhaseRow>(
      "SELECT rank, step, data_ns, compute_ns, exposed_ns, optimizer_ns, checkpoint_ns, evaluation_ns, recording_ns, other_ns, wall_ns "
      "FROM phase WHERE run=? ORDER BY step, rank",
      make, run);
}

std::vector<RunPhaseRow> Reader::run_phases(std::int64_t run) const {
  const auto make = [](Statement& s) {
    RunPhaseRow row;
    row.rank = s.small();
    row.phase.name = s.text();
    row.phase.ns = s.integer();
    return row;
  };
  return impl_->rows<RunPhaseRow>("SELECT rank, name, ns FROM run_phase WHERE run=? ORDER BY rank, rowid", make, run);
}

std::vector<CheckpointRow> Reader::checkpoints(std::int64_t run) const {
  const auto make = [](Statement& s) {
    CheckpointRow row;
    row.rank = s.small();
    row.checkpoint.path = s.text();
    row.checkpoint.position = position_from(s);
    row.checkpoint.bytes = s.integer();
    row.checkpoint.manifest_sha256 = s.text();
    return row;
  };
  return impl_->rows<CheckpointRow>(
      "SELECT rank, path, data_seed, epoch, batch_index, micro_step, optimizer_step, samples_seen, bytes, manifest_sha256 "
      "FROM checkpoint WHERE run=? ORDER BY step, rank, rowid",
      make, run);
}

std::vector<StateLeafRow> Reader::state_leaves(std::int64_t run) const {
  const auto make = [](Statement& s) {
    StateLeafRow row;
    row.rank = s.small();
    row.leaf.step = s.integer();
    row.leaf.moment = s.text();
    row.leaf.path = s.text();
    row.leaf.digest = digest_from(s);
    return row;
  };
  return impl_->rows<StateLeafRow>("SELECT rank, step, moment, path, digest FROM state_leaf WHERE run=? ORDER BY step, moment, path, rank, rowid",
                                   make, run);
}

std::vector<VerdictRow> Reader::verdicts(const std::string& group_id) const {
  const auto make = [](Statement& s) {
    VerdictRow row;
    row.id = s.integer();
    row.group_id = s.text();
    row.candidate = s.integer();
    row.reference = s.integer();
    row.word = s.text();
    row.summary = s.text();
    row.created_utc_ns = s.integer();
    return row;
  };
  const auto make_evidence = [](Statement& s) {
    EvidenceRow row;
    row.check = s.text();
    row.word = s.text();
    row.stage = s.text();
    row.tensor = s.text();
    row.step = s.integer();
    row.rank = s.small();
    row.value = s.real();
    row.limit = s.real();
    row.text = s.text();
    return row;
  };
  auto verdicts = impl_->rows<VerdictRow>(
      "SELECT id, group_id, candidate, reference, word, summary, created_utc_ns FROM verdict WHERE group_id=? ORDER BY id", make, group_id);
  for (VerdictRow& verdict : verdicts) {
    verdict.evidence = impl_->rows<EvidenceRow>(
        "SELECT check_name, word, stage, tensor, step, rank, value, value_kind, limit_value, limit_value_kind, text FROM evidence WHERE verdict=? "
        "ORDER BY ordinal",
        make_evidence, verdict.id);
  }
  return verdicts;
}

}  // namespace samerun::recorder
