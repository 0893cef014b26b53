"""Who may include whom: the layers of the project, and what public headers must not pull into their users' compile times."""
import posixpath
import re
import sys

import tree

# Folder of the including file -> folders X of the samerun/X/... headers that it may include. The longest matching folder counts.
ALLOWED = {
    "runtime/core": {"core"},
    "runtime": {"core", "runtime"},
    "runtime/umbrella": {"core", "runtime", "recorder", "profiler", "samerun.h"},
    "recorder": {"core", "recorder"},
    "profiler": {"core", "profiler"},
    "verify": {"core", "recorder", "verify"},
    "cli": {"core", "runtime", "recorder", "profiler", "verify"},
    "examples": {"core", "runtime", "recorder", "profiler", "verify", "samerun.h"},
    "tests": {"core", "runtime", "recorder", "profiler", "verify", "samerun.h"},
}
# Headers of other projects -> the folders whose sources may include them at all (tests and examples may include any).
LIBRARIES = [
    (re.compile(r"(torch|ATen|c10|caffe2|c10d|gloo)/"), ("runtime/src", "runtime/include", "runtime/mpi", "runtime/nccl", "profiler/src")),
    (re.compile(r"nccl\.h$"), ("runtime/nccl",)),
    (re.compile(r"pmix\w*\.h$"), ("cli/mpi",)),
    (re.compile(r"sqlite3\.h$"), ("recorder/src",)),
    (re.compile(r"git2(\.h$|/)"), ("recorder/src",)),
    (re.compile(r"nlohmann/"), ("runtime/src", "recorder/src", "verify/src", "profiler/src", "cli/src", "recorder/include", "verify/include")),
    (re.compile(r"CLI/"), ("cli/src",)),
    (re.compile(r"xxhash\.h$"), ("runtime/core/src", "recorder/src")),
]
# Never in a public header: each costs seconds in every file that includes it.
HEAVY = re.compile(r"(torch/(torch|all|nn|optim|data|types|extension)\.h|ATen/ATen\.h|.*ProcessGroup\w*\.hpp|sqlite3\.h|git2\.h"
                   r"|nlohmann/json\.hpp|CLI/.*)$")
# The one header that holds what needs full torch types, and the only public header that may include it.
TORCH_HEADER = "runtime/include/samerun/runtime/torch.h"
MAY_INCLUDE_TORCH_HEADER = "runtime/umbrella/"


def check(name, text):
    folders = [folder for folder in ALLOWED if name.startswith(folder + "/")]
    if not folders:
        return
    allowed = ALLOWED[max(folders, key=len)]
    public = "/include/" in name or name.startswith("runtime/umbrella/")
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        quote, header = match.groups()
        where = f"{name}:{number}"
        if header.startswith("samerun/"):
            part = header.split("/")[1]
            if part not in allowed:
                yield f"{where}: includes {header}; {posixpath.dirname(name)} may include only samerun/{{{','.join(sorted(allowed))}}}"
            if public and header == "samerun/runtime/torch.h" and not name.startswith(MAY_INCLUDE_TORCH_HEADER):
                yield f"{where}: public headers do not include {header}: declare the torch types, and define in the source"
        elif public and quote == '"':
            yield f"{where}: a public header includes {header}, which is not installed"
        for pattern, places in LIBRARIES:
            if pattern.match(header) and not name.startswith(("tests/", "examples/") + tuple(place + "/" for place in places)):
                if not name.startswith("runtime/src/gloo_declarations/"):
                    yield f"{where}: includes {header}, which only {', '.join(places)} may"
        if public and name != TORCH_HEADER and HEAVY.match(header):
            yield f"{where}: includes {header}; public headers declare such types and include the header in the source"
        if name.startswith("examples/") and header.startswith("samerun/detail"):
            yield f"{where}: examples use public headers only"


def self_test():
    def problems(name, *lines):
        return len(list(check(name, "\n".join(lines))))
    assert problems("recorder/src/a.cpp", '#include "samerun/runtime/accelerator.h"') == 1
    assert problems("recorder/src/a.cpp", '#include "samerun/core/event.h"', '#include <sqlite3.h>') == 0
    assert problems("runtime/core/include/samerun/core/a.h", "#include <torch/torch.h>") == 2
    assert problems("runtime/include/samerun/runtime/a.h", "#include <ATen/core/Tensor.h>") == 0
    assert problems("runtime/include/samerun/runtime/a.h", '#include "reducer.h"') == 1
    assert problems("runtime/include/samerun/runtime/torch.h", "#include <torch/torch.h>") == 0
    assert problems("runtime/include/samerun/runtime/accelerator.h", '#include "samerun/runtime/torch.h"') == 1
    assert problems("verify/src/a.cpp", "#include <CLI/CLI.hpp>", "#include <sqlite3.h>") == 2
    assert problems("cli/src/a.cpp", "#include <CLI/CLI.hpp>", '#include "samerun/verify/verify.h"') == 0
    assert problems("cli/src/a.cpp", "#include <pmix_server.h>") == 1


if __name__ == "__main__":
    self_test()
    names = tree.sources()
    tree.report([problem for name in names for problem in check(name, tree.read(name))], len(names))
