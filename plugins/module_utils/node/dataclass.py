# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's code uses of `dataclasses`, at a fraction of the price.

The poll runs every 30 s, also on a Raspberry Pi, and nearly all that it costs is imports. The standard module
imports `inspect` and compiles six methods for every class: a quarter of a poll's CPU time, a third of a drift
check's. Here all classes share their methods. Type checkers see the standard one: the same rules apply.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which this module does without

if TYPE_CHECKING:
    from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
else:
    MISSING = object()  # the default of a field that has none

    class Field:
        """One field of a class."""

        __slots__ = ("compare", "default", "default_factory", "init", "kw_only", "metadata", "name", "repr")

        def __init__(self, default, default_factory, *, init, repr, compare, metadata):
            self.name = ""
            self.kw_only = False
            self.default = default
            self.default_factory = default_factory
            self.init = init
            self.repr = repr
            self.compare = compare
            self.metadata = metadata

    def field(*, default=MISSING, default_factory=MISSING, init=True, repr=True, compare=True, metadata=None):
        """Declare a field that needs more than a default."""
        return Field(default, default_factory, init=init, repr=repr, compare=compare, metadata=metadata or {})

    def dataclass(*, frozen=False, kw_only=False, eq=True, order=False):
        """Give a class the methods that its fields imply, except those that it defines itself."""
        methods = {"__init__": _init, "__repr__": _repr}
        if eq:
            methods.update(__eq__=_equal, __hash__=_hash if frozen else None)
        if order:
            methods.update(__lt__=_less, __le__=_less_or_equal, __gt__=_greater, __ge__=_greater_or_equal)
        if frozen:
            methods.update(__setattr__=_refuse, __delattr__=_refuse)

        def declare(cls):
            cls.__fields__ = _declared(cls, kw_only)
            cls.__shape__ = _Shape(cls.__fields__)
            own = vars(cls)
            for name, method in methods.items():
                # A class with __eq__ and without __hash__ has a __hash__ of None that nobody wrote.
                if name not in own or (name == "__hash__" and own[name] is None):
                    setattr(cls, name, method)
            return cls

        return declare

    def fields(thing):
        """The fields of a class or of an instance, in their order."""
        return thing.__fields__

    def replace(thing, **changes):
        """A copy with other values."""
        kept = {item.name: getattr(thing, item.name) for item in thing.__fields__ if item.init}
        return type(thing)(**{**kept, **changes})

    def asdict(thing):
        """Fields and values, those of nested instances too."""
        if hasattr(type(thing), "__fields__"):
            return {item.name: asdict(getattr(thing, item.name)) for item in thing.__fields__}
        if isinstance(thing, dict):
            return {key: asdict(value) for key, value in thing.items()}
        if isinstance(thing, (list, tuple)):
            return type(thing)(asdict(value) for value in thing)
        return thing

    def _declared(cls, kw_only):
        """The fields of a class: those of its bases, then its own."""
        found = {
            item.name: item for base in reversed(cls.__mro__[1:]) for item in vars(base).get("__fields__", ())
        }
        for name, annotation in cls.__annotations__.items():  # they are text, by the import at the top
            if annotation.startswith("ClassVar"):
                continue
            default = vars(cls).get(name, MISSING)
            item = default if isinstance(default, Field) else field(default=default)
            item.name, item.kw_only = name, kw_only
            found[name] = item
            if item is default:  # as an attribute of the class, the field would be taken for a value
                delattr(cls, name)
        return tuple(found.values())

    class _Shape:
        """What __init__ needs to know of the fields, found out once for a class."""

        __slots__ = ("defaults", "factories", "positional", "taken")

        def __init__(self, fields):
            self.positional = [item.name for item in fields if item.init and not item.kw_only]
            self.taken = {item.name for item in fields if item.init}
            self.defaults = {item.name: item.default for item in fields if item.default is not MISSING}
            made = [item for item in fields if item.default_factory is not MISSING]
            self.factories = [(item.name, item.default_factory) for item in made]

    def _init(self, *positional, **named):
        shape = self.__shape__
        given = {**dict(zip(shape.positional, positional, strict=False)), **named}
        values = {**shape.defaults, **given}
        for name, make in shape.factories:
            if name not in given:
                values[name] = make()
        # Fewer values: one has no default. Fewer given: too many by position, or one of them twice.
        complete = len(values) == len(self.__fields__) and len(given) == len(positional) + len(named)
        if not complete or not shape.taken.issuperset(given):
            expected = ", ".join(item.name for item in self.__fields__ if item.init)
            raise TypeError(
                f"{type(self).__name__}({expected}) got {len(positional)} values and {sorted(named)}"
            )
        self.__dict__.update(values)

    def _compared(self):
        return tuple(getattr(self, item.name) for item in self.__fields__ if item.compare)

    def _equal(self, other):
        return _compared(self) == _compared(other) if type(self) is type(other) else NotImplemented

    def _less(self, other):
        return _compared(self) < _compared(other) if type(self) is type(other) else NotImplemented

    def _less_or_equal(self, other):
        return _compared(self) <= _compared(other) if type(self) is type(other) else NotImplemented

    def _greater(self, other):
        return _compared(self) > _compared(other) if type(self) is type(other) else NotImplemented

    def _greater_or_equal(self, other):
        return _compared(self) >= _compared(other) if type(self) is type(other) else NotImplemented

    def _hash(self):
        return hash(_compared(self))

    def _repr(self):
        shown = (f"{item.name}={getattr(self, item.name)!r}" for item in self.__fields__ if item.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _refuse(self, name, *value):
        raise AttributeError(f"{type(self).__name__}.{name} can't be changed: the class is frozen")


__all__ = ["MISSING", "Field", "asdict", "dataclass", "field", "fields", "replace"]
