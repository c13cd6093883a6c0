"""Machines, processes on them, and what happens to both: kills, pre-emption, sleep, second starts."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import Thread, get_ident
from typing import Any

from headtohead.files import disk_operations, leases
from headtohead.files.disk_operations import Disk
from simulated_cluster.clock import Clock
from simulated_cluster.network_files import Machine, NetworkFiles, ProcessKilled, Server

Program = Generator[float, None, None]
"""The actions of a process: each value is how many seconds pass before it goes on."""


@dataclass(frozen=True)
class Trouble:
    """A cluster's troubles, and how often they come."""

    killed_per_minute: float = 0.01
    """The share of the workers that is struck, and not only killed: see `kinds`."""
    slow_share: float = 0.002
    """The share of the operations on files that is slow."""
    memory_seconds: float = 30.0
    """The longest that a machine relies on names that it has seen."""
    skew_seconds: float = 600.0
    """The largest difference of a machine's clock."""
    duplicates: float = 0.02
    """Workers that are started a second time by mistake, as a share."""
    kinds: tuple[str, ...] = ("killed", "killed", "preempted", "asleep", "node_lost")
    """The accidents of a worker that is struck, each as likely as the others."""


CALM = Trouble(0, 0, 0, 0, 0)
_BEATING = [Thread()]
"""Stands for the thread of real leases, which is never started: beats are events."""


class HeldLeases(dict[leases.Lease, None]):
    """Leases that the simulation's own thread alone finds: beats of the thread of real leases would follow the real
    clock."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = get_ident()

    def __iter__(self) -> Iterator[leases.Lease]:
        return super().__iter__() if get_ident() == self._thread else iter(())


class Process:
    """One process: its view of the disk, the leases it holds, and the program it runs."""

    def __init__(self, cluster: Cluster, machine: Machine, number: int) -> None:
        self.cluster, self.machine, self.number = cluster, machine, number
        self.files = NetworkFiles(cluster.server, machine, number)
        self.held = HeldLeases()
        self.is_stopping = False
        """Whether it was asked to end, as by SIGTERM."""
        self.asleep_until = 0.0
        self._born = self._died = cluster.clock.now
        self._program: Program | None = None
        self._is_running = False

    def start(self, program: Program, delay: float = 0.0) -> None:
        """Let the program run from then on, and the thread that touches its leases."""
        self._program = program
        self._born = self._died = self.cluster.clock.now + delay
        self.cluster.clock.at(self.cluster.clock.now + delay, self._go_on)
        self.cluster.clock.at(self.cluster.clock.now + delay + leases.BEAT_SECONDS, self._beat)

    @property
    def minutes(self) -> float:
        """Return how long the process was at work."""
        return (self._died - self._born) / 60

    @property
    def is_alive(self) -> bool:
        return self._program is not None and not self.files.is_killed

    def kill(self) -> None:
        """End the process, and forget what it held in memory unless it is in the middle of an operation."""
        self.files.kill()
        if not self._is_running:
            self._forget()

    def sleep(self, seconds: float) -> None:
        """Stop everything in the process, as where a machine is suspended."""
        self.asleep_until = self.cluster.clock.now + seconds

    def stop(self) -> None:
        """Ask the program to end; it learns so when it goes on, which is at once."""
        self.is_stopping = True
        self.cluster.clock.at(self.cluster.clock.now, self._go_on)

    def _go_on(self) -> None:
        clock = self.cluster.clock
        if self._program is None or self.files.is_killed or self._is_running:
            return
        if self._is_put_off(self._go_on):
            return
        self._is_running, self._died = True, clock.now
        try:
            with self.cluster.as_process(self):
                seconds = next(self._program)
            clock.at(clock.now + seconds, self._go_on)
        except (StopIteration, ProcessKilled):
            self.files.kill()
            self._forget()
        finally:
            self._is_running = False

    def _forget(self) -> None:
        self._program = None
        self.held.clear()

    def _is_put_off(self, event: Callable[[], None]) -> bool:
        """Return whether an event has to wait, since the process sleeps or its other thread holds the mutex."""
        now = self.cluster.clock.now
        if now >= self.asleep_until and not self.files.is_locked:
            return False
        self.cluster.clock.at(max(self.asleep_until, now + 0.5), event)
        return True

    def _beat(self) -> None:
        clock = self.cluster.clock
        if not self.is_alive:
            return
        if self._is_put_off(self._beat):
            return
        try:
            with self.cluster.as_process(self):
                for lease in list(self.held):
                    lease.beat()
        except ProcessKilled:
            return
        clock.at(clock.now + leases.BEAT_SECONDS, self._beat)


class SlowDisk(Disk):
    """The disk of the records: real files that are not waited for, and a pause now and then before they appear."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def sync(self, handle: int) -> None:
        del handle

    def sync_folder(self, folder: Any) -> None:
        del folder

    def rename(self, source: Any, target: Any) -> None:
        if self._cluster.current is not None:
            self._cluster.current.files.pass_by()
        super().rename(source, target)


