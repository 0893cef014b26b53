#include "mpi_backend.h"

#include <ATen/ops/cat.h>

#include <algorithm>

#include "arguments.h"
#include "element.h"
#include "movement.h"
#include "reduction.h"

namespace samerun::detail {
namespace {

using Tensors = MpiBackend::Tensors;
using c10d::OpType;

void* place(const at::Tensor& tensor) {
  return tensor.mutable_data_ptr();
}

std::vector<void*> places(const Tensors& tensors) {
  std::vector<void*> result;
  for (const auto& tensor : tensors) result.push_back(place(tensor));
  return result;
}

/// The parts of a tensor that holds one for each rank.
Tensors parts_of(const at::Tensor& whole, int ranks) {
  const std::int64_t each = whole.numel() / ranks;
  Tensors parts;
  for (int r = 0; r < ranks; ++r) parts.push_back(whole.view({-1}).narrow(0, r * each, each));
  return parts;
}

/// Rows of `whole` by split sizes; equal parts where there are none.
Tensors split_rows(const char* name, const at::Tensor& whole, const std::vector<std::int64_t>& splits, int ranks) {
  require(whole.dim() > 0, name, "a tensor without dimensions cannot be split over ranks");
  std::vector<std::int64_t> sizes = splits;
  if (sizes.empty()) {
    require(whole.size(0) % ranks == 0, name,
            std::to_string(whole.size(0)) + " rows do not divide over " + std::to_string(ranks) + " ranks; give the split sizes");
    sizes.assign(static_cast<std::size_t>(ranks), whole.size(0) / ranks);
  }
  require(sizes.size() == static_cast<std::size_t>(ranks), name, "one split size for each rank is wanted");
  std::int64_t first = 0;
  Tensors parts;
  for (const auto size : sizes) {
    require(size >= 0 && first + size <= whole.size(0), name, "the split sizes are more than the tensor's rows");
    parts.push_back(whole.narrow(0, first, size));
    first += size;
  }
  require(first == whole.size(0), name, "the split sizes are fewer than the tensor's rows");
  return parts;
}

/// A tensor as messages of at most comm.most_bytes each, at least one. MPI keeps those between two ranks in order.
template <class Begin>
std::vector<TransferPiece> in_messages(const Comm& comm, const at::Tensor& tensor, Begin begin) {
  std::vector<TransferPiece> pieces;
  std::size_t offset = 0;
  do {
    const std::size_t bytes = std::min(comm.most_bytes, tensor.nbytes() - offset);
    pieces.push_back(begin(static_cast<char*>(place(tensor)) + offset, static_cast<int>(bytes)));
    offset += bytes;
  } while (offset < tensor.nbytes());
  return pieces;
}

std::string text_of(const char* name, const Tensors& tensors, const std::string& more = "") {
  return std::string(name) + " (" + (more.empty() ? "" : more + ", ") + describe(tensors) + ")";
}

}  // namespace

MpiBackend::MpiBackend(const Comm& collectives, const Comm& transfers, const QueueOptions& options)
    : c10d::Backend(collectives.rank, collectives.size),
      collectives_(collectives),
      transfers_(transfers),
      queue_(std::make_unique<OperationQueue>(collectives, options)) {}

MpiBackend::~MpiBackend() {
  const bool broken = queue_->broken();
  queue_.reset();
  if (broken) return;  // its worker may still be inside
  MPI_Comm_free(&collectives_.handle);
  MPI_Comm_free(&transfers_.handle);
}

void MpiBackend::require_rank(const char* name, std::int64_t rank) const {
  require(rank >= 0 && rank < getSize(), name, "there is no rank " + std::to_string(rank) + " among " + std::to_string(getSize()));
}

MpiBackend::Work MpiBackend::collective(OpType type, std::string text, Tensors result, std::function<void()> run) {
  auto work = c10::make_intrusive<MpiWork>(std::move(result), getRank(), type, queue_->issued() + 1);
  Operation operation{std::move(text), std::move(run), {}, work};
  if (coalescing_) {
    coalescing_->push_back(std::move(operation));
  } else {
    queue_->submit(std::move(operation));
  }
  return work;
}

MpiBackend::Work MpiBackend::transfer(OpType type, std::string text, Tensors result, std::function<std::vector<TransferPiece>()> begin) {
  auto work = c10::make_intrusive<MpiWork>(std::move(result), getRank(), type, queue_->issued());
  queue_->submit({std::move(text), {}, std::move(begin), work});
  return work;
}

// ---- coalescing: the collectives between start and end are one ----

void MpiBackend::startCoalescing() {
  require(!coalescing_, "startCoalescing", "a coalesced block is open already");
  coalescing_.emplace();
}

MpiBackend::Work MpiBackend::endCoalescing() {
  require(coalescing_.has_value(), "endCoalescing", "no coalesced block is open");
  auto operations = std::make_shared<std::vector<Operation>>(std::move(*coalescing_));
  coalescing_.reset();
  std::string text = "coalesced";
  for (const auto& operation : *operations) text += " " + operation.text;
  return collective(OpType::COALESCED, std::move(text), {}, [operations] {
    for (const auto& operation : *operations) {
      operation.run();
      operation.work->succeed(-1);
    }
  });
}

// ---- one to all, all to all ----

MpiBackend::Work MpiBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  auto tensor = the_one("broadcast", tensors);
  require_rank("broadcast", options.rootRank);
  const int root = static_cast<int>(options.rootRank);
  return collective(OpType::BROADCAST, text_of("broadcast", {tensor}, "from rank " + std::to_string(root)), tensors,
                    [comm = collectives_, tensor, root] { broadcast_bytes(comm, place(tensor), tensor.nbytes(), root); });
}

