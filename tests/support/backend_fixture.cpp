// Collectives as c10d's backends carry them, without a training loop: backend_fixture MODE. Prints "ok WHAT" for each claim that holds on this
// rank, "WRONG WHAT" for one that does not.
#include <torch/torch.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "collective_backend.h"
#include "communicator.h"
#include "launch_environment.h"
#include "samerun/core/digest.h"
#include "samerun/core/launch_contract.h"
#include "samerun/core/settings.h"

namespace {

namespace engine = samerun::detail;
using Backend = c10::intrusive_ptr<c10d::Backend>;
using Op = c10d::ReduceOp;
using Tensors = std::vector<torch::Tensor>;

void claim(bool holds, const std::string& what) {
  std::printf("%s %s\n", holds ? "ok" : "WRONG", what.c_str());
  std::fflush(stdout);
}

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

/// What `call` throws; empty: nothing.
std::string thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Digits of base 3, one place a rank: a sum shows who was counted, how often and at which element. At most 80 with 4 ranks: exact in each dtype.
torch::Tensor digits(int rank, std::int64_t count) {
  std::int64_t place = 1;
  for (int r = 0; r < rank; ++r) place *= 3;
  return (torch::arange(count, torch::kLong) + rank) % 3 * place;
}

torch::Tensor contribution(int rank, std::int64_t count, const Op& op, at::ScalarType dtype) {
  auto values = digits(rank, count);
  if (static_cast<Op::RedOpType>(op) == Op::PRODUCT) values = (torch::arange(count, torch::kLong) + rank) % 3 + 1;
  if (dtype == at::kBool) values = values % 2;
  return values.to(dtype);
}

torch::Tensor expected(int ranks, std::int64_t count, const Op& op, at::ScalarType dtype) {
  const auto counted = c10::isComplexType(dtype) ? at::kLong : dtype;
  auto result = contribution(0, count, op, counted).to(torch::kLong);
  const auto kind = static_cast<Op::RedOpType>(op);
  for (int r = 1; r < ranks; ++r) {
    const auto next = contribution(r, count, op, counted).to(torch::kLong);
    switch (kind) {
      case Op::PRODUCT:
        result = result * next;
        break;
      case Op::MIN:
        result = torch::minimum(result, next);
        break;
      case Op::MAX:
        result = torch::maximum(result, next);
        break;
      case Op::BAND:
        result = result.bitwise_and(next);
        break;
      case Op::BOR:
        result = result.bitwise_or(next);
        break;
      case Op::BXOR:
        result = result.bitwise_xor(next);
        break;
      default:
        result = result + next;
    }
  }
  if (kind == Op::AVG) return (result.to(torch::kDouble) / ranks).to(dtype == at::kDouble ? at::kDouble : at::kFloat).to(dtype);
  return result.to(dtype);
}

bool same(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && torch::equal(a, b);
}

struct Case {
  at::ScalarType dtype;
  std::vector<Op::RedOpType> ops;
};

const std::vector<Case>& cases() {
  using enum Op::RedOpType;
  static const std::vector<Case> all{
      {at::kDouble, {SUM, AVG, PRODUCT, MIN, MAX}},
      {at::kFloat, {SUM, AVG, PRODUCT, MIN, MAX}},
      {at::kHalf, {SUM, AVG, PRODUCT, MIN, MAX}},
      {at::kBFloat16, {SUM, AVG, PRODUCT, MIN, MAX}},
      {at::kLong, {SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR}},
      {at::kInt, {SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR}},
      {at::kShort, {SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR}},
      {at::kChar, {SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR}},
      {at::kByte, {SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR}},
      {at::kBool, {SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR}},
      {at::kComplexFloat, {SUM}},
      {at::kComplexDouble, {SUM}},
  };
  return all;
}

const std::vector<std::int64_t> kCounts{0, 1, 2, 3, 7, 61, 1000, 4099};

struct Probe {
  Backend backend;
  int rank, ranks;

