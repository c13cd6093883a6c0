"""Parameters that constructors of one kind all take, and on which nothing that this one makes depends."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from headtohead.config.schema.source_code import bases, find_target


@lru_cache(maxsize=512)
def is_unread(target: str, name: str) -> bool:
    """Return whether the constructor deletes this parameter, or hands it to one that does, and uses it nowhere else."""
    for constructor in _constructors(target):
        uses = [node for node in ast.walk(constructor) if isinstance(node, ast.Name) and node.id == name]
        handed = {id(one.value) for call in _calls_of_base(constructor) for one in call.keywords if one.arg == name}
        if any(isinstance(one.ctx, ast.Del) for one in uses):
            return True
        if not uses or any(id(one) not in handed for one in uses):
            return False
    return False


def _constructors(target: str) -> Iterator[ast.FunctionDef]:
    """Yield the constructors of a class and of its bases, nearest first."""
    located = find_target(target)
    for base in bases(located) if located else ():
        for item in base.node.body if isinstance(base.node, ast.ClassDef) else ():
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                yield item


def _calls_of_base(constructor: ast.FunctionDef) -> Iterator[ast.Call]:
    """Yield the calls of `super().__init__`."""
    for node in ast.walk(constructor):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
            yield node
