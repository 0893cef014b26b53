// A training program that loses time on purpose: delay_fixture WHERE MILLISECONDS RANK, RANK -1 for all. WHERE: loader, compute, reduction,
// set-up, evaluation. At the end each rank prints "injected: NANOSECONDS", the sum of its delays by its own clock.
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <samerun/core/clock.h>
#include <samerun/samerun.h>

#include "seams.h"

namespace {

using samerun::detail::Communicator;
using samerun::detail::PendingReduction;
using samerun::detail::Reduction;

std::string where;
std::int64_t delay_ms = 0;
bool this_rank = false;
std::atomic<std::int64_t> injected_ns{0};

void delay(const std::string& place) {
  if (place != where || !this_rank) return;
  const auto begin_ns = samerun::monotonic_now_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  injected_ns += samerun::monotonic_now_ns() - begin_ns;
}

/// Each reduction of gradients is done later than it was.
class Late final : public Communicator {
 public:
  explicit Late(std::shared_ptr<Communicator> next) : next_(std::move(next)) {}
  ~Late() override {
    for (auto& thread : threads_) thread.join();
  }
  int rank() const override { return next_->rank(); }
  int world_size() const override { return next_->world_size(); }
  std::string backend() const override { return next_->backend(); }
  PendingReduction all_reduce(at::Tensor& tensor, Reduction op) override {
    auto pending = next_->all_reduce(tensor, op);
    if (where != "reduction" || tensor.scalar_type() != at::kFloat) return pending;
    const auto inner = pending.future();
    auto late = c10::make_intrusive<c10::ivalue::Future>(inner->elementType());
    threads_.emplace_back([inner, late] {
      inner->wait();
      delay("reduction");
      late->markCompleted(inner->value());
    });
    return PendingReduction(late);
  }
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor) override { return next_->all_gather(tensor); }
  void broadcast(at::Tensor& tensor, int root) override { next_->broadcast(tensor, root); }
  void barrier() override { next_->barrier(); }
  c10::intrusive_ptr<c10d::ProcessGroup> group() override { return next_->group(); }

 private:
  std::shared_ptr<Communicator> next_;
  std::vector<std::thread> threads_;
};

class Rows final : public samerun::Dataset {
 public:
  explicit Rows(bool training) : training_(training) {}
  std::string name() const override { return "rows"; }
  std::int64_t size() const override { return 64; }
  samerun::Batch get(const std::vector<std::int64_t>& ids, const std::vector<std::uint64_t>&) const override {
    if (training_) delay("loader");
    samerun::Batch batch;
    batch.data = torch::tensor(ids, at::kFloat).unsqueeze(1) / 64;
    batch.target = batch.data * 2;
    return batch;
  }

 private:
  bool training_;
};

void train(samerun::Accelerator& accelerator) {
  torch::nn::Linear model(1, 1);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  auto loader = accelerator.prepare_loader(std::make_shared<Rows>(true), {.batch_size = 2});
  auto evaluation = accelerator.prepare_loader(std::make_shared<Rows>(false), {.batch_size = 16, .training = false});
  auto [net, opt] = accelerator.prepare(model, optimizer);
  delay("set-up");
  for ([[maybe_unused]] auto epoch : accelerator.epochs(2)) {
    for (auto& batch : loader) {
      auto window = accelerator.accumulate(net);
      auto loss = torch::mse_loss(net->forward(batch.data), batch.target);
      delay("compute");
      accelerator.backward(loss, static_cast<double>(batch.size));
      opt.step();
      opt.zero_grad();
    }
    for ([[maybe_unused]] auto& batch : evaluation) delay("evaluation");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  where = argv[1];
  delay_ms = std::stoll(argv[2]);
  samerun::detail::seam_decorator = [](samerun::detail::Seams& seams) {
    seams.communicator = [](std::shared_ptr<Communicator> next) { return std::make_shared<Late>(std::move(next)); };
  };
  {
    samerun::Accelerator accelerator(samerun::options_from(argc, argv));
    this_rank = std::stoi(argv[3]) < 0 || std::stoi(argv[3]) == accelerator.rank();
    train(accelerator);
  }
  std::printf("injected: %lld\n", static_cast<long long>(injected_ns.load()));
  return 0;
}