MpiBackend::Work MpiBackend::all_reduce(Tensors tensors, const c10d::ReduceOp& op, OpType type) {
  auto values = usable("all_reduce", tensors);
  for (const auto& tensor : values) operator_of(op, element_of(tensor.scalar_type()), tensor.scalar_type());
  return collective(type, text_of("all_reduce", values, name_of(op)), std::move(tensors), [comm = collectives_, values, op] {
    for (const auto& tensor : values) samerun::detail::all_reduce(comm, tensor, op);
  });
}

MpiBackend::Work MpiBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return all_reduce(tensors, options.reduceOp, OpType::ALLREDUCE);
}

MpiBackend::Work MpiBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return all_reduce(tensors, options.reduceOp, OpType::ALLREDUCE_COALESCED);
}

MpiBackend::Work MpiBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  auto tensor = the_one("reduce", tensors);
  require_rank("reduce", options.rootRank);
  operator_of(options.reduceOp, element_of(tensor.scalar_type()), tensor.scalar_type());
  const int root = static_cast<int>(options.rootRank);
  const std::string how = std::string(name_of(options.reduceOp)) + " at rank " + std::to_string(root);
  return collective(OpType::REDUCE, text_of("reduce", {tensor}, how), tensors,
                    [comm = collectives_, tensor, op = options.reduceOp, root] { samerun::detail::reduce(comm, tensor, op, root); });
}

MpiBackend::Work MpiBackend::barrier(const c10d::BarrierOptions&) {
  return collective(OpType::BARRIER, "barrier", {}, [] {});  // to have arrived is all
}

// ---- gather and scatter ----

MpiBackend::Work MpiBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions&) {
  const auto input = the_one("all_gather", inputs);
  require(outputs.size() == 1, "all_gather", "one list of outputs is wanted");
  const auto all = one_a_rank("all_gather", outputs[0], getSize(), input);
  return collective(OpType::ALLGATHER, text_of("all_gather", {input}), outputs[0],
                    [comm = collectives_, input, all] { all_gather_bytes(comm, place(input), input.nbytes(), places(all)); });
}

MpiBackend::Work MpiBackend::all_gather_bases(const char* name, Tensors outputs, Tensors inputs) {
  require(outputs.size() == inputs.size(), name, "as many outputs as inputs are wanted");
  const auto in = usable(name, inputs), out = usable(name, outputs);
  for (std::size_t i = 0; i < in.size(); ++i)
    require(out[i].numel() == in[i].numel() * getSize() && out[i].scalar_type() == in[i].scalar_type(), name,
            "an output must have room for " + std::to_string(getSize()) + " times its input: " + describe({out[i]}) + " for " + describe({in[i]}));
  return collective(OpType::_ALLGATHER_BASE, text_of(name, in), std::move(outputs), [comm = collectives_, in, out, ranks = getSize()] {
    for (std::size_t i = 0; i < in.size(); ++i) all_gather_bytes(comm, place(in[i]), in[i].nbytes(), places(parts_of(out[i], ranks)));
  });
}