  void reductions(const Case& of, Op op, std::int64_t count, bool& all_reduce, bool& reduce, bool& reduce_scatter) {
    const auto whole = expected(ranks, count, op, of.dtype);
    Tensors tensor{contribution(rank, count, op, of.dtype)};
    c10d::AllreduceOptions all_options;
    all_options.reduceOp = op;
    backend->allreduce(tensor, all_options)->wait();
    all_reduce &= same(tensor[0], whole);

    const int root = ranks - 1;
    Tensors at_root{contribution(rank, count, op, of.dtype)};
    c10d::ReduceOptions reduce_options;
    reduce_options.reduceOp = op;
    reduce_options.rootRank = root;
    backend->reduce(at_root, reduce_options)->wait();
    reduce &= same(at_root[0], rank == root ? whole : contribution(rank, count, op, of.dtype));

    auto input = contribution(rank, count * ranks, op, of.dtype);
    auto output = torch::empty({count}, of.dtype);
    c10d::ReduceScatterOptions scatter_options;
    scatter_options.reduceOp = op;
    backend->_reduce_scatter_base(output, input, scatter_options)->wait();
    reduce_scatter &= same(output, expected(ranks, count * ranks, op, of.dtype).narrow(0, rank * count, count));
    Tensors outputs{torch::empty({count}, of.dtype)};
    std::vector<Tensors> inputs{{}};
    for (int r = 0; r < ranks; ++r) inputs[0].push_back(input.narrow(0, r * count, count).clone());
    backend->reduce_scatter(outputs, inputs, scatter_options)->wait();
    reduce_scatter &= same(outputs[0], output);
  }

  void all_reductions() {
    for (const auto& of : cases()) {
      for (const auto kind : of.ops) {
        bool all_reduce = true, reduce = true, reduce_scatter = true;
        for (const auto count : kCounts) reductions(of, kind, count, all_reduce, reduce, reduce_scatter);
        const std::string what = std::string(c10::toString(of.dtype)) + " operator " + std::to_string(kind);
        claim(all_reduce, "all_reduce " + what);
        claim(reduce, "reduce " + what);
        claim(reduce_scatter, "reduce_scatter " + what);
      }
    }
  }

  torch::Tensor own(int of, std::int64_t count, at::ScalarType dtype) { return (digits(of, count) + of).to(dtype); }

  bool broadcasts(std::int64_t count, at::ScalarType dtype) {
    bool holds = true;
    for (int root = 0; root < ranks; ++root) {
      Tensors tensor{own(rank, count, dtype)};
      c10d::BroadcastOptions options;
      options.rootRank = root;
      backend->broadcast(tensor, options)->wait();
      holds &= same(tensor[0], own(root, count, dtype));
    }
    return holds;
  }

  bool gathers(std::int64_t count, at::ScalarType dtype) {
    Tensors input{own(rank, count, dtype)}, apart, wanted;
    for (int r = 0; r < ranks; ++r) {
      apart.push_back(torch::empty({count}, dtype));
      wanted.push_back(own(r, count, dtype));
    }
    std::vector<Tensors> outputs{apart};
    backend->allgather(outputs, input, {})->wait();
    bool holds = true;
    for (int r = 0; r < ranks; ++r) holds &= same(outputs[0][static_cast<std::size_t>(r)], wanted[static_cast<std::size_t>(r)]);
    auto joined = torch::empty({count * ranks}, dtype);
    backend->_allgather_base(joined, input[0], {})->wait();
    holds &= same(joined, torch::cat(wanted));

    const int root = ranks / 2;
    c10d::GatherOptions gather_options;
    gather_options.rootRank = root;
    std::vector<Tensors> at_root;
    if (rank == root) {
      at_root.emplace_back();
      for (int r = 0; r < ranks; ++r) at_root[0].push_back(torch::empty({count}, dtype));
    }
    backend->gather(at_root, input, gather_options)->wait();
    if (rank == root) holds &= same(torch::cat(at_root[0]), joined);

    c10d::ScatterOptions scatter_options;
    scatter_options.rootRank = root;
    Tensors output{torch::empty({count}, dtype)};
    std::vector<Tensors> inputs;
    if (rank == root) inputs.push_back(wanted);
    backend->scatter(output, inputs, scatter_options)->wait();
    return holds && same(output[0], input[0]);
  }

