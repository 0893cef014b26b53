#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "samerun/core/plan.h"

namespace samerun {

namespace detail {
class Engine;
class LoaderImpl;
}  // namespace detail

/// What the program gets for one micro-batch.
struct Batch {
  at::Tensor data;                ///< [rows, ...], on accelerator.device(), the dataset's dtype (floating members widened in a float64 shadow).
  at::Tensor target;              ///< [rows, ...]; undefined when the dataset has none.
  std::int64_t size = 0;          ///< Rows that count: the weight for a mean loss. 0 for a filler.
  std::vector<std::int64_t> ids;  ///< Dataset index of each row; rows from `size` on are padding.
  bool filler = false;            ///< Rows are here only to keep ranks in step; they count for nothing.
};

/// A finite set of samples addressed by index. Threads: get() is called from worker threads at the same time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::string name() const = 0;
  virtual std::int64_t size() const = 0;
  /// Rows `ids` in that order; fills data and target only. `sample_seeds[k]` belongs to ids[k]: a function of
  /// (seed, epoch, sample id) for random transforms, whatever worker runs them.
  virtual Batch get(const std::vector<std::int64_t>& ids, const std::vector<std::uint64_t>& sample_seeds) const = 0;
};

/// Rows of two tensors held in memory, [N, ...] each. Throws kInvalidArgument when the first dimensions differ.
std::shared_ptr<Dataset> tensor_dataset(std::string name, at::Tensor data, at::Tensor target);

struct LoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  bool training = true;         ///< False: an evaluation loader; its batches belong to no window.
  std::string purpose;          ///< Name in the record; default "train" or "evaluation".
  std::uint64_t data_seed = 0;  ///< Order = f(data_seed, epoch).
  Uneven uneven = Uneven::kFiller;
  bool split_batches = false;
  int workers = 0;   ///< Threads that fetch ahead; order does not depend on them.
  int prefetch = 2;  ///< Batches in flight a worker.
};

/// One rank's view of a dataset: sharded, seeded, in plan order. `for (auto& batch : loader)` runs one epoch; leaving
/// the loop early is safe. Copies share state. Threads: the training thread.
class Loader {
 public:
  class Iterator {
   public:
    Batch& operator*() const;
    Iterator& operator++();
    bool operator!=(const Iterator& end) const;

   private:
    friend class Loader;
    explicit Iterator(detail::LoaderImpl* loader) : loader_(loader) {}
    detail::LoaderImpl* loader_;
  };

  Iterator begin();  ///< Starts a pass; a training loader's epoch is the accelerator's (accelerator.epochs()) or the pass number.
  Iterator end();
  std::int64_t batches() const;  ///< Micro-batches that this process sees in an epoch.
  std::int64_t steps() const;    ///< Optimizer steps of an epoch.
  const PlanOptions& plan() const;

 private:
  friend class Accelerator;
  explicit Loader(std::shared_ptr<detail::LoaderImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<detail::LoaderImpl> impl_;
};

}  // namespace samerun
