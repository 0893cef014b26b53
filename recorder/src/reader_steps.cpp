#include <algorithm>
#include <charconv>
#include <tuple>
#include <unordered_map>

#include "reader_impl.h"
#include "samerun/core/error.h"
#include "shape_text.h"

namespace samerun::recorder {
namespace {

std::uint64_t stream_key(const std::string& text) {
  std::uint64_t key = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorCode::kCorruption, "a stream key in the record is not 16 hex digits", {{"key", text}});
  }
  return key;
}

ShardRow shard_row(Statement& s) {
  ShardRow row;
  Shard& shard = row.shard;
  row.rank = s.small();
  shard.purpose = s.text();
  shard.epoch = s.integer();
  shard.pass = s.integer();
  shard.round = s.integer();
  shard.global_batch = s.integer();
  shard.step = s.integer();
  shard.rank = s.small();
  shard.ids = ids_from_text(s.text());
  shard.real = s.integer();
  shard.filler = s.flag();
  shard.stream_key = stream_key(s.text());
  shard.digest = digest_from(s);
  return row;
}

StepRow step_row(Statement& s) {
  StepRow row;
  Step& step = row.step;
  row.rank = s.small();
  step.step = s.integer();
  step.position = position_from(s);
  step.micro_batches = s.integer();
  step.samples_counted = s.integer();
  step.samples_set = s.integer();
  step.loss_numerator = s.real();
  step.loss_denominator = s.real();
  step.norm_raw = s.real();
  step.clip_max = s.real();
  step.clip_factor = s.real();
  step.skipped = s.flag();
  for (Digest* root : {&step.root_raw, &step.root_clipped, &step.root_update, &step.root_before, &step.root_after, &step.root_moments_before,
                       &step.root_moments_after}) {
    *root = digest_from(s);
  }
  return row;
}

GroupStepRow group_row(Statement& s) {
  GroupStepRow row;
  row.rank = s.small();
  row.group.step = s.integer();
  row.group.group = s.integer();
  row.group.optimizer = s.text();
  row.group.learning_rate = s.real();
  row.group.weight_decay = s.real();
  row.group.beta1 = s.real();
  row.group.beta2 = s.real();
  row.group.epsilon = s.real();
  row.group.momentum = s.real();
  return row;
}

LockedRow locked_row(Statement& s) {
  LockedRow row;
  row.of_run = s.integer();
  row.step = s.integer();
  row.precision = s.text();
  row.stage = s.text();
  row.name = s.text();
  row.distance = s.real();
  row.scale = s.real();
  row.common_scale = s.real();
  row.terms = s.integer();
  row.text = s.text();
  return row;
}

/// What all rows of one tensor share, and where its name stands among all names.
struct NamedTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::int64_t numel = 0;
  std::size_t order = 0;
};
using TensorNames = std::unordered_map<std::int64_t, NamedTensor>;

std::int64_t name_key(int rank, std::int64_t id) {
  return (std::int64_t{rank} << 40) | id;
}

TensorNames tensor_names(Database& database, std::int64_t run) {
  Statement statement(database, "SELECT rank, id, name, dtype, shape, numel FROM tensor_name WHERE run=? ORDER BY name");
  statement.bind(run);
  TensorNames names;
  std::string last;
  std::size_t order = 0;
  while (statement.step()) {
    const int rank = statement.small();
    const std::int64_t id = statement.integer();
    NamedTensor tensor{statement.text(), statement.text(), shape_from_text(statement.text()), statement.integer(), 0};
    if (tensor.name != last) ++order;
    last = tensor.name;
    tensor.order = order;
    names.emplace(name_key(rank, id), std::move(tensor));
  }
  return names;
}

struct OrderedTensor {
  std::size_t order;
  TensorRow row;
};

OrderedTensor tensor_row(Statement& s, const std::string& stage, const TensorNames& names) {
  OrderedTensor result;
  TensorTrace& trace = result.row.trace;
  trace.stage = stage;
  trace.step = s.integer();
  result.row.rank = s.small();
  const auto found = names.find(name_key(result.row.rank, s.integer()));
  if (found == names.end()) throw Error(ErrorCode::kCorruption, "a tensor row of the record has no name", {{"step", std::to_string(trace.step)}});
  const NamedTensor& tensor = found->second;
  result.order = tensor.order;
  trace.name = tensor.name;
  trace.dtype = tensor.dtype;
  trace.shape = tensor.shape;
  trace.numel = tensor.numel;
  trace.rank = s.small();
  trace.micro_batch = s.integer();
  trace.digest = digest_from(s);
  trace.norm = s.real();
  trace.abs_norm = s.real();
  trace.sketch = doubles_from(s);
  trace.file = s.text();
  return result;
}