  /// Rank r sends s (r + 2 s) % 5 rows of `width`, so sizes differ and some are empty.
  bool exchanges(std::int64_t width, at::ScalarType dtype) {
    const auto rows = [](int from, int to) { return static_cast<std::int64_t>((from + 2 * to) % 5); };
    const auto block = [&](int from, int to) { return torch::full({rows(from, to), width}, 10 * from + to, torch::kLong).to(dtype); };
    Tensors in, out, wanted;
    std::vector<std::int64_t> in_rows, out_rows;
    for (int r = 0; r < ranks; ++r) {
      in.push_back(block(rank, r));
      wanted.push_back(block(r, rank));
      out.push_back(torch::empty_like(wanted.back()));
      in_rows.push_back(rows(rank, r));
      out_rows.push_back(rows(r, rank));
    }
    backend->alltoall(out, in, {})->wait();
    bool holds = true;
    for (std::size_t r = 0; r < out.size(); ++r) holds &= same(out[r], wanted[r]);
    auto input = torch::cat(in), output = torch::empty_like(torch::cat(wanted));
    backend->alltoall_base(output, input, out_rows, in_rows, {})->wait();
    holds &= same(output, torch::cat(wanted));
    auto even = digits(rank, 2 * ranks).to(dtype), swapped = torch::empty_like(even);
    std::vector<std::int64_t> none_out, none_in;
    backend->alltoall_base(swapped, even, none_out, none_in, {})->wait();
    for (int r = 0; r < ranks; ++r) holds &= same(swapped.narrow(0, 2 * r, 2), digits(r, 2 * ranks).narrow(0, 2 * rank, 2).to(dtype));
    return holds;
  }

  void all_movements() {
    for (const auto& of : cases()) {
      bool broadcast = true, gather = true, exchange = true;
      for (const auto count : kCounts) {
        broadcast &= broadcasts(count, of.dtype);
        gather &= gathers(count, of.dtype);
        exchange &= exchanges(count, of.dtype);
      }
      claim(broadcast, std::string("broadcast ") + c10::toString(of.dtype));
      claim(gather, std::string("gather and scatter ") + c10::toString(of.dtype));
      claim(exchange, std::string("all_to_all ") + c10::toString(of.dtype));
    }
  }