MpiBackend::Work MpiBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions&) {
  return all_gather_bases("all_gather", {output}, {input});
}

MpiBackend::Work MpiBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions&) {
  return all_gather_bases("coalesced all_gather", outputs, inputs);
}

MpiBackend::Work MpiBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions&) {
  constexpr const char* kName = "coalesced all_gather";
  const auto in = usable(kName, inputs);
  require(outputs.size() == static_cast<std::size_t>(getSize()), kName, "one list of outputs for each rank is wanted");
  std::vector<Tensors> by_input(in.size());
  for (const auto& of_rank : outputs) {
    require(of_rank.size() == in.size(), kName, "each rank's list needs one output for each input");
    for (std::size_t i = 0; i < in.size(); ++i) by_input[i].push_back(of_rank[i]);
  }
  for (std::size_t i = 0; i < in.size(); ++i) by_input[i] = one_a_rank(kName, by_input[i], getSize(), in[i]);
  return collective(OpType::ALLGATHER_COALESCED, text_of(kName, in), {}, [comm = collectives_, in, by_input] {
    for (std::size_t i = 0; i < in.size(); ++i) all_gather_bytes(comm, place(in[i]), in[i].nbytes(), places(by_input[i]));
  });
}

MpiBackend::Work MpiBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const auto input = the_one("gather", inputs);
  require_rank("gather", options.rootRank);
  const int root = static_cast<int>(options.rootRank);
  Tensors all;
  if (getRank() == root) {
    require(outputs.size() == 1, "gather", "one list of outputs is wanted on the root");
    all = one_a_rank("gather", outputs[0], getSize(), input);
  } else {
    require(outputs.empty(), "gather", "only the root has outputs");
  }
  return collective(OpType::GATHER, text_of("gather", {input}, "at rank " + std::to_string(root)), all,
                    [comm = collectives_, input, all, root] { gather_bytes(comm, place(input), input.nbytes(), places(all), root); });
}

MpiBackend::Work MpiBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  const auto output = the_one("scatter", outputs);
  require_rank("scatter", options.rootRank);
  const int root = static_cast<int>(options.rootRank);
  Tensors all;
  if (getRank() == root) {
    require(inputs.size() == 1, "scatter", "one list of inputs is wanted on the root");
    all = one_a_rank("scatter", inputs[0], getSize(), output);
  } else {
    require(inputs.empty(), "scatter", "only the root has inputs");
  }
  return collective(OpType::SCATTER, text_of("scatter", {output}, "from rank " + std::to_string(root)), outputs,
                    [comm = collectives_, output, all, root] {
                      std::vector<const void*> from;
                      for (const auto& tensor : all) from.push_back(place(tensor));
                      scatter_bytes(comm, from, place(output), output.nbytes(), root);
                    });
}

// ---- reduce and scatter ----

MpiBackend::Work MpiBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) {
  const auto output = the_one("reduce_scatter", outputs);
  require(inputs.size() == 1, "reduce_scatter", "one list of inputs is wanted");
  const auto all = one_a_rank("reduce_scatter", inputs[0], getSize(), output);
  const auto op = options.reduceOp;
  operator_of(op, element_of(output.scalar_type()), output.scalar_type());
  return collective(OpType::REDUCE_SCATTER, text_of("reduce_scatter", {output}, name_of(op)), outputs, [comm = collectives_, output, all, op] {
    Tensors flat;
    for (const auto& tensor : all) flat.push_back(tensor.view({-1}));
    samerun::detail::reduce_scatter(comm, at::cat(flat), output, op);
  });
}

MpiBackend::Work MpiBackend::reduce_scatter_bases(const char* name, Tensors outputs, Tensors inputs, const c10d::ReduceOp& op) {
  require(outputs.size() == inputs.size(), name, "as many outputs as inputs are wanted");
  const auto in = usable(name, inputs), out = usable(name, outputs);
  for (std::size_t i = 0; i < in.size(); ++i) {
    operator_of(op, element_of(out[i].scalar_type()), out[i].scalar_type());
    require(in[i].numel() == out[i].numel() * getSize() && out[i].scalar_type() == in[i].scalar_type(), name,
            "an input must be " + std::to_string(getSize()) + " times its output: " + describe({in[i]}) + " for " + describe({out[i]}));
  }
  return collective(OpType::_REDUCE_SCATTER_BASE, text_of(name, out, name_of(op)), std::move(outputs), [comm = collectives_, in, out, op] {
    for (std::size_t i = 0; i < in.size(); ++i) samerun::detail::reduce_scatter(comm, in[i], out[i], op);
  });
}

