#include "samerun/runtime/loader.h"

#include <torch/types.h>

#include "capture.h"
#include "loader_impl.h"
#include "samerun/core/error.h"
#include "samerun/core/stream.h"

namespace samerun {
namespace detail {
namespace {

PlanOptions plan_options(const Engine& engine, const Dataset& dataset, const LoaderOptions& options) {
  PlanOptions plan;
  plan.size = dataset.size();
  plan.batch_size = options.batch_size;
  plan.world_size = engine.plan_world();
  plan.accumulation_steps = options.training ? engine.options.accumulation_steps.value() : 1;
  plan.shuffle = options.shuffle;
  plan.data_seed = options.data_seed;
  plan.uneven = options.uneven;
  plan.split_batches = options.split_batches;
  return engine.seams.plan ? engine.seams.plan(plan, options.training, engine.rank()) : plan;
}

std::string word(Uneven uneven) {
  switch (uneven) {
    case Uneven::kFiller:
      return "filler";
    case Uneven::kDuplicate:
      return "duplicate";
    case Uneven::kRagged:
      return "ragged";
    case Uneven::kDrop:
      return "drop";
  }
  return "filler";
}

/// All that decides which samples a batch has.
std::string plan_text(const std::string& dataset, const PlanOptions& plan) {
  return dataset + " size=" + std::to_string(plan.size) + " batch_size=" + std::to_string(plan.batch_size) +
         " world_size=" + std::to_string(plan.world_size) + " accumulation_steps=" + std::to_string(plan.accumulation_steps) +
         " shuffle=" + std::to_string(plan.shuffle) + " data_seed=" + std::to_string(plan.data_seed) + " uneven=" + word(plan.uneven) +
         " split_batches=" + std::to_string(plan.split_batches);
}

/// Digest of one row: its id, then its data and target bytes.
Digest sample_digest(std::int64_t id, const at::Tensor& data, const at::Tensor& target) {
  const std::array<Digest, 3> parts{digest_bytes(&id, sizeof id), digest_of(data), digest_of(target)};
  return digest_list(parts);
}

at::Tensor widened(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_floating_point() ? tensor.to(at::kDouble) : tensor;
}

/// The training thread waits for the copy: a batch that is used is there.
void move_to(c10::Device device, Batch& batch) {
  batch.data = batch.data.to(device);
  if (batch.target.defined()) batch.target = batch.target.to(device);
}

}  // namespace

LoaderImpl::LoaderImpl(Engine& engine, std::shared_ptr<Dataset> dataset, const LoaderOptions& options)
    : engine_(engine), dataset_(std::move(dataset)), options_(options), plan_(plan_options(engine, *dataset_, options)) {
  if (options_.purpose.empty()) options_.purpose = options_.training ? "train" : "evaluation";
  if (options_.workers < 0) throw Error(ErrorCode::kInvalidArgument, "workers must be at least 0", {}, engine.rank());
  seen_.purpose = options_.purpose;
  seen_.size = dataset_->size();
  const auto& plan = plan_.options();
  progress_ = engine_.add_loader({options_.purpose, plan_text(dataset_->name(), plan), options_.training});
  const auto text = [](const char* name, auto value) { return name + ("=" + std::to_string(value)); };
  require_agreement(*engine_.communicator, "the datasets", {"name=" + dataset_->name(), text("size", seen_.size)});
  require_agreement(
      *engine_.communicator, "the loaders' options",
      {"purpose=" + options_.purpose, text("training", options_.training), text("batch_size", options_.batch_size), text("shuffle", options_.shuffle),
       text("data_seed", options_.data_seed), "uneven=" + word(options_.uneven), text("split_batches", options_.split_batches)});
  if (options_.training) engine_.steps_per_epoch = plan_.windows();
  const auto emit = [&](const std::string& key, const std::string& value) {
    engine_.emit_setting(options_.purpose + "." + key, value, Origin::kArgument);
  };
  emit("dataset", dataset_->name());
  emit("size", std::to_string(seen_.size));
  emit("batch_size", std::to_string(options_.batch_size));
  emit("shuffle", options_.shuffle ? "true" : "false");
  emit("data_seed", std::to_string(options_.data_seed));
  emit("uneven", word(options_.uneven));
  emit("split_batches", options_.split_batches ? "true" : "false");
  emit("workers", std::to_string(options_.workers));
  const auto per_round = options_.split_batches ? plan.batch_size : plan.batch_size * plan.world_size;
  if (options_.training) emit("effective_batch", std::to_string(per_round * plan.accumulation_steps));
}

LoaderImpl::~LoaderImpl() = default;

std::int64_t LoaderImpl::batches() {
  return static_cast<std::int64_t>(epoch_slots(plan_, 0, engine_.rank(), options_.training, engine_.mode, engine_.seams).size());
}

void LoaderImpl::start_pass() {
  pool_.reset();
  if (!options_.training) engine_.spans.open_evaluation();
  if (options_.training) engine_.start_training_pass(*progress_);
  const std::int64_t first = options_.training ? progress_->cursor : 0;
  epoch_ = options_.training && !engine_.epochs_in_use ? progress_->pass : engine_.epoch;
  {
    const SpanTimer timer(engine_.spans, options_.training ? SpanKind::kDataWait : SpanKind::kEvaluation);
    slots_ = epoch_slots(plan_, epoch_, engine_.rank(), options_.training, engine_.mode, engine_.seams);
  }
  recording_ = engine_.recording();
  fingerprint_ = recording_ && !fingerprinted_ && first == 0;
  next_ = static_cast<std::size_t>(first);
  at_end_ = false;
  pool_ = std::make_unique<WorkerPool>(options_.workers, options_.prefetch, static_cast<std::int64_t>(slots_.size()) - first,
                                       [this, first](std::int64_t index) { return fetch(first + index); });
  advance();
}

/// Runs on a worker: reads, and digests what it read.
Fetched LoaderImpl::fetch(std::int64_t index) const {
  const auto& ref = slots_[static_cast<std::size_t>(index)].batch;
  std::vector<std::uint64_t> seeds;
  seeds.reserve(ref.ids.size());
  const auto seed = static_cast<std::uint64_t>(engine_.options.seed.value());
  for (const auto id : ref.ids) seeds.push_back(stream_key({seed, "sample", epoch_, id}));
  if (engine_.seams.sample_seeds) engine_.seams.sample_seeds(seeds, index, engine_.rank());
  Fetched fetched;
  fetched.batch = dataset_->get(ref.ids, seeds);
  auto& batch = fetched.batch;
  const auto rows = static_cast<std::int64_t>(ref.ids.size());
  if (!batch.data.defined() || batch.data.dim() == 0 || batch.data.size(0) != rows)
    throw Error(ErrorCode::kInvalidArgument, "the dataset '" + dataset_->name() + "' must give one row an id", {{"ids", std::to_string(rows)}},
                engine_.rank());
  batch.ids = ref.ids;
  batch.size = ref.real;
  batch.filler = ref.filler;
  if (recording_) {
    const std::array<Digest, 2> parts{digest_of(batch.data), digest_of(batch.target)};
    fetched.contents = digest_list(parts);
  }
  if (fingerprint_) {
    for (std::int64_t row = 0; row < ref.real; ++row) {
      fetched.samples = add(fetched.samples, sample_digest(ref.ids[static_cast<std::size_t>(row)], batch.data[row],
                                                           batch.target.defined() ? batch.target[row] : at::Tensor()));
    }
  }
  if (engine_.mode.float64) {
    batch.data = widened(batch.data);
    batch.target = widened(batch.target);
  }
  return fetched;
}

void LoaderImpl::advance() {
  if (options_.training) {
    engine_.leave_batch();
    engine_.spans.close_compute();
    progress_->cursor = static_cast<std::int64_t>(next_);
    engine_.current = {};  // the batch in hand is done
    engine_.between_batches();
  }
  const bool stopped = options_.training && engine_.stopping;
  if (stopped || next_ >= slots_.size()) {
    end_pass();
    return;
  }
  const auto& slot = slots_[next_++];
  Fetched fetched;
  {
    // An evaluation's waiting is part of the evaluation.
    const SpanTimer timer(engine_.spans, options_.training ? SpanKind::kDataWait : SpanKind::kEvaluation);
    fetched = pool_->next();
    if (engine_.compute.gpu()) move_to(engine_.compute.device, fetched.batch);
  }
  hand_over(slot, std::move(fetched));
}

void LoaderImpl::hand_over(const Slot& slot, Fetched fetched) {
  if (fingerprint_) {
    seen_.digest = add(seen_.digest, fetched.samples);
    seen_.rows += slot.batch.real;
  }
  batch_ = std::move(fetched.batch);
  if (engine_.recording()) {
    const SpanTimer timer(engine_.spans, SpanKind::kRecording);
    emit_shard(slot, fetched.contents);
  }
  engine_.batch_handed_over(slot, static_cast<std::int64_t>(slot.batch.ids.size()), options_.training, options_.purpose, epoch_, progress_->pass);
}

void LoaderImpl::emit_shard(const Slot& slot, const Digest& contents) const {
  Shard shard;
  shard.purpose = options_.purpose;
  shard.epoch = epoch_;
  shard.pass = progress_->pass;
  shard.round = slot.round;
  shard.global_batch = slot.batch.global_index;
  shard.step = options_.training ? engine_.position.optimizer_step : -1;
  shard.rank = slot.virtual_rank;
  shard.ids = slot.batch.ids;
  shard.real = slot.batch.real;
  shard.filler = slot.batch.filler;
  StreamName name{static_cast<std::uint64_t>(engine_.options.seed.value()),
                  slot.batch.filler ? std::string_view("filler") : std::string_view(options_.purpose), epoch_, slot.batch.global_index};
  if (engine_.seams.stream) name = engine_.seams.stream(name, engine_.rank());
  shard.stream_key = stream_key(name);
  shard.digest = contents;
  engine_.observers().on_shard(shard);
}

void LoaderImpl::end_pass() {
  at_end_ = true;
  if (!options_.training) engine_.spans.close_evaluation();
  pool_.reset();
  auto& batch = options_.training ? engine_.current : engine_.evaluation;
  batch = {};  // GCC 12 makes a broken string of `(a ? b : c) = {}`.
  if (options_.training) {
    engine_.pass_open = false;
    engine_.epoch_trained = true;
    progress_->cursor = -1;
  }
  progress_->pass += 1;
  if (fingerprint_) {
    fingerprint_ = false;
    fingerprinted_ = true;
    engine_.observers().on_dataset(seen_);
  }
}

}  // namespace detail

namespace {

class InMemory final : public Dataset {
 public:
  InMemory(std::string name, at::Tensor data, at::Tensor target) : name_(std::move(name)), data_(std::move(data)), target_(std::move(target)) {}
  std::string name() const override { return name_; }
  std::int64_t size() const override { return data_.size(0); }
  Batch get(const std::vector<std::int64_t>& ids, const std::vector<std::uint64_t>&) const override {
    const torch::NoGradGuard guard;
    const auto index = at::tensor(ids, at::kLong);
    Batch batch;
    batch.data = data_.index_select(0, index);
    if (target_.defined()) batch.target = target_.index_select(0, index);
    return batch;
  }

