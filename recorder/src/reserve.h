#pragma once

#include <string>

namespace samerun::recorder {

/// Space set aside beside the record, so that a run that fills the disk can still be said to have failed.
class Reserve {
 public:
  explicit Reserve(const std::string& folder) : path_(folder + "/reserve") {}
  /// Takes the space, once for all runs of a record; without it the record works all the same.
  void take() const noexcept;
  /// Gives it up; true where there was some.
  bool give_up() const noexcept;

 private:
  std::string path_;
};

}  // namespace samerun::recorder