class Cluster:
    """A cluster with so many places for workers, eight to a machine; `program` is what a worker does."""

    def __init__(self, seed: int, trouble: Trouble) -> None:
        self.random = random.Random(seed)
        self.trouble = trouble
        self.clock = Clock()
        self.clock.while_waiting = lambda: self._sees(*outside)
        self.server = Server(self.clock, seed + 1, slow_share=trouble.slow_share)
        self.current: Process | None = None
        self.processes: list[Process] = []
        self.counts = dict.fromkeys(("killed", "preempted", "asleep", "node_lost", "duplicated"), 0)
        self._running: list[Process] = []
        self._numbers = 0
        outside = (None, leases.system, leases._HELD, leases._beating)

    def machine(self, name: str) -> Machine:
        draw, trouble = self.random.uniform, self.trouble
        skew = draw(-trouble.skew_seconds, trouble.skew_seconds)
        return Machine(name, 0, skew, draw(-1e-4, 1e-4), draw(0, trouble.memory_seconds))

    def process(self, machine: Machine) -> Process:
        self._numbers += 1
        process = Process(self, machine, self._numbers)
        self.processes.append(process)
        return process

    def start_workers(self, number: int, program: Callable[[Process], Program]) -> None:
        """Start workers, eight to a machine, and duplicates of some, within a minute."""
        machines = [self.machine(f"node{index}") for index in range(-(-number // 8))]
        for index in range(number):
            self._start_worker(machines[index // 8], program, self.random.uniform(0, 60))
            if self.random.random() < self.trouble.duplicates:
                self.counts["duplicated"] += 1
                self._start_worker(self.random.choice(machines), program, self.random.uniform(0, 600))
        if self.trouble.killed_per_minute:
            self.clock.at(60.0, lambda: self._strike(program))

    @property
    def workers(self) -> list[Process]:
        """Return those that are at work."""
        self._running = [process for process in self._running if process.is_alive]
        return self._running

    def as_process(self, process: Process) -> AbstractContextManager[None]:
        """Make the package see the disk, the clock and the leases of a process."""
        return self._sees(process, process.files, process.held, _BEATING)

    @contextmanager
    def _sees(
        self,
        process: Process | None,
        files: leases.LeaseFiles,
        held: dict[leases.HeldLease, None],
        beating: list[Thread],
    ) -> Iterator[None]:
        before = self.current, leases.system, leases._HELD, leases._beating
        self.current, leases.system, leases._HELD, leases._beating = process, files, held, beating
        try:
            yield
        finally:
            self.current, leases.system, leases._HELD, leases._beating = before

    @contextmanager
    def disk(self) -> Iterator[None]:
        """Put the records on the cluster's disk."""
        before, disk_operations.system = disk_operations.system, SlowDisk(self)
        try:
            yield
        finally:
            disk_operations.system = before

    def _start_worker(self, machine: Machine, program: Callable[[Process], Program], delay: float) -> None:
        process = self.process(machine)
        process.start(program(process), delay)
        self._running.append(process)

    def _strike(self, program: Callable[[Process], Program]) -> None:
        """Let each minute's share of workers have an accident; a scheduler starts others for those that are gone."""
        workers = self.workers
        expected = self.trouble.killed_per_minute * len(workers)
        number = int(expected) + (self.random.random() < expected % 1)
        for process in self.random.sample(workers, min(number, len(workers))):
            kind = self.random.choice(self.trouble.kinds)
            self.counts[kind] += 1
            if kind == "asleep":
                process.sleep(self.random.uniform(30, 300))
            elif kind == "preempted":
                process.stop()
                self.clock.at(self.clock.now + 30, process.kill)
                self._start_worker(process.machine, program, self.random.uniform(60, 300))
            elif kind == "killed":
                process.kill()
                self._start_worker(process.machine, program, self.random.uniform(5, 60))
            else:
                gone = [other for other in workers if other.machine is process.machine and other.is_alive]
                for other in gone:
                    other.kill()
                process.machine.boot += 1
                for _ in gone:
                    self._start_worker(process.machine, program, self.random.uniform(120, 600))
        if self.workers:
            self.clock.at(self.clock.now + 60.0, lambda: self._strike(program))
