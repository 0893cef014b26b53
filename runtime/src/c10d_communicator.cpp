#include <ATen/Parallel.h>
#include <c10/core/DeviceType.h>
#include <sched.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <exception>
#include <numeric>

#include "communicator.h"
#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

using Kind = CollectiveBackend::Kind;
using BackendType = c10d::ProcessGroup::BackendType;

/// The threads that compute and the one of each rank that waits for MPI are more than the cores.
bool oversubscribed(const LaunchInfo& launch) {
  const int ranks = launch.local_world_size > 0 ? launch.local_world_size : launch.world_size;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return true;
  return std::int64_t{ranks} * (at::get_num_threads() + 1) > CPU_COUNT(&cores);
}

/// MPI runs, and says of this process what the launcher says.
void start_mpi(const LaunchInfo& launch, MpiLibrary& mpi, std::chrono::milliseconds timeout) {
  const auto place = mpi.start({launch.local_world_size == launch.world_size, oversubscribed(launch)}, timeout);
  if (place.rank == launch.rank && place.size == launch.world_size) return;
  throw Error(ErrorCode::kRendezvous,
              "MPI says that this is rank " + std::to_string(place.rank) + " of " + std::to_string(place.size) + ", and " + launch.source +
                  " says rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.world_size) +
                  "; start the ranks with `samerun launch --backend mpi`, or choose --backend gloo",
              {{"mpi", mpi.version()}}, launch.rank);
}

class C10dCommunicator final : public Communicator {
 public:
  C10dCommunicator(const LaunchInfo& launch, int timeout_s, const CollectiveBackend& backend)
      : launch_(launch), backend_(backend), timeout_(std::int64_t{1000} * timeout_s), exceptions_(std::uncaught_exceptions()) {
    if (backend_.mpi) start_mpi(launch_, *backend_.mpi, timeout_);
    try {
      make_store();
      group_ = c10::make_intrusive<c10d::ProcessGroup>(store_, launch_.rank, launch_.world_size);
      backend_.mpi ? add_mpi() : add_gloo();
      if (backend_.nccl) add_nccl();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      const bool taken = text.find("EADDRINUSE") != std::string::npos;
      const std::string advice =
          taken ? "the store's port is taken; choose another MASTER_PORT, or start the ranks with `samerun launch`, which holds its own: "
                : "the ranks did not find each other; see that all were started with this host and port, and that none has ended: ";
      throw Error(ErrorCode::kRendezvous, advice + text.substr(0, text.find('\n')),
                  {{"store", launch_.store_host + ":" + std::to_string(launch_.store_port)}, {"launcher", launch_.source}}, launch_.rank);
    }
  }

  /// MPI's end waits for all ranks: one that fails must not wait, and rank 0 serves the store until all have left their groups.
  ~C10dCommunicator() override {
    group_.reset();
    if (backend_.mpi && std::uncaught_exceptions() == exceptions_) backend_.mpi->finish(timeout_);
  }

  int rank() const override { return launch_.rank; }
  int world_size() const override { return launch_.world_size; }
  std::string backend() const override { return name_of(backend_.kind); }

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

  /// Rank 0 serves the store. Where nobody named a port MPI passes it on.
  void make_store() {
    const bool serves = launch_.rank == 0, named = launch_.store_port != 0 || launch_.store_fd.has_value();
    if (!named && !serves) launch_.store_port = std::stoi(backend_.mpi->broadcast_text("", timeout_));
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(launch_.store_port);
    options.isServer = serves;
    options.waitWorkers = named;
    options.numWorkers = static_cast<std::size_t>(launch_.world_size);
    options.timeout = timeout_;
    if (serves && launch_.store_fd) options.masterListenFd = *launch_.store_fd;
    const auto store = c10::make_intrusive<c10d::TCPStore>(launch_.store_host, options);
    if (!named && serves) backend_.mpi->broadcast_text(std::to_string(store->getPort()), timeout_);
    store_ = store;
  }

  void add(c10::DeviceType device, BackendType type, const c10::intrusive_ptr<c10d::Backend>& backend) {
    group_->setBackend(device, type, std::optional(backend));
  }

  void add_gloo() {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout_);
    options->devices.push_back(launch_.store_host == "127.0.0.1" ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                                                 : c10d::ProcessGroupGloo::createDefaultDevice());
    group_->setDefaultBackend(BackendType::GLOO);
    add(c10::DeviceType::CPU, BackendType::GLOO, c10::make_intrusive<c10d::ProcessGroupGloo>(store_, launch_.rank, launch_.world_size, options));
  }

  void add_mpi() {
    std::vector<int> ranks(static_cast<std::size_t>(launch_.world_size));
    std::iota(ranks.begin(), ranks.end(), 0);
    group_->setDefaultBackend(BackendType::CUSTOM);
    const auto positions = c10::make_intrusive<c10d::PrefixStore>("mpi", store_);
    add(c10::DeviceType::CPU, BackendType::CUSTOM, backend_.mpi->make_backend(positions, ranks, timeout_));
  }

  /// Tensors on GPUs go through NCCL; counts and texts stay on the CPU, and with Gloo.
  void add_nccl() {
    const auto prefixed = c10::make_intrusive<c10d::PrefixStore>("nccl", store_);
    add(c10::DeviceType::CUDA, BackendType::NCCL, backend_.nccl->make_backend(prefixed, launch_.rank, launch_.world_size, timeout_));
  }

  LaunchInfo launch_;
  CollectiveBackend backend_;
  std::chrono::milliseconds timeout_;
  int exceptions_;
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

std::shared_ptr<Communicator> make_communicator(const LaunchInfo& launch, int timeout_s, const CollectiveBackend& backend) {
  if (launch.world_size == 1) return std::make_shared<LocalCommunicator>();
  return std::make_shared<C10dCommunicator>(launch, timeout_s, backend);
}

}  // namespace samerun::detail