 private:
  std::string name_;
  at::Tensor data_, target_;
};

}  // namespace

std::shared_ptr<Dataset> tensor_dataset(std::string name, at::Tensor data, at::Tensor target) {
  if (!data.defined() || data.dim() == 0)
    throw Error(ErrorCode::kInvalidArgument, "a dataset's data must have at least one dimension", {{"dataset", name}});
  if (target.defined() && (target.dim() == 0 || target.size(0) != data.size(0)))
    throw Error(ErrorCode::kInvalidArgument, "data and target must have equally many rows", {{"dataset", name}});
  return std::make_shared<InMemory>(std::move(name), std::move(data), std::move(target));
}

Batch& Loader::Iterator::operator*() const {
  return loader_->batch();
}
Loader::Iterator& Loader::Iterator::operator++() {
  loader_->advance();
  return *this;
}
bool Loader::Iterator::operator!=(const Iterator&) const {
  return !loader_->at_end();
}

Loader::Iterator Loader::begin() {
  impl_->start_pass();
  return Iterator(impl_.get());
}
Loader::Iterator Loader::end() {
  return Iterator(impl_.get());
}
std::int64_t Loader::batches() const {
  return impl_->batches();
}
std::int64_t Loader::steps() const {
  return impl_->steps();
}
const PlanOptions& Loader::plan() const {
  return impl_->plan().options();
}

}  // namespace samerun
