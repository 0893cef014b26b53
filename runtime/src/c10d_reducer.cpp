#include <torch/csrc/autograd/engine.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <unordered_map>

#include "reducer.h"
#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

constexpr std::int64_t kFirstBucketBytes = 1 << 20;  // c10d's own: the first bucket is small, so that reduction starts early

class C10dReducer final : public GradientReducer {
 public:
  C10dReducer(const Trainable& model, std::shared_ptr<Communicator> communicator, const ReducerOptions& options, const Seams& seams,
              LocalObserver observe)
      : model_(model), communicator_(std::move(communicator)), options_(options), seams_(seams), observe_(std::move(observe)) {
    const auto parameters = model_.parameter_tensors();
    for (std::size_t i = 0; i < parameters.size(); ++i) index_of_[parameters[i].unsafeGetTensorImpl()] = i;
    auto buckets = buckets_of(parameters, {});
    std::reverse(buckets.begin(), buckets.end());  // backward reaches the last layers first
    make_reducer(std::move(buckets));
    watch_ready_order();
  }

  void backward(const at::Tensor& loss, const MicroBatch& micro) override {
    if (!micro.last || seams_.before_reduction) {
      loss.backward();
      if (micro.locked && observe_) observe_(model_.gradients(), micro);
      if (micro.last) reduce_by_hand(micro);
      return;
    }
    reducer_->rebuild_buckets();
    arm(micro);
    if (watching_) ready_order_.clear();
    reducer_->prepare_for_backward(options_.find_unused ? std::vector<at::Tensor>{loss} : std::vector<at::Tensor>{});
    loss.backward();
    require_all_parameters();
    end_watch();
    if (micro.locked && observe_) observe_(local_, micro);
  }

  void reset() override { model_.reset_gradients(); }

  std::vector<std::vector<at::Tensor>> running() const override { return {model_.gradients()}; }

