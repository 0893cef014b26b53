#pragma once

// Opt-in: full torch types. For datasets written against torch::data.

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "samerun/runtime/loader.h"

namespace samerun {

/// A torch::data dataset with Example<Tensor, Tensor>: rows are stacked in the order asked for. Its get() must be
/// thread-safe when a loader has workers.
template <class TorchDataset>
std::shared_ptr<Dataset> torch_dataset(std::string name, TorchDataset dataset) {
  class Adapter final : public Dataset {
   public:
    Adapter(std::string name, TorchDataset dataset) : name_(std::move(name)), dataset_(std::move(dataset)) {}
    std::string name() const override { return name_; }
    std::int64_t size() const override { return static_cast<std::int64_t>(dataset_.size().value()); }
    Batch get(const std::vector<std::int64_t>& ids, const std::vector<std::uint64_t>&) const override {
      std::vector<at::Tensor> data, target;
      for (const auto id : ids) {
        auto example = dataset_.get(static_cast<std::size_t>(id));
        data.push_back(std::move(example.data));
        target.push_back(std::move(example.target));
      }
      Batch batch;
      batch.data = torch::stack(data);
      batch.target = torch::stack(target);
      return batch;
    }

   private:
    std::string name_;
    mutable TorchDataset dataset_;  // torch's get() is not const
  };
  return std::make_shared<Adapter>(std::move(name), std::move(dataset));
}

}  // namespace samerun
