"""Every text file: ASCII, no trailing blanks, no path of one machine; every source: within the size that one person reads at a sitting."""
import re

import tree

TEXT = (".h", ".cpp", ".py", ".sh", ".cmake", ".txt", ".md", ".json", ".sql", ".in", ".yaml", ".html", "run", "bootstrap", "demo", "test", "check")
# Absolute folders of the machine that a line was written on.
MACHINE = re.compile(r"(?<![\w.}/-])/(work|home|Users)/|(?<![\w.}/-])/root/[\w.]|(?<![\w./-])shared/\w+\.(md|cpp)\b|/work/shared")
LINES = {".cpp": 700, ".h": 400}


def check(name, text):
    longest = next((limit for ending, limit in LINES.items() if name.endswith(ending)), None)
    lines = text.splitlines()
    if longest and len(lines) > longest:
        yield f"{name}: {len(lines)} lines, more than {longest}; split it"
    for number, line in enumerate(lines, 1):
        if not line.isascii():
            yield f"{name}:{number}: not ASCII: {ascii(line.strip())[:100]}"
        if line != line.rstrip() and not name.endswith(".md"):
            yield f"{name}:{number}: blanks at the end of the line"
        if MACHINE.search(line) and name != "tests/lint/text.py":
            yield f"{name}:{number}: a path of one machine: {line.strip()[:100]}"
    if text and not text.endswith("\n"):
        yield f"{name}: no newline at the end"


if __name__ == "__main__":
    assert len(list(check("a.cpp", "x \n"))) == 1
    assert len(list(check("a.cpp", 'f("/home/a/b");\n'))) == 1
    assert len(list(check("a.cpp", "x\n" * 701))) == 1
    assert not list(check("a.cpp", 'f("${x}/home/a"); g("/tmp/root/"); // network/ home\n'))
    names = [name for name in tree.files() if name.endswith(TEXT) and name != "LICENSE"]
    tree.report([problem for name in names for problem in check(name, tree.read(name))], len(names))
