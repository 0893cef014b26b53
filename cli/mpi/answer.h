#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "samerun/core/error.h"

namespace samerun::cli {

/// What a call of PMIx comes to, told by PMIx's own thread.
class Answer {
 public:
  explicit Answer(std::shared_ptr<void> kept) : kept_(std::move(kept)) {}
  /// Waits within a bound; nullopt after it.
  std::optional<pmix_status_t> wait();
  void give(pmix_status_t status);

  /// Whether a wait was given up: PMIx's thread hangs, and nothing may wait for it any more.
  static bool given_up();
  /// PMIx's callback; `shared` is a std::shared_ptr<Answer>* of its own, since it may come after the wait was given up.
  static void on_answer(pmix_status_t status, void* shared);

 private:
  std::mutex mutex_;
  std::condition_variable given_;
  std::optional<pmix_status_t> status_;
  std::shared_ptr<void> kept_;  ///< What the call reads until it has come to something.
};

/// Throws kLaunch unless `status` is a good end of `what`.
void require_good(std::optional<pmix_status_t> status, const std::string& what);

/// Makes `call` with a callback and its data, and waits for what it comes to; `kept` is what the call reads meanwhile.
/// Throws kLaunch: "PMIx cannot `what`: ...".
template <class Call>
void complete(const std::string& what, std::shared_ptr<void> kept, const Call& call) {
  const auto answer = std::make_shared<Answer>(std::move(kept));
  auto shared = std::make_unique<std::shared_ptr<Answer>>(answer);
  const pmix_status_t status = call(&Answer::on_answer, static_cast<void*>(shared.get()));
  if (status != PMIX_SUCCESS) return require_good(status, what);  // At once, and no callback follows.
  static_cast<void>(shared.release());
  require_good(answer->wait(), what);
}

}  // namespace samerun::cli
