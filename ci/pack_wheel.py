#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs a wheel from an installed program, in pure Python:

    cmake --install BUILD --component program --prefix PREFIX --strip
    ci/pack_wheel.py PREFIX OUT         prints the path
    ci/pack_wheel.py --tag FOLDER       prints the tag alone

The metadata of the wheel are read from pyproject.toml. Its tag is that of the oldest
C library that it runs with; if it needs other libraries than that, as a build for
this machine alone does, the tag is linux without a version. `pip wheel .` makes the
same wheel, and builds the program for it.
"""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import zipfile

try:
    import tomllib
except ImportError:  # before 3.11
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The C library and its loader.
OF_GLIBC = re.compile(r"^(libc|libm|libpthread|libdl)\.so|^ld-linux")


def output(*command):
    return subprocess.run(command, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def is_binary(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def platform_tag(files):
    """manylinux_2_36_x86_64, or linux_x86_64."""
    machine = os.uname().machine
    newest = (0, 0)
    for path in filter(is_binary, files):
        table = output("objdump", "-p", "-T", str(path))
        needed = re.findall(r"NEEDED +(\S+)", table)
        if not all(OF_GLIBC.match(name) for name in needed):
            return f"linux_{machine}"
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", table)
        newest = max(newest, *(tuple(map(int, one)) for one in versions))
    return "manylinux_{}_{}_{}".format(*newest, machine)


def metadata(project):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}",
             f"Version: {project['version']}",
             f"Summary: {project['description']}",
             f"License: {project['license']['text']}",
             f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {one}; extra == "{extra}"' for one in needs]
    lines.append("Description-Content-Type: text/markdown")
    return "\n".join(lines) + "\n\n" + (ROOT / project["readme"]).read_text()


def entry_points(project):
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n"
                                 for name, value in rows.items())
        for group, rows in groups.items())


class Wheel:
    """The archive, and the RECORD of what is in it."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.rows = []

    def add(self, name, data, executable=False):
        if isinstance(data, str):
            data = data.encode()
        # The same tree gives the same wheel.
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (0o100755 if executable else 0o100644) << 16
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        self.rows.append(f"{name},sha256={digest.decode().rstrip('=')},{len(data)}")

    def close(self, folder):
        self.rows.append(f"{folder}/RECORD,,")
        self.zip.writestr(f"{folder}/RECORD", "\n".join(self.rows) + "\n")
        self.zip.close()


def files_under(folder):
    return sorted(path for path in folder.rglob("*")
                  if path.is_file() and "__pycache__" not in path.parts)


def main(prefix, out):
    with open(ROOT / "pyproject.toml", "rb") as file:
        settings = tomllib.load(file)
    project, build = settings["project"], settings["tool"]["scikit-build"]["wheel"]
    program = files_under(pathlib.Path(prefix))
    if not any(is_binary(path) for path in program):
        sys.exit(f"ci/pack_wheel.py: {prefix}: no program; allowed: the prefix of "
                 "an installed one")
    tag = f"{build['py-api']}-none-{platform_tag(program)}"
    stem = f"{project['name']}-{project['version']}"
    os.makedirs(out, exist_ok=True)
    path = pathlib.Path(out) / f"{stem}-{tag}.whl"
    wheel, info = Wheel(path), f"{stem}.dist-info"
    for package in build["packages"]:
        package = ROOT / package
        for file in files_under(package):
            wheel.add(str(file.relative_to(package.parent)), file.read_bytes())
    for file in program:
        wheel.add(f"{build['install-dir']}/{file.relative_to(prefix)}",
                  file.read_bytes(), os.access(file, os.X_OK))
    wheel.add(f"{info}/METADATA", metadata(project))
    wheel.add(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: ci/pack_wheel.py\n"
              f"Root-Is-Purelib: false\nTag: {tag}\n")
    wheel.add(f"{info}/entry_points.txt", entry_points(project))
    wheel.close(info)
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("ci/pack_wheel.py: allowed: PREFIX OUT, or --tag FOLDER")
    if sys.argv[1] == "--tag":
        print(platform_tag(files_under(pathlib.Path(sys.argv[2]))))
    else:
        main(*sys.argv[1:])
