// Times collectives of c10d over Gloo and over MPI, alternately, in one process a rank. Rank program of tests/bench/engine; rank 0 writes one JSON
// object: operation/bytes -> {"gloo_ms": [...], "mpi_ms": [...]}, a time a block, and the speed of memcpy.
//
//   bench_engine --out FILE [--blocks N] [--most-bytes N]        (samerun launch --backend mpi)
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "collective_backend.h"
#include "communicator.h"
#include "launch_environment.h"

namespace {

namespace engine = samerun::detail;
using Backend = c10::intrusive_ptr<c10d::Backend>;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string out;
  int blocks = 10;
  std::int64_t most_bytes = std::int64_t{25} << 20;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--out") {
      arguments.out = value;
    } else if (flag == "--blocks") {
      arguments.blocks = std::atoi(value.c_str());
    } else if (flag == "--most-bytes") {
      arguments.most_bytes = std::atoll(value.c_str());
    } else {
      throw std::runtime_error("unknown flag " + flag);
    }
  }
  if (argc % 2 == 0 || arguments.out.empty()) throw std::runtime_error("usage: bench_engine --out FILE [--FLAG VALUE]...");
  return arguments;
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Calls of one operation on `bytes` of float32.
class Calls {
 public:
  Calls(std::int64_t bytes, int ranks)
      : tensor_(torch::ones({bytes / 4})), all_(torch::ones({bytes / 4 * ranks})), even_(bytes / 4 / ranks * ranks), ranks_(ranks) {}

  std::map<std::string, std::function<void(Backend&)>> by_name() {
    return {
        {"all_reduce",
         [this](Backend& backend) {
           std::vector<torch::Tensor> tensors{tensor_};
           backend->allreduce(tensors, {})->wait();
         }},
        {"broadcast",
         [this](Backend& backend) {
           std::vector<torch::Tensor> tensors{tensor_};
           backend->broadcast(tensors, {})->wait();
         }},
        {"all_gather", [this](Backend& backend) { backend->_allgather_base(all_, tensor_, {})->wait(); }},
        {"reduce_scatter", [this](Backend& backend) { backend->_reduce_scatter_base(tensor_, all_, {})->wait(); }},
        {"all_to_all",
         [this](Backend& backend) {
           auto in = tensor_.narrow(0, 0, even_), out = all_.narrow(0, 0, even_);
           std::vector<std::int64_t> in_rows, out_rows;
           backend->alltoall_base(out, in, out_rows, in_rows, {})->wait();
         }},
    };
  }

 private:
  torch::Tensor tensor_, all_;
  std::int64_t even_;
  int ranks_;
};

Backend make_gloo(const engine::LaunchInfo& launch, const c10::intrusive_ptr<c10d::Store>& store) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>("bench", store), launch.rank, launch.world_size, options);
}

double memcpy_bytes_per_second() {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  double best_ms = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto start = Clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    best_ms = std::min(best_ms, milliseconds_since(start));
  }
  return static_cast<double>(kBytes) / (best_ms * 1e-3);
}

void write_list(std::ostream& out, const std::vector<double>& values) {
  out << "[";
  for (std::size_t i = 0; i < values.size(); ++i) out << (i > 0 ? ", " : "") << values[i];
  out << "]";
}

void run(const Arguments& arguments) {
  const auto launch = engine::read_launch_environment();
  engine::say_hello(launch);
  at::set_num_threads(1);
  const auto communicator = engine::make_communicator(launch, 120, engine::resolve_backend("mpi", launch, {}));
  auto mpi = communicator->group()->getBackend(c10::DeviceType::CPU);
  auto gloo = make_gloo(launch, communicator->group()->getStore());
  std::ostringstream json;
  json << "{\"memcpy\": " << memcpy_bytes_per_second();
  for (const std::int64_t bytes : {std::int64_t{4} << 10, std::int64_t{1} << 20, std::int64_t{5} << 20, std::int64_t{25} << 20}) {
    if (bytes > arguments.most_bytes) continue;
    Calls calls(bytes, launch.world_size);
    const int repeats = bytes <= (1 << 16) ? 50 : bytes <= (5 << 20) ? 8 : 3;
    for (auto& [name, call] : calls.by_name()) {
      std::vector<double> times[2];
      for (int block = -1; block < arguments.blocks; ++block) {
        for (const int turn : {0, 1}) {
          const int which = (block + turn) & 1;  // A B, B A: neither is always the one after the other
          auto& backend = which == 0 ? gloo : mpi;
          communicator->barrier();
          const auto start = Clock::now();
          for (int i = 0; i < repeats; ++i) call(backend);
          if (block >= 0) times[which].push_back(milliseconds_since(start) / repeats);
        }
      }
      json << ", \"" << name << "/" << bytes << "\": {\"gloo_ms\": ";
      write_list(json, times[0]);
      json << ", \"mpi_ms\": ";
      write_list(json, times[1]);
      json << "}";
    }
  }
  if (launch.rank == 0) std::ofstream(arguments.out) << json.str() << "}\n";
  communicator->barrier();
  engine::say_bye(launch);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "bench_engine: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
