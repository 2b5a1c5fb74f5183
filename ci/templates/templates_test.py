# SPDX-License-Identifier: Apache-2.0
"""Every template: its form, and every command in it, on a kernel that conforms and on
one that does not."""
import os
import pathlib
import re
import subprocess
import tarfile

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ["QKVET_HOME"])
VERSION = "0.2.0"
CASES = "60"  # enough for a missing scale, and for each law to be asked

yaml = pytest.importorskip("yaml", reason="the package python3-yaml is not installed")


def ran(line, folder, code=0, **more):
    done = subprocess.run(line, cwd=folder, text=True, check=False,
                          env={**os.environ, **more}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == code, f"{line}\nended with {done.returncode}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """The installed program as an archive, as ci/package.sh packs it."""
    folder = tmp_path_factory.mktemp("archive")
    name = f"qkvet-{VERSION}-linux-x86_64"
    ran(["cmake", "--install", str(BUILD), "--prefix", str(folder / name)], folder)
    # Parts that no template needs, and that each test would unpack.
    for part in ("lib/libqkvet_linked.a", "lib/qkvet/libqkvet_python.so",
                 "lib/qkvet/qkvet_tvm_ffi.so", "lib/qkvet/qkvet_cuda.so"):
        (folder / name / part).unlink(missing_ok=True)
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz", compresslevel=1) as out:
        out.add(folder / name, name)
    return folder / f"{name}.tar.gz"


@pytest.fixture(params=["conforms", "broken"])
def project(request, tmp_path, archive):
    """A folder with a kernel: its path, the exit code of a run, the environment."""
    ran([str(BUILD / "bin/qkvet"), "new", "attention.c"], tmp_path)
    kernel = tmp_path / "attention.c"
    if request.param == "broken":
        text = kernel.read_text()
        assert "p[j] *= scale;" in text
        kernel.write_text(text.replace("p[j] *= scale;", "(void)scale;"))
    return (tmp_path, 1 if request.param == "broken" else 0,
            {"QKVET_ARCHIVE": archive.as_uri(), "CASES": CASES})


def shown(name):
    """Lines of the README of a failing example, as expressions."""
    block = re.search(rf"^```failing {re.escape(name)}\n(.*?)^```$",
                      (HERE / "README.md").read_text(), re.M | re.S).group(1)
    return [".*".join(map(re.escape, line.split("[...]")))
            for line in block.splitlines()]


def expect_shown(name, said, conforms):
    for line in shown(name):
        found = re.search("^" + line if name != "qkvet.xml" else line, said, re.M)
        assert bool(found) != conforms, f"{line}\n{said}"


def expect_left(folder, names, conforms):
    for name in names:
        assert list(folder.glob(name)), f"{name} was not written"
    expect_shown("qkvet.xml", (folder / "qkvet.xml").read_text(), conforms)


def read(name):
    return yaml.safe_load((HERE / name).read_text())


# The used part of the syntax of workflows; anything else is refused.
KEYS = {
    "workflow": {"name", "on", True, "permissions", "env", "jobs"},
    "job": {"runs-on", "timeout-minutes", "steps", "strategy", "env", "needs", "if"},
    "step": {"name", "run", "uses", "with", "if", "env"},
}
WITH = {  # action: inputs that it must have, inputs that it may have
    "actions/checkout@v4": (set(), set()),
    "actions/cache@v4": ({"path", "key"}, {"restore-keys"}),
    "actions/upload-artifact@v4": ({"path"}, {"name"}),
    "actions/download-artifact@v4": (set(), {"pattern", "merge-multiple", "path"}),
    "github/codeql-action/upload-sarif@v3": ({"sarif_file"}, {"category"}),
}


@pytest.mark.parametrize("name", ["github.yml", "github-night.yml"])
def test_workflows_have_the_form_of_workflows(name):
    workflow = read(name)
    assert set(workflow) <= KEYS["workflow"]
    assert True in workflow, "YAML 1.1 reads the key `on` so"
    for job_name, job in workflow["jobs"].items():
        assert set(job) <= KEYS["job"] and job["runs-on"].startswith("ubuntu-")
        for needed in [job["needs"]] if "needs" in job else []:
            assert needed in workflow["jobs"], job_name
        for step in job["steps"]:
            assert set(step) <= KEYS["step"]
            assert ("run" in step) != ("uses" in step)
            if "uses" not in step:
                continue
            needs, may = WITH[step["uses"]]
            assert needs <= set(step.get("with", {})) <= needs | may, step
            if step["uses"].startswith("github/codeql"):
                assert workflow["permissions"]["security-events"] == "write"
                assert step["if"] == "always()", "a failing run has the alerts"
        for named in re.findall(r"\$\{\{ *([\w.]+) *\}\}", (HERE / name).read_text()):
            kind, _, word = named.partition(".")
            assert word in (workflow["env"] if kind == "env" else
                            workflow["jobs"]["shard"]["strategy"]["matrix"]), named


def steps_of(name, job, project, code, matrix=None):
    """Runs all commands of a job as GitHub does; returns their output."""
    folder, _, environment = project
    workflow = read(name)
    job = workflow["jobs"][job]
    more = {key: str(value) for key, value in {**workflow["env"],
                                               **job.get("env", {})}.items()}
    more.update(environment)
    for key, value in (matrix or {}).items():
        more = {name: value if text == "${{ matrix.%s }}" % key else text
                for name, text in more.items()}
    runs = [step["run"] for step in job["steps"] if "run" in step]
    said = ""
    for i, command in enumerate(runs):
        said += ran(["bash", "-e", "-c", command], folder,
                    code if i == len(runs) - 1 else 0, **more)
    return said


def test_github(project):
    folder, code, _ = project
    said = steps_of("github.yml", "laws", project, code)
    expect_shown("all", said, not code)
    expect_shown("github.yml", said, not code)
    uploads = [step["with"] for step in read("github.yml")["jobs"]["laws"]["steps"]
               if "upload" in step.get("uses", "")]
    expect_left(folder, [one.get("sarif_file") or one["path"] for one in uploads],
                not code)


def test_github_at_night(project):
    folder, code, environment = project
    shards = read("github-night.yml")["jobs"]["shard"]["strategy"]["matrix"]["shard"]
    assert shards == list(range(1, int(read("github-night.yml")["env"]["SHARDS"]) + 1))
    # Two are enough; a missing one is tried with the same.
    environment["SHARDS"] = "2"
    steps_of("github-night.yml", "shard", project, 0, {"shard": "1"})
    said = steps_of("github-night.yml", "merge", project, code or 3)
    assert "shard 2 of 2 is missing" in said
    steps_of("github-night.yml", "shard", project, 0, {"shard": "2"})
    said = steps_of("github-night.yml", "merge", project, code)
    assert "is missing" not in said
    expect_shown("github-night.yml", said, not code)
    assert (folder / "qkvet.html").exists()


def test_gitlab(project):
    folder, code, environment = project
    jobs = read("gitlab.yml")
    assert list(jobs) == ["attention"]
    job = jobs["attention"]
    assert set(job) <= {"stage", "image", "timeout", "variables", "cache",
                        "before_script", "script", "artifacts"}
    assert "/" not in job["cache"]["key"], "no key of a cache may have one"
    assert set(job["artifacts"]) <= {"when", "expose_as", "paths", "reports"}
    assert job["artifacts"]["when"] == "always"
    assert job["artifacts"]["reports"] == {"junit": "qkvet.xml"}
    # GitLab shows the link only where no path has a variable or a wildcard.
    assert not re.search(r"[*$]", "".join(job["artifacts"]["paths"]))
    assert all(isinstance(value, str) for value in job["variables"].values())
    said = ""
    for i, command in enumerate(job["script"]):
        said += ran(["bash", "-e", "-o", "pipefail", "-c", command], folder,
                    code if i == len(job["script"]) - 1 else 0,
                    **{**job["variables"], **environment})
    expect_shown("all", said, not code)
    expect_left(folder, job["artifacts"]["paths"], not code)


def test_jenkins(project):
    folder, code, environment = project
    text = (HERE / "Jenkinsfile").read_text()
    bare = re.sub(r"'''.*?'''|'[^'\n]*'|//[^\n]*", "''", text, flags=re.S)
    depth = [0]
    for bracket in re.findall(r"[{}()\[\]]", bare):
        depth.append(depth[-1] + (1 if bracket in "{([" else -1))
    assert depth[-1] == 0 and min(depth) == 0 and "\"" not in bare
    # Sections of a declarative pipeline, in an order that it takes.
    order = [bare.index(f"\n  {section} {{") for section in
             ("agent", "options", "environment", "stages", "post")]
    assert order == sorted(order) and bare.startswith("''\n")
    variables = dict(re.findall(r"^    (\w+) = '(.*)'$", text, re.M))
    scripts = re.findall(r"sh '''\n(.*?)'''", text, re.S)
    assert len(scripts) == 2
    said = ""
    for i, script in enumerate(scripts):
        said += ran(["sh", "-xe", "-c", script], folder,
                    code if i == len(scripts) - 1 else 0,
                    **{**variables, **environment})
    expect_shown("all", said, not code)
    left = re.findall(r"(?:junit|artifacts:|pattern:) '(.*?)'", text)
    assert len(left) == 3
    expect_left(folder, left, not code)


class Rules:
    """The declarations of a file of Bazel, by name."""

    def __init__(self, file):
        self.declared, self.exported, self.used = {}, set(), []
        names = {"load": self._load, "glob": lambda files: set(files),
                 "package": lambda **words: None, "module": lambda **words: None,
                 "bazel_dep": lambda name, version: self.used.append(name),
                 "use_repo_rule": lambda file, rule: self._rule,
                 "exports_files": self.exported.update}
        for rule in ("cc_library", "cc_binary", "sh_test", "filegroup"):
            names[rule] = self._rule
        exec(compile(file.read_text(), file, "exec"), names)  # Starlark is Python

    def _load(self, label, *rules):
        self.used.append(label.split("//")[0].lstrip("@"))

    def _rule(self, name, **words):
        assert name not in self.declared
        self.declared[name] = words


def test_bazel(project, archive):
    folder, code, _ = project
    module = Rules(HERE / "bazel/MODULE.bazel")
    archive_rule = module.declared["qkvet"]
    qkvet = Rules(HERE / "bazel/qkvet.BUILD")
    ours = Rules(HERE / "bazel/BUILD.bazel")
    assert set(ours.used) <= set(module.used)
    assert archive_rule["build_file"] == "//:qkvet.BUILD"
    prefix = archive_rule["strip_prefix"]
    assert archive.name == prefix + ".tar.gz"
    assert archive_rule["url"].endswith(archive.name)
    test = ours.declared["attention_laws"]
    labels = [*test["data"], *ours.declared["libattention.so"]["deps"],
              *(word.split()[-1].rstrip(")") for word in test["args"] if "$" in word)]
    for label in labels:
        where, _, target = label.partition(":")
        rules = qkvet if where == "@qkvet//" else ours
        assert target in rules.declared or target in rules.exported, label
    # The archive has the files that the globs match, and the test runs as under Bazel:
    # in a folder of links.
    with tarfile.open(archive) as packed:
        packed.extractall(folder)
    for glob in [*qkvet.declared["program"]["srcs"], *qkvet.declared["abi"]["hdrs"]]:
        assert list((folder / prefix).glob(glob.replace("**", "**/*"))), glob
    outputs = folder / "outputs"
    outputs.mkdir()
    binary = ours.declared["libattention.so"]
    ran(["cc", "-shared", "-fPIC", "-O2", f"-I{folder / prefix}/include",
         *binary["srcs"], "-o", "libattention.so", *binary["linkopts"]], folder)
    runfiles = folder / "runfiles"
    (runfiles / "external").mkdir(parents=True)
    (runfiles / "external/qkvet").symlink_to(folder / prefix)
    (runfiles / "libattention.so").symlink_to(folder / "libattention.so")
    said = ran([str(HERE / "bazel/attention_laws.sh"), "external/qkvet/bin/qkvet",
                "libattention.so", CASES], runfiles, code,
               TEST_UNDECLARED_OUTPUTS_DIR=str(outputs),
               XML_OUTPUT_FILE=str(outputs / "qkvet.xml"))
    assert bool(re.search(r"^  cause       The scores are not scaled", said, re.M)) \
        == bool(code)
    expect_left(outputs, ["qkvet.sarif", "qkvet.html", "qkvet.jsonl"], not code)


def test_cmake(project, archive):
    folder, code, _ = project
    (folder / "CMakeLists.txt").write_text((HERE / "cmake/CMakeLists.txt").read_text())
    ran(["cmake", "-G", "Ninja", "-S", ".", "-B", "build", f"-DCASES={CASES}",
         "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF", f"-DQKVET_ARCHIVE={archive}"], folder)
    ran(["cmake", "--build", "build"], folder)
    said = ran(["ctest", "--test-dir", "build", "--output-on-failure"], folder,
               8 if code else 0)
    expect_shown("cmake", said, not code)
    for name in ("attention.html", "attention.sarif", "attention.jsonl",
                 "attention_laws.junit.xml"):
        assert (folder / "build" / name).exists(), name


# Mistakes in a template that the test of its form must find before it runs any command:
# a file, a text of it, and the text that replaces it.
WRONG = [
    ("github.yml", "        run: >-\n", "        runs: >-\n"),
    ("github.yml", "      - uses: github/codeql-action/upload-sarif@v3\n"
                   "        if: always()\n",
     "      - uses: github/codeql-action/upload-sarif@v3\n"),
    ("github.yml", "  security-events: write", "  security-events: read"),
    ("github.yml", "          sarif_file: qkvet.sarif\n", ""),
    ("github.yml", "${{ env.QKVET_VERSION }}", "${{ env.QKVET_RELEASE }}"),
    ("github.yml", "runs-on: ubuntu-24.04", "runs-on: macos-14"),
    ("github-night.yml", "    needs: shard\n", "    needs: shards\n"),
    ("gitlab.yml", "      junit: qkvet.xml", "      junit: qkvet.html"),
    ("gitlab.yml", "    when: always", "    when: on_success"),
    ("gitlab.yml", "      - qkvet.html", "      - $PAGE.html"),
    ("gitlab.yml", 'CASES: "20000"', "CASES: 20000"),
    ("Jenkinsfile", "    }\n  }\n  post {", "    }\n  post {"),
    ("Jenkinsfile", "    KERNEL = 'attention.c'", "    KERNEL = \"attention.c\""),
]


@pytest.mark.parametrize("name,there,instead", WRONG)
def test_a_template_that_is_wrong_is_seen(name, there, instead, tmp_path, monkeypatch):
    here = pathlib.Path(__file__).parent
    text = (here / name).read_text()
    assert text.count(there) == 1, there
    for path in here.glob("*"):
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).write_text(text.replace(there, instead))
    monkeypatch.setitem(globals(), "HERE", tmp_path)

    def ran_nothing(*_, **__):
        pytest.fail(f"{name}: wrong, and its commands are run")
    monkeypatch.setitem(globals(), "ran", ran_nothing)
    project = (tmp_path, 0, {})
    with pytest.raises((AssertionError, KeyError)):
        if name.startswith("github"):
            test_workflows_have_the_form_of_workflows(name)
        elif name == "gitlab.yml":
            test_gitlab(project)
        else:
            test_jenkins(project)


def test_a_rule_of_bazel_that_is_wrong_is_seen(tmp_path):
    text = (HERE / "bazel/BUILD.bazel").read_text()
    (tmp_path / "BUILD").write_text(text)
    assert Rules(tmp_path / "BUILD").declared
    for there, instead in (("sh_test(", "shell_test("), (")", "")):
        (tmp_path / "BUILD").write_text(text.replace(there, instead, 1))
        with pytest.raises((SyntaxError, NameError)):
            Rules(tmp_path / "BUILD")


def test_what_a_run_must_show_and_leave_is_asked(tmp_path):
    with pytest.raises(AssertionError):
        ran(["bash", "-e", "-c", "false"], tmp_path)
    with pytest.raises(AssertionError):
        expect_shown("cmake", "100% tests passed", False)
    (tmp_path / "qkvet.xml").write_text("<testsuites/>")
    expect_left(tmp_path, ["qkvet.xml"], True)
    with pytest.raises(AssertionError):
        expect_left(tmp_path, ["qkvet.xml", "qkvet.html"], True)
    with pytest.raises(AssertionError):
        expect_left(tmp_path, ["qkvet.xml"], False)