void visit_sorted(std::vector<OrderedTensor>& rows, const std::function<void(const TensorRow&)>& visit) {
  std::stable_sort(rows.begin(), rows.end(), [](const OrderedTensor& a, const OrderedTensor& b) {
    const auto key = [](const OrderedTensor& x) { return std::make_tuple(x.order, x.row.rank, x.row.trace.rank, x.row.trace.micro_batch); };
    return key(a) < key(b);
  });
  for (const OrderedTensor& row : rows) visit(row.row);
  rows.clear();
}

}  // namespace

std::vector<DatasetRow> Reader::datasets(std::int64_t run) const {
  const auto make = [](Statement& s) {
    DatasetRow row;
    row.rank = s.small();
    row.dataset.purpose = s.text();
    row.dataset.size = s.integer();
    row.dataset.rows = s.integer();
    row.dataset.digest = digest_from(s);
    return row;
  };
  return impl_->rows<DatasetRow>("SELECT rank, purpose, size, rows, digest FROM dataset WHERE run=? ORDER BY purpose, rank", make, run);
}

std::vector<ShardRow> Reader::shards(std::int64_t run) const {
  return impl_->rows<ShardRow>(
      "SELECT rank, purpose, epoch, pass, round, global_batch, step, virtual_rank, ids, real, filler, stream_key, digest FROM shard WHERE run=? "
      "ORDER BY purpose, pass, global_batch, rank, rowid",
      shard_row, run);
}

std::vector<StepRow> Reader::steps(std::int64_t run) const {
  return impl_->rows<StepRow>(
      "SELECT rank, step, data_seed, epoch, batch_index, micro_step, optimizer_step, samples_seen, micro_batches, samples_counted, samples_set, "
      "loss_numerator, loss_numerator_kind, loss_denominator, loss_denominator_kind, norm_raw, norm_raw_kind, clip_max, clip_max_kind, "
      "clip_factor, clip_factor_kind, skipped, root_raw, root_clipped, root_update, root_before, root_after, root_moments_before, "
      "root_moments_after FROM step WHERE run=? ORDER BY step, rank",
      step_row, run);
}

std::vector<GroupStepRow> Reader::group_steps(std::int64_t run) const {
  return impl_->rows<GroupStepRow>(
      "SELECT rank, step, group_index, optimizer, learning_rate, learning_rate_kind, weight_decay, weight_decay_kind, beta1, beta1_kind, beta2, "
      "beta2_kind, epsilon, epsilon_kind, momentum, momentum_kind FROM group_step WHERE run=? ORDER BY step, group_index, rank",
      group_row, run);
}

std::vector<LockedRow> Reader::locked(std::int64_t run) const {
  return impl_->rows<LockedRow>(
      "SELECT of_run, step, precision, stage, name, distance, distance_kind, scale, scale_kind, common_scale, common_scale_kind, terms, text "
      "FROM locked WHERE run=? ORDER BY rowid",
      locked_row, run);
}

void Reader::tensors(std::int64_t run, const std::string& stage, const std::function<void(const TensorRow&)>& visit, std::optional<int> rank) const {
  Database& database = impl_->file.database();
  const TensorNames names = tensor_names(database, run);
  // The index gives the steps in order; the rows of one step are put in order here, since SQLite would sort whole rows.
  Statement statement(database,
                      "SELECT step, rank, tensor, virtual_rank, micro_batch, digest, norm, norm_kind, abs_norm, abs_norm_kind, sketch, file "
                      "FROM tensor INDEXED BY tensor_by_step WHERE run=?1 AND stage=?2 AND (?3 IS NULL OR rank=?3) ORDER BY step");
  statement.bind(run, stage, rank);
  std::vector<OrderedTensor> step;
  while (statement.step()) {
    OrderedTensor row = tensor_row(statement, stage, names);
    if (!step.empty() && step.front().row.trace.step != row.row.trace.step) visit_sorted(step, visit);
    step.push_back(std::move(row));
  }
  visit_sorted(step, visit);
}

}  // namespace samerun::recorder
