#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's own tests, as the distribution ships them (python3-pyverbs), on a device.

By default each test is a case of its own, told in the form that tests/guest/run reads. With
--baseline the tests run on another device as well, both results are shown in one table, a line per
module, and it is a failure if a test passes there and not here.
"""

import argparse
import gc
import gzip
import importlib
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
SHIPPED = Path("/usr/share/doc/rdma-core/tests")

# Left out: modules that talk to a device of one vendor, on any other they crash themselves; and
# test_rdmacm, since the device has no connection manager.
LEFT_OUT = re.compile(r"test_(mlx5|efa|cuda|irdma|rdmacm)")

# What a test may say when it skips, and why that isn't of the driver's making.
KNOWN_SKIPS = (
    (r"Device memory is not supported", "librxe has no device memory"),
    (r"Device /dev/dri/\S+ is not present", "needs a GPU"),
    (r"(Create XRCD|XRC\w*) is not supported", "librxe has no XRC"),
    (r"Must be run by root on Ethernet link layer", "raw packets need an Ethernet port"),
    (r"To Create RAW QP must be done by root on Ethernet", "raw packets need an Ethernet port"),
    (r"Link layer of port=\d+ is InfiniBand", "for RoCE ports"),
    (r"Parent Domain is not supported", "librxe has no parent domains"),
    (r"Extended CQ is not supported", "asks for what librxe doesn't offer: time stamps, DV flags"),
    (r"Create (CQ|extended CQ|CQEX) with .* is not supported", "librxe has no such CQ"),
    (r"Rereg MR is not supported", "librxe has no ibv_rereg_mr"),
    (r"Importing a device is not supported", "librxe has no ibv_import_device"),
    (r"All gid indices populated", "the port has one GID, and it is in use"),
    (r"Advise MR with flags .* is not supported", "librxe 56 has no ibv_advise_mr"),
    (r"There are no huge pages", "the kernel found no memory for huge pages"),
)

# Pass on the baseline, and can't here.
BASELINE_ONLY = {
    "test_addr.AHTest.test_create_ah_roce": "for RoCE ports, and the device has InfiniBand's",
}


def reason_for(skip):
    """Why a skip is none of ours; None when it isn't known."""
    for pattern, why in KNOWN_SKIPS:
        if re.search(pattern, skip):
            return why
    return None


def unpack(folder):
    """Debian compresses the larger ones."""
    shutil.copytree(SHIPPED, folder)
    for packed in folder.glob("*.gz"):
        with gzip.open(packed) as source:
            packed.with_suffix("").write_bytes(source.read())
        packed.unlink()


def modules(folder, wanted):
    names = sorted(path.stem for path in folder.glob("test_*.py") if not LEFT_OUT.match(path.stem))
    for name in wanted:
        if name not in names:
            sys.exit(f"no module {name}; there are: {' '.join(names)}")
    for path in folder.glob("test_*.py"):
        if path.stem not in (wanted or names):
            path.unlink()  # the package loads all that is there
    return wanted or names