  void coalesced() {
    c10d::AllreduceCoalescedOptions options;
    Tensors several{contribution(rank, 5, Op::SUM, at::kFloat), contribution(rank, 0, Op::SUM, at::kFloat),
                    contribution(rank, 9, Op::SUM, at::kLong)};
    backend->allreduce_coalesced(several, options)->wait();
    claim(same(several[0], expected(ranks, 5, Op::SUM, at::kFloat)) && same(several[2], expected(ranks, 9, Op::SUM, at::kLong)),
          "allreduce_coalesced");
    Tensors in{digits(rank, 3), digits(rank, 4)}, out{torch::empty({3 * ranks}, at::kLong), torch::empty({4 * ranks}, at::kLong)};
    backend->allgather_into_tensor_coalesced(out, in, {})->wait();
    bool holds = true;
    for (int r = 0; r < ranks; ++r) holds &= same(out[0].narrow(0, 3 * r, 3), digits(r, 3)) && same(out[1].narrow(0, 4 * r, 4), digits(r, 4));
    claim(holds, "allgather_into_tensor_coalesced");
    Tensors parts{torch::empty({3}, at::kLong), torch::empty({4}, at::kLong)}, wholes{digits(rank, 3 * ranks), digits(rank, 4 * ranks)};
    backend->reduce_scatter_tensor_coalesced(parts, wholes, {})->wait();
    claim(same(parts[1], expected(ranks, 4 * ranks, Op::SUM, at::kLong).narrow(0, 4 * rank, 4)), "reduce_scatter_tensor_coalesced");
    std::vector<Tensors> lists;
    for (int r = 0; r < ranks; ++r) lists.push_back({torch::empty({3}, at::kLong), torch::empty({4}, at::kLong)});
    backend->allgather_coalesced(lists, in, {})->wait();
    claim(same(lists[static_cast<std::size_t>(ranks - 1)][1], digits(ranks - 1, 4)), "allgather_coalesced");
    Tensors first{digits(rank, 6)}, second{torch::full({2}, rank, at::kFloat)};
    backend->startCoalescing();
    backend->allreduce(first, {});
    backend->broadcast(second, {});
    backend->endCoalescing()->wait();
    claim(same(first[0], expected(ranks, 6, Op::SUM, at::kLong)) && second[0].sum().item<float>() == 0, "a coalesced block");
  }
};

/// 256 + 1 + 1 is 258; where each addition is rounded to bfloat16 it stays 256.
void narrow(Probe& probe) {
  for (const auto& [dtype, large] : std::map<at::ScalarType, double>{{at::kBFloat16, 256}, {at::kHalf, 2048}}) {
    Tensors tensor{torch::full({1001}, probe.rank == 0 ? large : 1.0, dtype)};
    probe.backend->allreduce(tensor, {})->wait();
    const double sum = large + probe.ranks - 1;
    claim(same(tensor[0], torch::full({1001}, sum, at::kFloat).to(dtype)), std::string("float32 inside ") + c10::toString(dtype));
  }
}

std::string digest_of(const torch::Tensor& tensor) {
  return samerun::to_hex(samerun::digest_bytes(tensor.const_data_ptr(), tensor.nbytes()));
}

/// Sums of real numbers: the same bits on all ranks, at sizes for which MPI takes different algorithms.
void bits(Probe& probe) {
  std::string all;
  for (const std::int64_t count : {1, 3, 100, 5000, 300000, 2000001}) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
      torch::manual_seed(7 + probe.rank);
      Tensors tensor{torch::randn({count}).to(dtype)};
      probe.backend->allreduce(tensor, {})->wait();
      all += digest_of(tensor[0]);
    }
  }
  say("bits " + samerun::to_hex(samerun::digest_text(all)));
}

/// Many operations at once, waited for from the last to the first.
void order(Probe& probe) {
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  std::vector<Tensors> tensors;
  for (int i = 0; i < 60; ++i) tensors.push_back({torch::full({i % 7 * 1000 + 1}, i + probe.rank, at::kDouble)});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    c10d::BroadcastOptions from;
    from.rootRank = static_cast<std::int64_t>(i) % probe.ranks;
    works.push_back(i % 3 == 2 ? probe.backend->broadcast(tensors[i], from) : probe.backend->allreduce(tensors[i], {}));
  }
  bool holds = true;
  for (std::size_t i = works.size(); i-- > 0;) {
    works[i]->wait();
    const auto index = static_cast<double>(i);
    const double sum = index * probe.ranks + probe.ranks * (probe.ranks - 1) / 2;
    const double wanted = i % 3 == 2 ? index + static_cast<double>(i % static_cast<std::size_t>(probe.ranks)) : sum;
    holds &= (tensors[i][0] == wanted).all().item<bool>() && works[i]->isCompleted() && works[i]->isSuccess();
  }
  claim(holds, "60 operations under way at once");
  bool called = false;
  Tensors last{torch::ones({3})};
  const auto future = probe.backend->allreduce(last, {})->getFuture();
  const auto after = future->then(
      [&](c10::ivalue::Future& done) {
        called = done.value().toTensorVector().at(0).is_same(last[0]);
        return c10::IValue(true);
      },
      c10::BoolType::get());
  after->wait();
  claim(called && last[0][0].item<float>() == static_cast<float>(probe.ranks), "a future has the reduced tensor");
}

