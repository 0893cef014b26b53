#include "answer.h"

#include <chrono>

namespace samerun::cli {
namespace {

/// What PMIx does on one host takes milliseconds.
constexpr auto kBound = std::chrono::seconds(20);

bool hangs = false;

}  // namespace

void Answer::give(pmix_status_t status) {
  const std::lock_guard lock(mutex_);
  status_ = status;
  given_.notify_all();
}

std::optional<pmix_status_t> Answer::wait() {
  std::unique_lock lock(mutex_);
  if (!given_.wait_for(lock, kBound, [this] { return status_.has_value(); })) hangs = true;
  return status_;
}

bool Answer::given_up() {
  return hangs;
}

void Answer::on_answer(pmix_status_t status, void* shared) {
  const std::unique_ptr<std::shared_ptr<Answer>> answer(static_cast<std::shared_ptr<Answer>*>(shared));
  (*answer)->give(status);
}

void require_good(std::optional<pmix_status_t> status, const std::string& what) {
  const pmix_status_t value = status.value_or(PMIX_ERR_TIMEOUT);
  if (value == PMIX_SUCCESS || value == PMIX_OPERATION_SUCCEEDED) return;
  const std::string why = status ? PMIx_Error_string(value) : "no answer within " + std::to_string(kBound.count()) + " s";
  throw Error(ErrorCode::kLaunch, "PMIx cannot " + what + ": " + why + "; run with --backend gloo, or see that libpmix2 and libopenmpi3 are whole");
}

}  // namespace samerun::cli
