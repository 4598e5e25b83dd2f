#!/usr/bin/env python3
"""The kept inputs of the fuzz targets: one archive each, tests/fuzz/corpus/TARGET.zip.

    tests/fuzz/corpus.py unpack ARCHIVE FOLDER       an archive that is not there holds nothing
    tests/fuzz/corpus.py pack ARCHIVE FILE|FOLDER... replaces the archive
    tests/fuzz/corpus.py add ARCHIVE FILE|FOLDER...  to what it holds

An input is called by the SHA-1 of its bytes, as libFuzzer calls it, and an archive holds each
once. The same inputs make the same bytes, whatever their names, order and times: entries are
sorted, undated and stored, since what zlib makes of them differs between versions.
"""

import argparse
import hashlib
import pathlib
import zipfile


def name(content):
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def read(archive):
    """The inputs of an archive, by name."""
    if not archive.exists():
        return {}
    with zipfile.ZipFile(archive) as entries:
        return {entry: entries.read(entry) for entry in entries.namelist()}


def read_files(paths):
    files = [file for path in paths for file in (path.iterdir() if path.is_dir() else [path])]
    return {name(content): content for content in map(pathlib.Path.read_bytes, files)}


def write(archive, inputs):
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as entries:
        for entry, content in sorted(inputs.items()):
            entries.writestr(zipfile.ZipInfo(entry), content)


def unpack(archive, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for entry, content in read(archive).items():
        (folder / entry).write_bytes(content)


def pack(archive, paths):
    write(archive, read_files(paths))


def add(archive, paths):
    write(archive, read(archive) | read_files(paths))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for action in (unpack, pack, add):
        command = commands.add_parser(action.__name__)
        command.add_argument("archive", type=pathlib.Path)
        if action is unpack:
            command.add_argument("folder", type=pathlib.Path)
        else:
            command.add_argument("paths", type=pathlib.Path, nargs="+", metavar="FILE|FOLDER")
        command.set_defaults(action=action)
    options = vars(parser.parse_args())
    options.pop("action")(**options)


if __name__ == "__main__":
    main()