class Results(unittest.TestResult):
    """Gives (module, test, result, text) to a function; result is ok, skip or not ok."""

    def __init__(self, tell):
        super().__init__()
        self.tell = tell

    def add(self, test, result, text=""):
        if not isinstance(test, unittest.TestCase):  # setUpClass and the like
            name = str(test)
        else:
            name = test.id()
        module, _, rest = name.removeprefix("tests.").partition(".")
        self.tell((module, rest, result, text))

    def addSuccess(self, test):
        self.add(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.add(test, "skip", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.add(test, "not ok", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self.add(test, "not ok", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.add(test, "not ok", self._exc_info_to_string(err, test))


def run_module(name, device, pipe):
    """Runs in a process of its own.

    pyverbs closes what it finds unreachable, in whatever order: a context before its PDs, which
    crashes. So nothing is collected, and the process ends without a farewell.
    """
    gc.disable()
    parser = importlib.import_module("args_parser").parser
    sys.argv[1:] = ["--dev", device]
    parser.parse_args()
    module = importlib.import_module(f"tests.{name}")
    unittest.defaultTestLoader.loadTestsFromModule(module).run(Results(pipe.send))
    pipe.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def run_all(names, device, tell=None):
    results = []

    def add(result):
        results.append(result)
        if tell:
            tell(*result)

    context = multiprocessing.get_context("fork")
    for name in names:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=run_module, args=(name, device, theirs))
        process.start()
        theirs.close()
        try:
            while True:
                add(ours.recv())
        except EOFError:
            process.join()
        if process.exitcode:
            add((name, "process", "not ok", f"ended with {process.exitcode}"))
    return results


def tell_case(module, name, result, text):
    full = f"pyverbs.{module.removeprefix('test_')}.{name.rpartition('.')[2]}"
    if result == "ok":
        print(f"ok {full}", flush=True)
        return
    lines = text.strip().splitlines() or [""]
    if result == "not ok":
        print(text)
        print(f"not ok {full}: {lines[-1]}", flush=True)
        return
    why = reason_for(text)
    if why:
        print(f"skip {full}: {lines[0]} ({why})", flush=True)
    else:
        print(f"not ok {full}: skipped, and not known as none of ours: {lines[0]}", flush=True)


def table(names, device, ours, other, theirs):
    """Markdown: passed, skipped, failed of each module on both devices."""

    def counts(results, module):
        mine = [result for name, _, result, _ in results if name == module]
        return [mine.count("ok"), mine.count("skip"), mine.count("not ok")]

    print(f"| module | {device}: ok | skip | failed | {other}: ok | skip | failed |")
    print("| --- |" + " ---: |" * 6)
    totals = [0] * 6
    for name in names:
        row = counts(ours, name) + counts(theirs, name)
        totals = [a + b for a, b in zip(totals, row)]
        print(f"| {name} | " + " | ".join(str(number) for number in row) + " |")
    print("| all | " + " | ".join(str(number) for number in totals) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default=os.environ.get("ODP_TEST_DEVICE", "odp0"))
    parser.add_argument("--baseline", metavar="DEVICE", help="the device to compare with")
    parser.add_argument("modules", nargs="*", help="test_mr and the like; default: all")
    args = parser.parse_args()
    if not SHIPPED.is_dir():
        print(f"{SHIPPED} is missing: python3-pyverbs is not installed")
        return 77

    before = HUGE_PAGES.read_text()
    HUGE_PAGES.write_text("16")
    try:
        return judge(args)
    finally:
        HUGE_PAGES.write_text(before)


def judge(args):
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "tests"
        unpack(folder)
        names = modules(folder, args.modules)
        sys.path[:0] = [str(folder), work]
        if not args.baseline:
            print("# cases", flush=True)
            results = run_all(names, args.device, tell_case)
            return 1 if any(result == "not ok" for _, _, result, _ in results) else 0
        ours = run_all(names, args.device)
        theirs = run_all(names, args.baseline)

    table(names, args.device, ours, args.baseline, theirs)
    for module, name, result, text in theirs:
        if result == "not ok":
            print(f"{args.baseline}: {module}.{name}: {text.strip().splitlines()[-1]}")
    mine = {(module, name): result for module, name, result, _ in ours}
    worse = []
    for module, name, result, _ in theirs:
        full = f"{module}.{name}"
        if result != "ok" or mine.get((module, name)) == "ok":
            continue
        if full in BASELINE_ONLY and mine.get((module, name)) == "skip":
            print(f"{args.device}: {full} is skipped: {BASELINE_ONLY[full]}")
        else:
            worse.append(full)
    if worse:
        print(f"pass on {args.baseline} and not on {args.device}: {' '.join(worse)}")
        return 1
    if not any(result == "ok" for _, _, result, _ in theirs):
        print(f"no test passes on {args.baseline}: nothing is compared")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
