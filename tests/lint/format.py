"""Every source is as clang-format writes it (version 14, Debian 12's; others write some lines otherwise). Fix: tests/lint/format.py --fix"""
import subprocess
import sys

import tree

if __name__ == "__main__":
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout
    if " version 14." not in version:
        sys.exit(f"clang-format 14 is needed, this is {version.strip()}")
    names = tree.sources()
    command = ["clang-format", "--style=file"] + (["-i"] if "--fix" in sys.argv else ["--dry-run", "--Werror"])
    done = subprocess.run(command + names, cwd=tree.ROOT, capture_output=True, text=True, check=False)
    problems = sorted({line.split(":")[0] + ": not as clang-format writes it (tests/lint/format.py --fix)"
                       for line in done.stderr.splitlines() if "clang-format-violations" in line})
    if done.returncode and not problems:
        sys.exit(done.stderr)
    tree.report(problems, len(names))
