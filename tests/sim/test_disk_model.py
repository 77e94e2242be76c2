"""The simulated disk against a simple model, through any run of calls, kills and power cuts."""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tierlog.sim import SimDisk

NAMES = st.sampled_from(["a", "b", "c"])


class ModelFile:
    """Content, and whether all of it is durable."""

    def __init__(self, content: bytes = b"", *, durable: bool = True) -> None:
        self.content = bytearray(content)
        self.durable = durable


class DiskMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk()
        self.disk.mkdir("/d")
        self.disk.sync_dir("/")
        self.files: dict[str, ModelFile] = {}
        self.history: list[dict[str, ModelFile]] = [{}]
        """The names at each moment since the directory was last synced."""

    def remember(self) -> None:
        self.history.append(dict(self.files))

    @rule(name=NAMES, position=st.integers(0, 2000), size=st.integers(0, 2000), fill=st.binary())
    def write(self, name: str, position: int, size: int, fill: bytes) -> None:
        data = (fill or b"\1") * (size // (len(fill) or 1))
        file = self.disk.open(f"/d/{name}", create=True)
        assert file.pwrite(data, position) == len(data)
        file.close()
        if name not in self.files:
            self.files[name] = ModelFile()
            self.remember()
        if data:
            model = self.files[name]
            model.content.extend(bytes(max(0, position - len(model.content))))
            model.content[position : position + len(data)] = data
            model.durable = False

    @precondition(lambda self: self.files)
    @rule(size=st.integers(0, 3000), data=st.data())
    def truncate(self, size: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.files)))
        file = self.disk.open(f"/d/{name}", write=True)
        file.truncate(size)
        file.close()
        model = self.files[name]
        model.content = model.content[:size].ljust(size, b"\0")
        model.durable = False

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.files)))
        file = self.disk.open(f"/d/{name}")
        file.fdatasync()
        file.close()
        self.files[name].durable = True

    @rule()
    def sync_names(self) -> None:
        self.disk.sync_dir("/d")
        self.history = [dict(self.files)]

    @precondition(lambda self: self.files)
    @rule(new=NAMES, data=st.data())
    def rename(self, new: str, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.files)))
        self.disk.rename(f"/d/{name}", f"/d/{new}")
        self.files[new] = self.files.pop(name)
        self.remember()

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def unlink(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.files)))
        self.disk.unlink(f"/d/{name}")
        del self.files[name]
        self.remember()

    @rule()
    def kill(self) -> None:
        self.disk.kill()

    @rule()
    def go_on_with_a_snapshot(self) -> None:
        before, self.disk = self.disk, self.disk.snapshot()
        before.power_cut(Random(1))

    @rule(seed=st.integers(0, 1 << 32))
    def cut_power(self, seed: int) -> None:
        self.disk.power_cut(Random(seed))
        names = self.disk.listdir("/d")
        # A name that never moved is there with its file; no name leads where it never led.
        for name, file in self.history[0].items():
            if all(moment.get(name) is file for moment in self.history):
                assert name in names
        found = {name: self.read(name) for name in names}
        for name, content in found.items():
            assert any(self.fits(moment.get(name), content) for moment in self.history)
        self.files = {name: ModelFile(content) for name, content in found.items()}
        self.history = [dict(self.files)]

    @staticmethod
    def fits(file: ModelFile | None, content: bytes) -> bool:
        return file is not None and (not file.durable or file.content == content)

    def read(self, name: str) -> bytes:
        file = self.disk.open(f"/d/{name}")
        content = file.pread(1 << 20, 0)
        file.close()
        return content

    @invariant()
    def looks_like_the_model(self) -> None:
        assert self.disk.listdir("/d") == sorted(self.files)
        for name, model in self.files.items():
            assert self.disk.size(f"/d/{name}") == len(model.content)
            assert self.read(name) == model.content


def test_the_disk_is_like_the_model() -> None:
    run_state_machine_as_test(
        DiskMachine, settings=settings(max_examples=60, stateful_step_count=30, deadline=None)
    )


@pytest.mark.slow
def test_the_disk_is_like_the_model_at_length() -> None:
    run_state_machine_as_test(
        DiskMachine, settings=settings(max_examples=600, stateful_step_count=60, deadline=None)
    )
