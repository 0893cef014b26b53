#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace samerun::detail {

/// How far each rank of a group has come, in the store: for the rank that must say whom it waits for. Threads: set() by the worker, the rest by
/// the watch.
class Positions {
 public:
  struct Position {
    std::uint64_t number = 0;  ///< Of the collective; 0: none yet.
    std::string text;
  };
  /// A null store: positions are not known.
  Positions(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout);

  void set(Position position);
  /// Writes this rank's position where it has changed. Never throws: a store that is gone is no reason to stop.
  void publish();
  /// This rank leaves the group.
  void leave();
  /// Who has not come as far as this rank, in words; `inside`: all had called the operation, so one has stopped in it. Waits until the others have
  /// had the time to publish. Bounded; never throws.
  std::string missing(bool inside);

 private:
  struct Answer;
  std::string key(int rank) const { return "position/" + std::to_string(rank); }
  void write(const std::string& value);
  std::string describe(const Answer& answer, bool inside) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  Position position_;
  std::uint64_t published_ = 0;
};

}  // namespace samerun::detail
