#include "positions.h"

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace samerun::detail {
namespace {

constexpr std::chrono::milliseconds kGrace{1200};     // the others publish once a second
constexpr std::chrono::milliseconds kAnswerIn{3000};  // of the store
constexpr std::size_t kNamed = 8;

std::string text_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

/// What the store knew, by rank.
struct Positions::Answer {
  std::vector<std::optional<std::string>> values;
};

Positions::Positions(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout)
    : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout) {}

void Positions::set(Position position) {
  const std::lock_guard lock(mutex_);
  position_ = std::move(position);
}

void Positions::publish() {
  std::string value;
  {
    const std::lock_guard lock(mutex_);
    if (position_.number == published_) return;
    published_ = position_.number;
    value = std::to_string(position_.number) + " " + position_.text;
  }
  write(value);
}

void Positions::leave() {
  write("left");
}

void Positions::write(const std::string& value) {
  if (!store_) return;
  try {
    store_->set(key(rank_), std::vector<std::uint8_t>(value.begin(), value.end()));
  } catch (const std::exception&) {
    // Rank 0 holds the store and may have ended; its end is reported by others.
  }
}

/// On a thread of its own: a store whose host has stopped answers never.
std::string Positions::missing(bool inside) {
  if (!store_) return "a rank has not called it";
  std::this_thread::sleep_for(std::min(kGrace, timeout_));
  const auto promise = std::make_shared<std::promise<Answer>>();
  auto future = promise->get_future();
  std::thread([store = store_, promise, size = size_] {
    Answer answer;
    for (int r = 0; r < size; ++r) {
      const std::string name = "position/" + std::to_string(r);
      try {
        answer.values.push_back(store->check({name}) ? std::optional(text_of(store->get(name))) : std::nullopt);
      } catch (const std::exception&) {
        answer.values.emplace_back("unknown");
      }
    }
    promise->set_value(std::move(answer));
  }).detach();
  if (future.wait_for(kAnswerIn) != std::future_status::ready) return "the store does not answer: rank 0 of the job, which holds it, has stopped";
  return describe(future.get(), inside);
}

std::string Positions::describe(const Answer& answer, bool inside) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  std::size_t count = 0;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const auto& value = answer.values[static_cast<std::size_t>(r)];
    const std::uint64_t number = value ? std::strtoull(value->c_str(), nullptr, 10) : 0;
    if (number >= position_.number && number > 0) continue;
    if (++count > kNamed) continue;
    const std::string place = !value                ? "has called nothing in this group"
                              : *value == "left"    ? "has left the group"
                              : *value == "unknown" ? "could not be asked"
                                                    : "was last seen at number " + *value;
    text += (text.empty() ? "rank " : "; rank ") + std::to_string(r) + (inside ? " has stopped in it: it " : " has not arrived: it ") + place;
  }
  if (text.empty()) return "all ranks have called it, and one of them does not go on inside MPI";
  return text + (count > kNamed ? "; and " + std::to_string(count - kNamed) + " more" : "");
}

}  // namespace samerun::detail
