#pragma once
#include <chrono>
#include <string>
#include <vector>

#include <gloo/context.h>

namespace gloo::rendezvous {
// c10d derives its adapter from this class, so the order of the virtual functions is Gloo's.
class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& data) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};
}  // namespace gloo::rendezvous