  void set_running(std::vector<std::vector<at::Tensor>> values) override {
    const auto& parameters = model_.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) at::Tensor(parameters[i].tensor).mutable_grad() = values.at(0).at(i);
  }

  /// Rank 0's, as c10d has it.
  std::vector<std::int64_t> ready_order() override {
    if (options_.find_unused) return {};  // the buckets stay as they are
    const auto count = static_cast<std::int64_t>(model_.parameters().size());
    auto order = at::full({count}, -1, at::kLong);
    if (!watching_) order = at::tensor(ready_order_, at::kLong);
    communicator_->broadcast(order, 0);
    if (order[0].item<std::int64_t>() < 0) return {};
    return {order.data_ptr<std::int64_t>(), order.data_ptr<std::int64_t>() + count};
  }

  void set_ready_order(const std::vector<std::int64_t>& order) override {
    std::vector<at::Tensor> ordered;
    for (const auto index : order) ordered.push_back(model_.parameters().at(static_cast<std::size_t>(index)).tensor);
    reducer_.reset();  // it takes its hooks off the parameters before the next one puts its own on
    make_reducer(buckets_of(ordered, order));
    end_watch();
    ready_order_ = order;
  }

 private:
  class Hook final : public c10d::CommHookInterface {
   public:
    explicit Hook(C10dReducer& owner) : owner_(owner) {}
    c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override { return owner_.reduce_bucket(bucket); }
    at::Tensor parseHookResult(const c10::IValue& result) override { return result.isTensor() ? result.toTensor() : result.toTensorVector().at(0); }

   private:
    C10dReducer& owner_;
  };

  std::vector<std::vector<std::size_t>> buckets_of(const std::vector<at::Tensor>& parameters, const std::vector<std::int64_t>& indices) const {
    return std::get<0>(c10d::compute_bucket_assignment_by_size(
        parameters, {static_cast<std::size_t>(kFirstBucketBytes), static_cast<std::size_t>(options_.bucket_bytes)},
        std::vector<bool>(parameters.size(), false), indices));
  }

  void make_reducer(std::vector<std::vector<std::size_t>> buckets) {
    const auto parameters = model_.parameter_tensors();
    reducer_ = std::make_unique<c10d::Reducer>(parameters, std::move(buckets), communicator_->group(), std::vector<bool>(parameters.size(), false),
                                               options_.bucket_bytes, options_.find_unused,
                                               /*gradient_as_bucket_view=*/true, std::unordered_map<std::size_t, std::string>{}, kFirstBucketBytes,
                                               false, false, std::vector<std::int64_t>{});
    reducer_->register_comm_hook(std::make_unique<Hook>(*this));
  }

  /// c10d cuts its buckets anew after the first reduction, by the order in which gradients became ready in it, and does not tell it.
  void watch_ready_order() {
    watching_ = !options_.find_unused;
    if (!watching_) return;
    const auto parameters = model_.parameter_tensors();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      watchers_.push_back(parameters[i].register_hook([this, i](const at::Tensor&) { see_ready(static_cast<std::int64_t>(i)); }));
  }

  /// A block that is computed again in backward calls the hook once more, before its gradient is accumulated: the last call counts.
  void see_ready(std::int64_t parameter) {
    std::erase(ready_order_, parameter);
    ready_order_.push_back(parameter);
  }

  void end_watch() {
    if (!watching_) return;
    watching_ = false;
    for (std::size_t i = 0; i < watchers_.size(); ++i) model_.parameters()[i].tensor.remove_hook(watchers_[i]);
    watchers_.clear();
  }

  void arm(const MicroBatch& micro) {
    locked_ = micro.locked;
    waiting_ = false;
    reached_.assign(model_.parameters().size(), false);
    local_.assign(micro.locked ? model_.parameters().size() : 0, {});
    before_.clear();
    for (const auto& gradient : model_.gradients()) before_.push_back(gradient.defined() ? gradient.const_data_ptr() : nullptr);
  }

  c10::intrusive_ptr<c10::ivalue::Future> reduce_bucket(c10d::GradBucket& bucket) {
    const auto parameters = bucket.getParameters();
    for (const auto& parameter : parameters) reached_[index_of_.at(parameter.unsafeGetTensorImpl())] = true;
    if (options_.spans != nullptr) torch::autograd::Engine::get_default_engine().queue_callback([this] { open_exposed(); });
    if (locked_ && observe_) {
      const auto gradients = bucket.getGradients();
      for (std::size_t i = 0; i < parameters.size(); ++i) local_[index_of_.at(parameters[i].unsafeGetTensorImpl())] = gradients[i].clone();
    }
    return communicator_->all_reduce(bucket.getBufferRef(), Reduction::kSum).future();
  }

  /// Autograd calls this once it has computed all gradients. Behind the last bucket's call c10d has queued its own, which waits for the
  /// reductions and copies out of the buckets; what is queued now comes after that.
  void open_exposed() {
    if (waiting_) return;
    waiting_ = true;
    options_.spans->open(SpanKind::kExposed);
    torch::autograd::Engine::get_default_engine().queue_callback([this] {
      options_.spans->close();
      waiting_ = false;
    });
  }

  /// c10d says nothing on the rank whose backward pass skipped a parameter; its peers wait for the time limit.
  void require_all_parameters() const {
    std::string names;
    int count = 0;
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      const auto& gradient = model_.parameters()[i].tensor.grad();
      // A gradient that arrived has moved into its bucket; one from earlier micro-batches of the window stands where it stood.
      const bool missing = !gradient.defined() || gradient.const_data_ptr() == before_[i];
      if (!reached_[i] && missing && ++count <= 8) names += (names.empty() ? "" : ", ") + model_.parameters()[i].name;
    }
    bool complete = true;
    for (const bool reached : reached_) complete = complete && reached;
    if (complete) return;
    throw Error(
        ErrorCode::kInvalidArgument,
        "backward() reached no gradient for " + (names.empty() ? std::string("some parameters") : names) + (count > 8 ? " and others" : "") +
            "; freeze what is not trained (requires_grad_(false)), or set options.find_unused_parameters = true where a branch is skipped on purpose",
        {}, communicator_->rank());
  }

  /// A test's seam sees all local gradients at once, so there is nothing to overlap.
  void reduce_by_hand(const MicroBatch& micro) {
    const torch::NoGradGuard guard;
    auto gradients = model_.gradients();
    const auto& parameters = model_.parameters();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) gradients[i] = at::zeros_like(parameters[i].tensor);
    }
    seams_.before_reduction(gradients, {micro.local_denominator, micro.step, communicator_->rank(), communicator_->world_size()});
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = gradients[i].contiguous();
      communicator_->all_reduce(gradients[i], Reduction::kSum).wait();
      at::Tensor(parameters[i].tensor).mutable_grad() = gradients[i];
    }
  }

  const Trainable& model_;
  std::shared_ptr<Communicator> communicator_;
  ReducerOptions options_;
  const Seams& seams_;
  LocalObserver observe_;
  std::unordered_map<const void*, std::size_t> index_of_;
  std::unique_ptr<c10d::Reducer> reducer_;
  bool locked_ = false;
  bool waiting_ = false;   ///< Nothing is left to compute in this backward pass.
  bool watching_ = false;  ///< No reduction is done yet.
  std::vector<unsigned> watchers_;
  std::vector<std::int64_t> ready_order_;  ///< Indices of parameters, once a reduction is done.
  std::vector<bool> reached_;
  std::vector<at::Tensor> local_;
  std::vector<const void*> before_;  ///< Where the gradients stood as the reducer was armed.
};

}  // namespace

std::unique_ptr<GradientReducer> make_c10d_reducer(const Trainable& model, std::shared_ptr<Communicator> communicator, const ReducerOptions& options,
                                                   const Seams& seams, LocalObserver observe) {
  return std::make_unique<C10dReducer>(model, std::move(communicator), options, seams, std::move(observe));
}

}  // namespace samerun::detail