MpiBackend::Work MpiBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return reduce_scatter_bases("reduce_scatter", {output}, {input}, options.reduceOp);
}

MpiBackend::Work MpiBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return reduce_scatter_bases("coalesced reduce_scatter", outputs, inputs, options.reduceOp);
}

// ---- all to all ----

/// Sizes may differ from rank to rank, so only the dtype is the same everywhere.
MpiBackend::Work MpiBackend::all_to_all(const char* name, Tensors outputs, Tensors inputs) {
  require(outputs.size() == static_cast<std::size_t>(getSize()) && inputs.size() == outputs.size(), name,
          "one input and one output for each rank is wanted");
  const auto in = usable(name, inputs), out = usable(name, outputs);
  for (const auto& tensor : {in, out}) {
    for (const auto& part : tensor) require(part.scalar_type() == in[0].scalar_type(), name, "all tensors must be of one dtype");
  }
  const auto own = static_cast<std::size_t>(getRank());
  require(in[own].numel() == out[own].numel(), name, "what this rank sends to itself must be what it expects of itself");
  return collective(OpType::ALLTOALL, std::string(name) + " (" + c10::toString(in[0].scalar_type()) + ")", std::move(outputs),
                    [comm = collectives_, in, out] { all_to_all_bytes(comm, pieces_of(in), pieces_of(out)); });
}

MpiBackend::Work MpiBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) {
  return all_to_all("all_to_all", outputs, inputs);
}

MpiBackend::Work MpiBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                                           std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions&) {
  constexpr const char* kName = "all_to_all";
  return all_to_all(kName, split_rows(kName, usable(kName, output), output_splits, getSize()),
                    split_rows(kName, usable(kName, input), input_splits, getSize()));
}

// ---- between two ranks ----

MpiBackend::Work MpiBackend::send(Tensors& tensors, int destination, int tag) {
  const auto tensor = the_one("send", tensors);
  require_rank("send", destination);
  require(tag >= 0, "send", "a tag is 0 or more");
  const std::string text = text_of("send", {tensor}, "to rank " + std::to_string(destination) + ", tag " + std::to_string(tag));
  return transfer(OpType::SEND, text, tensors, [comm = transfers_, tensor, destination, tag] {
    return in_messages(comm, tensor, [&](char* data, int bytes) {
      TransferPiece piece;
      check_mpi(MPI_Isend(data, bytes, MPI_BYTE, destination, tag, comm.handle, &piece.request), "MPI_Isend");
      return piece;
    });
  });
}

MpiBackend::Work MpiBackend::receive(OpType type, Tensors& tensors, int source, int tag) {
  const auto tensor = the_one("recv", tensors);
  require(tag >= 0, "recv", "a tag is 0 or more");
  require(source != MPI_ANY_SOURCE || tensor.nbytes() <= transfers_.most_bytes, "recv",
          "what comes from any rank must be one message, of at most " + std::to_string(transfers_.most_bytes) + " bytes");
  const std::string from = source == MPI_ANY_SOURCE ? "from any rank" : "from rank " + std::to_string(source);
  const std::string text = text_of("recv", {tensor}, from + ", tag " + std::to_string(tag));
  return transfer(type, text, tensors, [comm = transfers_, tensor, source, tag] {
    return in_messages(comm, tensor, [&](char* data, int bytes) {
      TransferPiece piece;
      piece.receives = bytes;
      check_mpi(MPI_Irecv(data, bytes, MPI_BYTE, source, tag, comm.handle, &piece.request), "MPI_Irecv");
      return piece;
    });
  });
}

MpiBackend::Work MpiBackend::recv(Tensors& tensors, int source, int tag) {
  require_rank("recv", source);
  return receive(OpType::RECV, tensors, source, tag);
}

MpiBackend::Work MpiBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(OpType::RECVANYSOURCE, tensors, MPI_ANY_SOURCE, tag);
}

}  // namespace samerun::detail
