#include <c10/core/DeviceType.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "communicator.h"
#include "launch_environment.h"
#include "nccl_library.h"
#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

class C10dCommunicator final : public Communicator {
 public:
  C10dCommunicator(const LaunchInfo& launch, int timeout_s, NcclLibrary* nccl) : launch_(launch), nccl_(nccl != nullptr) {
    const auto timeout = std::chrono::milliseconds(std::int64_t{1000} * timeout_s);
    try {
      c10d::TCPStoreOptions store_options;
      store_options.port = static_cast<std::uint16_t>(launch.store_port);
      store_options.isServer = launch.rank == 0;
      store_options.numWorkers = static_cast<std::size_t>(launch.world_size);
      store_options.timeout = timeout;
      if (launch.rank == 0 && launch.store_fd) store_options.masterListenFd = *launch.store_fd;
      store_ = c10::make_intrusive<c10d::TCPStore>(launch.store_host, store_options);
      auto options = c10d::ProcessGroupGloo::Options::create(timeout);
      options->devices.push_back(launch.store_host == "127.0.0.1" ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                                                  : c10d::ProcessGroupGloo::createDefaultDevice());
      auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store_, launch.rank, launch.world_size, options);
      group_ = c10::make_intrusive<c10d::ProcessGroup>(store_, launch.rank, launch.world_size);
      group_->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
      group_->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, std::optional<c10::intrusive_ptr<c10d::Backend>>(gloo));
      if (nccl != nullptr) {
        // Tensors on GPUs go through NCCL; counts and texts stay on the CPU, and with Gloo.
        const auto prefixed = c10::make_intrusive<c10d::PrefixStore>("nccl", store_);
        group_->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL,
                           std::optional(nccl->make_backend(prefixed, launch.rank, launch.world_size, timeout)));
      }
    } catch (const std::exception& error) {
      const std::string text = error.what();
      const bool taken = text.find("EADDRINUSE") != std::string::npos;
      const std::string advice =
          taken ? "the store's port is taken; choose another MASTER_PORT, or start the ranks with `samerun launch`, which holds its own: "
                : "the ranks did not find each other; see that all were started with this host and port, and that none has ended: ";
      throw Error(ErrorCode::kRendezvous, advice + text.substr(0, text.find('\n')),
                  {{"store", launch.store_host + ":" + std::to_string(launch.store_port)}, {"launcher", launch.source}}, launch.rank);
    }
  }

  int rank() const override { return launch_.rank; }
  int world_size() const override { return launch_.world_size; }
  std::string backend() const override { return nccl_ ? "nccl" : "gloo"; }

  PendingReduction all_reduce(at::Tensor& tensor, Reduction op) override {
    c10d::AllreduceOptions options;
    options.reduceOp = op == Reduction::kSum ? c10d::ReduceOp::SUM : op == Reduction::kMin ? c10d::ReduceOp::MIN : c10d::ReduceOp::MAX;
    std::vector<at::Tensor> tensors{tensor};
    return guarded("all_reduce", [&] { return PendingReduction(group_->allreduce(tensors, options)->getFuture()); });
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& tensor) override {
    std::vector<at::Tensor> input{tensor.contiguous()};
    std::vector<std::vector<at::Tensor>> output(1);
    for (int r = 0; r < world_size(); ++r) output[0].push_back(at::empty_like(input[0]));
    guarded("all_gather", [&] { return group_->allgather(output, input)->wait(); });
    return output[0];
  }

  void broadcast(at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    guarded("broadcast", [&] { return group_->broadcast(tensors, options)->wait(); });
  }

  void barrier() override {
    guarded("barrier", [&] { return group_->barrier()->wait(); });
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group() override { return group_; }

 private:
  template <class Call>
  auto guarded(const char* what, Call call) -> decltype(call()) {
    try {
      return call();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      rethrow_communication(error, what, launch_.rank);
    }
  }

  LaunchInfo launch_;
  bool nccl_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

/// One rank: every collective is the identity.
class LocalCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  std::string backend() const override { return "none"; }
  PendingReduction all_reduce(at::Tensor&, Reduction) override { return PendingReduction(nullptr); }
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor) override { return {tensor.clone()}; }
  void broadcast(at::Tensor&, int) override {}
  void barrier() override {}
  c10::intrusive_ptr<c10d::ProcessGroup> group() override { return {}; }
};

}  // namespace

void rethrow_communication(const std::exception& error, const std::string& what, int rank) {
  const std::string text = error.what();
  auto reason = text.substr(0, std::min(text.find('\n'), text.find(" This is typically caused")));                 // Gloo's advice is about itself
  if (reason.starts_with("[/") && reason.find("] ") != std::string::npos) reason.erase(0, reason.find("] ") + 2);  // its place in Gloo's sources
  const bool timeout = text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
  throw Error(timeout ? ErrorCode::kTimeout : ErrorCode::kCommunication,
              what +
                  (timeout ? " waited too long for another rank; every rank must make the same collective calls in the same order, and a slow one "
                             "may need a larger SAMERUN_TIMEOUT_S"
                           : " failed; another rank has probably ended") +
                  ": " + reason,
              {}, rank);
}

void PendingReduction::wait() {
  if (!future_) return;
  future_->wait();
  if (!future_->hasError()) return;
  const auto text = future_->tryRetrieveErrorMessage();
  rethrow_communication(std::runtime_error(text), "all_reduce", -1);
}

std::shared_ptr<Communicator> make_communicator(const LaunchInfo& launch, int timeout_s, NcclLibrary* nccl) {
  if (launch.world_size == 1) return std::make_shared<LocalCommunicator>();
  return std::make_shared<C10dCommunicator>(launch, timeout_s, nccl);
}

}  // namespace samerun::detail
