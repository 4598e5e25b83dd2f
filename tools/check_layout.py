#!/usr/bin/env python3
"""Checks what tools/lint cannot ask of a compiler: that the house stays in order.

  - folders use one another in one direction only, sub-folders too, as their #includes say;
  - only backend/ includes LibTorch;
  - a folder has at most 16 source files (a header and its .cpp count once);
  - docs/architecture.md says in one sentence what each folder is;
  - every file that the docs or a comment name is there;
  - no line of code is longer than 100 columns.

    tools/check_layout.py [ROOT]

Prints what is wrong, a line each, and ends with 1 if anything is.
"""

import argparse
import ast
import collections
import io
import os
import re
import subprocess
import sys
import tokenize

FOLDERS = ("base", "graph", "pipeline", "launch", "estimate", "simulator", "planner", "backend",
           "cli")
CODE = (".cpp", ".hpp", ".py", ".sh", ".js", ".css", ".build")
MAX_FILES, MAX_COLUMNS = 16, 100
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
LIBTORCH = re.compile(r"^#include [<\"](torch|ATen|c10)/", re.M)
# A path with a folder, or a bare name, of a kind of file that a checkout has.
NAMED = re.compile(
    r"(?<![\w./*$<>{}-])((?:[\w-]+/)*[\w-]+\.(?:cpp|hpp|py|md|js|css|build))(?![\w*/(])")
# Named in docs and comments, and no file here: what a user writes, what a tool makes. A name in
# capitals (OUT.py) stands for any.
FOREIGN = {"my_model.py", "module.py", "train.py", "pipe.py", "page_files.hpp"}


def tracked(root):
    command = ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    return [name for name in names if os.path.isfile(os.path.join(root, name))]


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def folder(name):
    return os.path.dirname(name)


def arrows(texts):
    """The folders that each folder's files include from, with a file of each end as evidence."""
    found = collections.defaultdict(dict)
    for name, text in texts.items():
        for included in INCLUDE.findall(text):
            source, target = folder(name), folder(included)
            if included in texts and source != target:
                found[source].setdefault(target, (name, included))
    return found


def levels(nodes):
    """The graphs that must have no circle: all folders, and the parts of each folder that has
    folders; each as {folder: the part that it belongs to}."""
    yield {node: node for node in nodes}
    parents = {node.rsplit("/", depth)[0] for node in nodes
               for depth in range(1, node.count("/") + 1)}
    for parent in ["", *sorted(parents)]:
        inside = [node for node in nodes if (node + "/").startswith(parent and parent + "/")]
        depth = len(parent.split("/")) + 1 if parent else 1
        yield {node: "/".join(node.split("/")[:depth]) for node in inside}


def circles(found):
    nodes = set(found) | {target for targets in found.values() for target in targets}
    reported = set()
    for part_of in levels(nodes):
        edges = collections.defaultdict(dict)
        for source, targets in found.items():
            for target, files in targets.items():
                ends = part_of.get(source), part_of.get(target)
                if None not in ends and ends[0] != ends[1]:
                    edges[ends[0]].setdefault(ends[1], files)
        circle = find_circle(edges)
        if circle and frozenset(circle) not in reported:
            reported.add(frozenset(circle))
            ways = [f"{edges[a][b][0]} includes {edges[a][b][1]}"
                    for a, b in zip(circle, circle[1:] + circle[:1], strict=True)]
            yield f"a circle of folders: {' -> '.join(circle)}: {'; '.join(ways)}"


def find_circle(edges):
    """The nodes of a circle in their order, or nothing."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):]
        if node in done:
            return None
        path.append(node)
        circle = next(filter(None, (visit(target) for target in sorted(edges.get(node, ())))), None)
        path.pop()
        done.add(node)
        return circle

    return next(filter(None, (visit(node) for node in sorted(edges))), None)


def libtorch_outside(texts):
    for name, text in texts.items():
        if not name.startswith("backend/") and LIBTORCH.search(text):
            yield f"{name}: includes LibTorch, which only backend/ may"


def crowded(texts):
    stems = collections.defaultdict(set)
    for name in texts:
        stems[folder(name)].add(os.path.splitext(name)[0])
    for place, files in sorted(stems.items()):
        if len(files) > MAX_FILES:
            yield f"{place}/: has {len(files)} files, at most {MAX_FILES} make a folder one idea"


def undescribed(texts, map_of_code):
    for place in sorted({folder(name) for name in texts}):
        if f"`{place}/`" not in map_of_code:
            yield f"{place}/: docs/architecture.md does not say what it is"


def python_comments(text):
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, documented))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join([*(ast.get_docstring(node) or "" for node in nodes),
                      *(token.string for token in tokens if token.type == tokenize.COMMENT)])


def comments(name, text):
    if name.endswith((".cpp", ".hpp", ".js")):
        return "\n".join(re.findall(r"//.*", text))
    if name.endswith(".py"):
        return python_comments(text)
    if name.endswith(".md"):
        return text
    return "\n".join(re.findall(r"#.*", text))


def missing_files(names, all_texts):
    known = set(names) | {os.path.basename(name) for name in names}
    known |= {"/".join(parts[i:]) for parts in (name.split("/") for name in names)
              for i in range(len(parts))}
    for name, text in all_texts.items():
        for mentioned in sorted(set(NAMED.findall(comments(name, text)))):
            beside = os.path.normpath(os.path.join(folder(name), mentioned))
            base = os.path.basename(mentioned)
            foreign = base in FOREIGN or os.path.splitext(base)[0].isupper()
            if not foreign and mentioned not in known and beside not in known:
                yield f"{name}: names {mentioned}, which is not there"


def long_lines(all_texts):
    for name, text in all_texts.items():
        if name.endswith(".md"):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > MAX_COLUMNS:
                yield f"{name}:{number}: has {len(line)} columns, {MAX_COLUMNS} are the most"


def problems(root):
    names = tracked(root)
    code = {name: read(root, name) for name in names
            if name.endswith((*CODE, ".md")) or (name.startswith("tools/") and "." not in name)}
    texts = {name: text for name, text in code.items()
             if name.split("/")[0] in FOLDERS and name.endswith((".cpp", ".hpp"))}
    map_of_code = code.get("docs/architecture.md", "")
    yield from circles(arrows(texts))
    yield from libtorch_outside(texts)
    yield from crowded(texts)
    yield from undescribed(texts, map_of_code)
    yield from missing_files(names, code)
    yield from long_lines(code)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("root", nargs="?", default=here)
    found = list(problems(parser.parse_args().root))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
