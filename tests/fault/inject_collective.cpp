// Faults in what collectives carry.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "inject.h"

namespace samerun::fault {
namespace {

using detail::Communicator;
using detail::PendingReduction;
using detail::Reduction;

/// Hands every collective on; `after` sees what an all-reduce of gradients brought (the four sums of a window are left alone), `gathered` what an
/// all-gather did.
class FaultyCommunicator final : public Communicator {
 public:
  FaultyCommunicator(std::shared_ptr<Communicator> inner, std::function<void(at::Tensor&)> before, std::function<void(at::Tensor&)> after,
                     std::function<void(Tensors&)> gathered)
      : inner_(std::move(inner)), before_(std::move(before)), after_(std::move(after)), gathered_(std::move(gathered)) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  std::string backend() const override { return inner_->backend(); }
  PendingReduction all_reduce(at::Tensor& tensor, Reduction op) override {
    if (op != Reduction::kSum || tensor.numel() <= 4 || world_size() == 1) return inner_->all_reduce(tensor, op);
    before_(tensor);
    inner_->all_reduce(tensor, op).wait();
    after_(tensor);
    auto done = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    done->markCompleted(c10::IValue(Tensors{tensor}));
    return PendingReduction(done);
  }
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor) override {
    auto gathered = inner_->all_gather(tensor);
    if (gathered_) gathered_(gathered);
    return gathered;
  }
  void broadcast(at::Tensor& tensor, int root) override { inner_->broadcast(tensor, root); }
  void barrier() override { inner_->barrier(); }
  c10::intrusive_ptr<c10d::ProcessGroup> group() override { return inner_->group(); }

 private:
  std::shared_ptr<Communicator> inner_;
  std::function<void(at::Tensor&)> before_, after_;
  std::function<void(Tensors&)> gathered_;
};

void wrap(Seams& seams, std::function<void(at::Tensor&, int rank)> before, std::function<void(at::Tensor&, int rank)> after) {
  seams.communicator = [=](std::shared_ptr<Communicator> inner) -> std::shared_ptr<Communicator> {
    const int rank = inner->rank();
    return std::make_shared<FaultyCommunicator>(
        std::move(inner), [=](at::Tensor& tensor) { before(tensor, rank); }, [=](at::Tensor& tensor) { after(tensor, rank); }, nullptr);
  };
}

// Gradients travel with `bits` bits of significand: 8 as in bfloat16, 11 as in float16 and TF32.
void reduce_rounded(Seams& seams, const Settings& settings) {
  const auto round = [settings](at::Tensor& tensor, int) {
    if (!settings.in_precision(tensor)) return;
    const auto [significand, exponent] = at::frexp(tensor);
    const double scale = std::exp2(settings.integer("bits", 8));
    tensor.copy_(at::ldexp((significand * scale).round() / scale, exponent));
  };
  wrap(seams, round, round);
}

// A part of what arrives is zeros.
void received_zeros(Seams& seams, const Settings& settings) {
  wrap(
      seams, [](at::Tensor&, int) {},
      [settings](at::Tensor& tensor, int rank) {
        if (!settings.at_rank(rank) || !settings.in_precision(tensor)) return;
        auto flat = tensor.view(-1);
        const auto count = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(flat.numel()) * settings.number("part", 0.01)));
        flat.slice(0, flat.numel() / 3, flat.numel() / 3 + count).zero_();
      });
}

// Running statistics of `rank` (-1: of every rank) are made from its own micro-batches: of what the others had, `share` is taken for its own.
void own_statistics(Seams& seams, const Settings& settings) {
  seams.communicator = [settings](std::shared_ptr<Communicator> inner) -> std::shared_ptr<Communicator> {
    const auto nothing = [](at::Tensor&) {};
    const int rank = inner->rank();
    return std::make_shared<FaultyCommunicator>(std::move(inner), nothing, nothing, [settings, rank](Tensors& gathered) {
      if (!settings.at_rank(rank) || gathered[0].scalar_type() != at::kDouble) return;
      const auto own = gathered[static_cast<std::size_t>(rank)].clone();
      for (auto& one : gathered) one = at::lerp(one, own, settings.number("share", 1));
    });
  };
}

}  // namespace

const Faults& collective_faults() {
  static const Faults faults{{"rounded_reduce", reduce_rounded}, {"zeros", received_zeros}, {"own_statistics", own_statistics}};
  return faults;
}

}  // namespace samerun::fault
