#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace samerun::detail {

/// What a rank knows of its place before MPI runs.
struct MpiStart {
  bool one_host = false;        ///< All ranks are on this host: shared memory alone, and no look at its networks.
  bool oversubscribed = false;  ///< More threads than cores: who waits gives its core away.
};

/// This process in MPI_COMM_WORLD.
struct MpiPlace {
  int rank = 0, size = 1;
};

/// What the runtime asks of MPI. Implemented in a shared library of its own (runtime/mpi), so that a program runs where no MPI is installed.
/// start() to finish() once a process, from one thread.
class MpiLibrary {
 public:
  virtual ~MpiLibrary() = default;
  /// "Open MPI 4.1.4".
  virtual std::string version() const = 0;
  /// MPI_Init_thread with MPI_THREAD_MULTIPLE. Collective over the job. Throws kConfig: less than that, or an MPI that was started already.
  /// The process ends with one line when `timeout` and 30 s are over; so in the calls below.
  virtual MpiPlace start(const MpiStart& start, std::chrono::milliseconds timeout) = 0;
  /// Rank 0's text, on all ranks. Collective over the job.
  virtual std::string broadcast_text(const std::string& text, std::chrono::milliseconds timeout) = 0;
  /// A group of `ranks` (of the job, ascending, this one among them). Collective over them. `store` is shared by them and by no other group:
  /// each rank keeps its position there. `timeout` bounds each operation.
  virtual c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                                         std::chrono::milliseconds timeout) = 0;
  /// MPI_Finalize. Collective over the job, when all its groups are gone; a process that fails does not call it. Does nothing where a group broke.
  virtual void finish(std::chrono::milliseconds timeout) = 0;
};

/// Opens samerun_mpi where $SAMERUN_MPI_LIBRARY names it, beside the program, in ../lib, or where the loader finds it. Throws kConfig: what is
/// missing and what to do.
std::shared_ptr<MpiLibrary> open_mpi_library();

/// The one symbol of the shared library.
inline constexpr const char* kMpiEntry = "samerun_mpi_library";
using MpiEntry = MpiLibrary* (*)();

}  // namespace samerun::detail