void transfers(Probe& probe) {
  const int next = (probe.rank + 1) % probe.ranks, before = (probe.rank + probe.ranks - 1) % probe.ranks;
  for (const std::int64_t count : {0, 1, 1000, 3000001}) {
    Tensors out{torch::full({count}, probe.rank, at::kFloat)}, in{torch::empty({count}, at::kFloat)};
    const auto sent = probe.backend->send(out, next, 5), received = probe.backend->recv(in, before, 5);  // all send first
    sent->wait();
    received->wait();
    claim((in[0] == before).all().item<bool>() && received->sourceRank() == before, "a ring of " + std::to_string(count));
  }
  if (probe.rank == 0) {
    std::map<int, int> from;
    for (int r = 1; r < probe.ranks; ++r) {
      Tensors in{torch::empty({1}, at::kLong)};
      const auto work = probe.backend->recvAnysource(in, 9);
      work->wait();
      from[work->sourceRank()] += in[0].item<int>() == work->sourceRank() ? 1 : 100;
    }
    bool holds = static_cast<int>(from.size()) == probe.ranks - 1;
    for (const auto& [rank, count] : from) holds &= count == 1;
    claim(holds, "receives from any rank");
  } else {
    Tensors out{torch::full({1}, probe.rank, at::kLong)};
    probe.backend->send(out, 0, 9)->wait();
  }
  probe.backend->barrier({})->wait();
}

/// A call that cannot be carried out throws before another rank is involved; the group stays usable.
void refusals(Probe& probe) {
  auto& backend = probe.backend;
  const std::map<std::string, std::function<void()>> calls{
      {"not contiguous",
       [&] {
         Tensors tensor{torch::ones({4, 4}).t().narrow(0, 1, 2)};
         backend->allreduce(tensor, {});
       }},
      {"is sparse",
       [&] {
         Tensors tensor{torch::ones({4, 4}).to_sparse()};
         backend->allreduce(tensor, {});
       }},
      {"cannot be reduced",
       [&] {
         Tensors tensor{torch::empty({4}, at::kFloat8_e5m2)};
         backend->allreduce(tensor, {});
       }},
      {"divide by the number of ranks",
       [&] {
         Tensors tensor{torch::ones({4}, at::kLong)};
         c10d::AllreduceOptions options;
         options.reduceOp = Op::AVG;
         backend->allreduce(tensor, options);
       }},
      {"there is no rank",
       [&] {
         Tensors tensor{torch::ones({4})};
         c10d::BroadcastOptions options;
         options.rootRank = 99;
         backend->broadcast(tensor, options);
       }},
      {"no tensor",
       [&] {
         Tensors none;
         backend->allreduce(none, {});
       }},
      {"do not divide",
       [&] {
         auto in = torch::ones({probe.ranks + 1}), out = torch::ones({probe.ranks + 1});
         std::vector<std::int64_t> none;
         backend->alltoall_base(out, in, none, none, {});
       }},
  };
  for (const auto& [text, call] : calls) {
    const auto thrown = thrown_by(call);
    claim(thrown.find(text) != std::string::npos, "refused: " + text + (thrown.empty() ? " (nothing was thrown)" : ""));
  }
  Tensors tensor{torch::ones({2})};
  backend->allreduce(tensor, {})->wait();
  claim(tensor[0][0].item<int>() == probe.ranks, "the group is usable afterwards");
}

/// Groups of some of the ranks, each with operations of its own under way beside the group of all.
void subsets(Probe& probe) {
  const auto mpi = engine::open_mpi_library();
  std::vector<int> even, odd;
  for (int r = 0; r < probe.ranks; ++r) (r % 2 == 0 ? even : odd).push_back(r);
  const auto& mine = probe.rank % 2 == 0 ? even : odd;
  auto group = mpi->make_backend(c10::make_intrusive<c10d::HashStore>(), mine, std::chrono::seconds(30));
  bool holds = group->getSize() == static_cast<int>(mine.size()) && mine[static_cast<std::size_t>(group->getRank())] == probe.rank;
  for (int round = 0; round < 20; ++round) {
    Tensors inner{torch::ones({1000})}, outer{torch::ones({1000})};
    const auto a = group->allreduce(inner, {});
    const auto b = probe.backend->allreduce(outer, {});
    b->wait();
    a->wait();
    holds &= inner[0][0].item<int>() == static_cast<int>(mine.size()) && outer[0][0].item<int>() == probe.ranks;
  }
  claim(holds, "two groups at once");
}

