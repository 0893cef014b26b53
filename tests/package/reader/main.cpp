// Links the recorder and the verifier from the installed package, and nothing of libtorch.
#include <samerun/recorder/reader.h>
#include <samerun/verify/verify.h>

#include <cstdio>
#include <exception>

int main() {
  try {
    samerun::recorder::Reader reader("no_such_folder");
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return samerun::verify::exit_code(samerun::verify::Verdict::kSame);
  }
  return 1;
}
