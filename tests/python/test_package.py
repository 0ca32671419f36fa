"""The package as such: what importing it takes, its names, and its types."""
from __future__ import annotations

import ast
from pathlib import Path

import pytest

import warpgroup
from conftest import ROOT, run_python
from warpgroup import _core

TYPES = ROOT / "python" / "warpgroup" / "_core.pyi"


def test_importing_needs_numpy_alone():
    out = run_python("import sys, warpgroup\n"
                     "for name in ('torch', 'transformers', 'ray', 'pyarrow', 'mteb', 'datasets'):\n"
                     "    if name in sys.modules: print(name)\n")
    assert out == ""


def test_the_names_of_the_package_exist_or_say_what_they_need():
    assert len(set(warpgroup.__all__)) == len(warpgroup.__all__)
    for name in warpgroup.__all__:
        try:
            assert getattr(warpgroup, name) is not None
        except ImportError:
            pass  # of a module that is not installed here
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        warpgroup.nothing


def declared() -> dict[str, set[str]]:
    """Name to members (of classes) in the type file; what it only defines for itself is left out."""
    found = {}
    for node in ast.parse(TYPES.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = set()
    return found


def test_the_types_are_those_of_the_extension():
    names = {name for name in vars(_core) if not name.startswith("_")}
    assert names == set(declared())


@pytest.mark.parametrize("name, members", [
    (name, members) for name, members in declared().items()
    if not issubclass(getattr(getattr(_core, name, None), "__class__", type), type)
    or not issubclass(getattr(_core, name, Exception), Exception)])
def test_the_members_are_those_of_the_extension(name, members):
    value = getattr(_core, name)
    if isinstance(value, type):
        public = {member for member in vars(value) if not member.startswith("_")}
        assert public == {member for member in members if not member.startswith("_")}
        for member in members - public - {"__buffer__"}:  # a name from Python 3.12 on
            assert hasattr(value, member), member


def test_what_is_public_is_documented():
    for name in warpgroup.__all__:
        if not name.startswith("_"):
            try:
                assert getattr(warpgroup, name).__doc__, name
            except ImportError:
                pass


def test_the_marker_for_type_checkers_is_there():
    assert (Path(warpgroup.__file__).parent / "py.typed").exists()