/// The ranks call different things.
void mismatch(Probe& probe) {
  Tensors tensor{torch::ones({probe.rank == 1 ? 5 : 4})};
  say("thrown: " + thrown_by([&] { probe.backend->allreduce(tensor, {})->wait(); }));
  say("again: " + thrown_by([&] { probe.backend->allreduce(tensor, {})->wait(); }));
}

/// The last rank does one operation less, and does nothing more.
void late(Probe& probe) {
  Tensors tensor{torch::ones({4})};
  probe.backend->allreduce(tensor, {})->wait();
  while (probe.rank == probe.ranks - 1) ::pause();
  probe.backend->allreduce(tensor, {})->wait();
}

/// More bytes than an int counts.
void big(Probe& probe) {
  const std::int64_t count = (std::int64_t{1} << 31) + 17;
  Tensors tensor{torch::full({count}, probe.rank + 1, at::kByte)};
  tensor[0][count - 1] = 10 * (probe.rank + 1);
  probe.backend->broadcast(tensor, {})->wait();
  claim(tensor[0][0].item<int>() == 1 && tensor[0][count - 1].item<int>() == 10 && (tensor[0].narrow(0, 0, count - 1) == 1).all().item<bool>(),
        "broadcast of 2^31 + 17 bytes");
  tensor[0].fill_(probe.rank + 1);
  probe.backend->allreduce(tensor, {})->wait();
  const int sum = probe.ranks * (probe.ranks + 1) / 2;
  claim((tensor[0] == sum).all().item<bool>(), "all_reduce of 2^31 + 17 bytes");
  const int next = (probe.rank + 1) % probe.ranks, before = (probe.rank + probe.ranks - 1) % probe.ranks;
  tensor[0].fill_(probe.rank + 1);
  Tensors in{torch::zeros({count}, at::kByte)};
  const auto sent = probe.backend->send(tensor, next, 1), received = probe.backend->recv(in, before, 1);
  sent->wait();
  received->wait();
  claim((in[0] == before + 1).all().item<bool>(), "a transfer of 2^31 + 17 bytes");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto launch = engine::read_launch_environment();
  engine::say_hello(launch);
  at::set_num_threads(1);
  const int timeout_s = static_cast<int>(samerun::environment_integer(samerun::env::kTimeout, 1, 3600).value_or(60));
  const auto wanted = samerun::environment_text(samerun::env::kBackend).value_or("auto");
  int status = 0;
  try {
    const auto communicator = engine::make_communicator(launch, timeout_s, engine::resolve_backend(wanted, launch, {}));
    if (launch.rank == 0) say("backend " + communicator->backend());
    Probe probe{communicator->group()->getBackend(c10::DeviceType::CPU), launch.rank, launch.world_size};
    const std::map<std::string, std::function<void()>> modes{
        {"reductions", [&] { probe.all_reductions(); }},
        {"movements", [&] { probe.all_movements(); }},
        {"coalesced", [&] { probe.coalesced(); }},
        {"narrow", [&] { narrow(probe); }},
        {"bits", [&] { bits(probe); }},
        {"order", [&] { order(probe); }},
        {"transfers", [&] { transfers(probe); }},
        {"refusals", [&] { refusals(probe); }},
        {"subsets", [&] { subsets(probe); }},
        {"mismatch", [&] { mismatch(probe); }},
        {"late", [&] { late(probe); }},
        {"big", [&] { big(probe); }},
        {"nothing", [] {}},
    };
    modes.at(mode)();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    status = 1;
  }
  if (status == 0) engine::say_bye(launch);
  std::fflush(nullptr);
  if (status != 0) ::_exit(status);
  return status;
}
