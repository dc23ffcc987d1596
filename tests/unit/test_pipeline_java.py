"""Finding a Java for Spark, and the wrapper around it."""

import subprocess

import pytest

from pipeline import java
from streams.errors import RunError


def script(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_java_is_taken_from_home_then_path_then_package(tmp_path, monkeypatch):
    """The first one that is new enough counts; an old one in JAVA_HOME does not stop a new one on the path."""
    old = script(tmp_path / "old" / "bin" / "java", "echo 'openjdk version \"1.8.0_392\"' >&2")
    new = script(tmp_path / "new" / "bin" / "java", "echo 'openjdk version \"21.0.1\"' >&2")
    bundled = script(tmp_path / "bundled" / "java", "echo 'openjdk version \"25\"' >&2")
    monkeypatch.setattr(java, "_bundled_java", lambda: bundled)
    assert java.java_version(old) == 8
    assert java.find_java({"JAVA_HOME": str(tmp_path / "new"), "PATH": ""}) == new
    assert java.find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)}) == new
    assert java.find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""}) == bundled
    assert java.find_java({"PATH": ""}) == bundled


def test_java_missing_says_what_to_install(tmp_path, monkeypatch):
    """Without any Java the error names what was tried and what helps."""
    monkeypatch.setattr(java, "_bundled_java", lambda: None)
    with pytest.raises(RunError, match=r"Java 17 or newer.*not installed.*waterspout\[java\]"):
        java.find_java({"PATH": ""})
    broken = script(tmp_path / "bin" / "java", "exit 1")
    with pytest.raises(RunError, match="no Java that runs"):
        java.find_java({"PATH": str(broken.parent)})


def test_java_wrapper_drops_one_argument_and_keeps_the_rest(tmp_path):
    """The wrapper hands all arguments on, spaces and quotes as they are, but the one that Spark should not give."""
    real = script(tmp_path / "real java", 'for a do printf "%s|" "$a"; done')
    home = java.wrapped_java_home(real, tmp_path / "home")
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", 'it\'s "$x"', "", "--add-modules=other"]
    done = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert done.stdout.split("|")[:-1] == ["-cp", "a b", 'it\'s "$x"', "", "--add-modules=other"]
