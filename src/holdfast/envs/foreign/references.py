# SPDX-License-Identifier: Apache-2.0
"""Names of environments and cost functions, as on a command line and in run.json.

    Pendulum-v1              an id of Gymnasium or of a native task
    package:Name-v0          an id that the package registers when it is imported
    module:Class             an attribute of a module: a class, or a function that makes one
    path/to/file.py:Class    an attribute of a file

A name is text. Loading it imports code, so the user must choose or allow it, not a run folder
(`refuse_untrusted`).
"""

import hashlib
import importlib
import importlib.util
import operator
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from holdfast.settings import nearest


def split(name: str) -> tuple[str, str] | None:
    """(module or file, attribute) of a name; None for an id."""
    place, _, attribute = name.rpartition(":")
    named = place and all(part.isidentifier() for part in attribute.split("."))
    return (place, attribute) if named else None


def load(name: str) -> Any:
    """Load the attribute of a module or file by its name."""
    found = split(name)
    if found is None:
        raise ValueError(f"{name!r} is not module:name or path/to/file.py:name; write one of them.")
    place, attribute = found
    value: Any = import_place(place)
    for part in attribute.split("."):
        if not hasattr(value, part):
            known = _defined(value)
            raise ValueError(f"'{place}' has no {part!r}{nearest(part, known)}")
        value = getattr(value, part)
    return value


def _defined(place: Any) -> list[str]:
    """Public names of a module or class, without the modules that it imports."""
    return [
        name
        for name, value in vars(place).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    ]


def import_place(place: str) -> ModuleType:
    """The module of a dotted name, also from the current folder, or of a file."""
    if place.endswith(".py"):
        return _import_file(Path(place))
    _search(Path.cwd())
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise _broken(place, error) from error
        raise ValueError(
            f"there is no module '{place}': run in its folder, install it, or name "
            "its file, such as path/to/file.py:Name."
        ) from error
    except Exception as error:
        raise _broken(place, error) from error


def name_of(thing: Any) -> str | None:
    """The name with which `load` finds this class or function; None for lambdas and the like."""
    module, attribute = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    home = sys.modules.get(module) if isinstance(module, str) else None
    if home is None or not isinstance(attribute, str) or split(f"{module}:{attribute}") is None:
        return None
    try:
        if operator.attrgetter(attribute)(home) is not thing:
            return None
    except AttributeError:
        return None
    spec, file = getattr(home, "__spec__", None), vars(home).get("__file__")
    if module != "__main__" and home not in _FILES:
        return f"{module}:{attribute}"
    if module == "__main__" and spec is not None:  # python -m package.module
        return f"{spec.name}:{attribute}"
    if file is None or not file.endswith(".py"):
        return None  # a notebook or a prompt
    path = Path(file).resolve()
    near = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{near.as_posix()}:{attribute}"


def needs_consent(names: Iterable[str], args: object) -> list[str]:
    """The parts of a run's environment that choose code: names to import, or arguments."""
    return [name for name in names if ":" in name] or (["env_args"] if args else [])


def refuse_untrusted(names: Iterable[str], args: object, trusted: bool) -> None:
    """Refuse to import code that a file names, unless the user allows it."""
    chosen = needs_consent(names, args)
    if chosen and not trusted:
        raise ValueError(
            f"the run names {chosen[0]!r}, whose code would run here; there is no record "
            "that you trained it here (it is from elsewhere, was moved or changed, or was trained "
            "from another working folder): if you trust it give trust_env=True, or choose the "
            "environment with env=."
        )


def unnamed(label: str) -> str:
    """A placeholder for an environment or function without a name."""
    return f"<{label.strip('<>')}>"


def is_unnamed(name: str) -> bool:
    return name.startswith("<")


def is_other(before: str, now: str) -> bool:
    """Whether two names differ in the environment, not only in the folder of its file."""
    if before == now or is_unnamed(before) or is_unnamed(now) or not before:
        return False
    one, other = split(before), split(now)
    return one is None or other is None or one[1] != other[1]


def refuse_unnamed(*names: str) -> None:
    """Refuse a placeholder: its object must be passed again."""
    for name in filter(is_unnamed, names):
        raise ValueError(
            f"the run used {name}, which cannot be loaded by name (a lambda, an instance, or "
            "made in a notebook): pass it again, or write it into a file and name it, "
            "env=file.py:Class."
        )


_FILES: list[ModuleType] = []
"""Modules that were imported from a file by its path."""


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise ValueError(
            f"there is no file '{path}': name it from the current folder, or by its whole path."
        )
    for module in list(sys.modules.values()):  # e.g. a script that names one of its classes
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and file.endswith(path.name) and Path(file).resolve() == path:
            return module
    return _execute(path)


def _execute(path: Path) -> ModuleType:
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _search(path.parent)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _broken(str(path), error) from error
    # Worker processes cannot import it by its name, so what they need of it is sent whole.
    cloudpickle.register_pickle_by_value(module)
    _FILES.append(module)
    return module


def _search(folder: Path) -> None:
    """Add the current folder to the import path, at its end."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _broken(place: str, error: Exception) -> ValueError:
    return ValueError(
        f"importing '{place}' raised {type(error).__name__}: {error}; correct that first."
    )
