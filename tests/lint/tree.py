"""The files of the source tree that the lint looks at: those that git tracks or would track, or, outside a clone, all but build folders."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files():
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, check=True).stdout.decode().split("\0")
        names = [name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        names = []
        for folder, folders, found in os.walk(ROOT):
            folders[:] = [f for f in folders if not (folder == ROOT and f in ("build", ".deps", ".git", ".samerun")) and f != "__pycache__"]
            names += [os.path.relpath(os.path.join(folder, f), ROOT) for f in found]
    return sorted(name for name in set(names) if os.path.isfile(os.path.join(ROOT, name)))


def sources():
    return [name for name in files() if name.endswith((".h", ".hpp", ".cpp"))]


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def report(problems, seen):
    for problem in problems:
        print(problem)
    print(f"{seen} files looked at, {len(problems)} problems")
    sys.exit(1 if problems or not seen else 0)
