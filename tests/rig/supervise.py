#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs one guest: starts qemu, passes the job's stdin, stdout and stderr through, watches the console.

supervise.py [options] -- QEMU ARGUMENTS...

Exit status: the job's, or 125 when the guest failed (panic, WARN, hang, no boot, time limit).
"""

import argparse
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import tty

GUEST_FAILED = 125
CHUNK = 1 << 16
# Time for the rest of a kernel report to arrive before the guest is stopped.
REPORT_SECONDS = 2.0

BAD_CONSOLE = re.compile(
    rb"Kernel panic|\bWARNING: |\bBUG: |kernel BUG at|\bOops: |Oops\[|general protection fault"
    rb"|possible recursive locking|possible circular locking|inconsistent lock state"
    rb"|suspicious RCU usage|INFO: task .* blocked for more than|rcu:? INFO: .*stall"
    rb"|self-detected stall|soft lockup|hard LOCKUP|unregister_netdevice: waiting"
    rb"|Out of memory: Killed|refcount_t: |UBSAN: |KASAN: |KFENCE: |rdma_odp:.*leak"
    rb"|rig: boot failed")


class Output(threading.Thread):
    """Copies a guest output port to fd until the token that the guest appends at the end.

    A thread, so that a reader of ours that stalls delays neither console nor time limits."""

    def __init__(self, sock, fd, token):
        super().__init__(daemon=True)
        self.sock, self.fd, self.token = sock, fd, token
        self.held = b""
        self.done = False
        self.broken = False

    def run(self):
        try:
            while not self.done:
                data = self.sock.recv(CHUNK)
                if not data:
                    break
                write_all(self.fd, self.before_token(data))
        except OSError:
            self.broken = True
        self.done = True

    def before_token(self, data):
        if self.token is None:
            return data
        data = self.held + data
        end = data.find(self.token)
        if end >= 0:
            self.done = True
            return data[:end]
        # What may be the token's beginning waits for more.
        keep = min(len(self.token) - 1, len(data))
        while keep and not data.endswith(self.token[:keep]):
            keep -= 1
        self.held = data[len(data) - keep:]
        return data[:len(data) - keep]


class Input(threading.Thread):
    """Copies our stdin to the guest; its end is the port's end."""

    def __init__(self, sock):
        super().__init__(daemon=True)
        self.sock = sock

    def run(self):
        try:
            while data := os.read(0, CHUNK):
                self.sock.sendall(data)
        except OSError:
            pass
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Supervisor:
    def __init__(self, options):
        self.options = options
        self.selector = selectors.DefaultSelector()
        self.log = open(options.log, "wb", buffering=0)
        self.started = time.monotonic()
        self.ready = False
        self.ready_at = 0.0
        self.status = None       # the job's exit status
        self.failure = None      # why the guest failed
        self.report_end = 0.0    # until when to wait for more of a kernel report
        self.partial = {"console": b"", "ctl": b""}
        self.ports = {}
        self.outputs = []
        self.qemu = None
        self.saved_tty = None

    def start(self):
        names = ["console", "ctl"] + (["tty"] if self.options.tty else ["out", "err", "in"])
        arguments = self.options.qemu + ["-device", "virtio-serial-pci,max_ports=8"]
        passed = []
        for name in names:
            ours, theirs = socket.socketpair()
            self.ports[name] = ours
            passed.append(theirs)
            arguments += ["-chardev", f"socket,id={name},fd={theirs.fileno()}"]
            if name == "console":
                arguments += ["-serial", "chardev:console"]
            elif name == "tty":
                arguments += ["-device", "virtconsole,chardev=tty"]
            else:
                arguments += ["-device", f"virtserialport,chardev={name},name={name}"]
        # A session of its own: Ctrl-C is ours to handle. It dies with us, however we die.
        self.qemu = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL"] + arguments, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log, start_new_session=True,
            pass_fds=[sock.fileno() for sock in passed])
        for sock in passed:
            sock.close()
        for name in self.partial:
            self.selector.register(self.ports[name], selectors.EVENT_READ, name)
        if self.options.tty:
            self.outputs = [Output(self.ports["tty"], 1, None)]
            self.saved_tty = termios.tcgetattr(0)
            tty.setraw(0)
        else:
            token = self.options.token.encode()
            self.outputs = [Output(self.ports["out"], 1, token), Output(self.ports["err"], 2, token)]
        for output in self.outputs:
            output.start()

    def on_console(self, line):
        if self.failure is None and BAD_CONSOLE.search(line):
            self.fail("the guest's kernel reports: " + printable(line))
            self.report_end = time.monotonic() + REPORT_SECONDS

    def on_ctl(self, line):
        word, _, rest = line.partition(b" ")
        if word == b"ready":
            self.ready = True
            self.ready_at = time.monotonic()
            Input(self.ports["tty" if self.options.tty else "in"]).start()
        elif word == b"exit":
            self.status = int(rest)
        elif word == b"fail":
            self.fail("the guest did not start: " + printable(rest))

    def fail(self, why):
        if self.failure is None:
            self.failure = why

    def read(self, name):
        """One read of console or ctl; False at its end."""
        try:
            data = self.ports[name].recv(CHUNK)
        except ConnectionResetError:
            data = b""
        if name == "console":
            self.log.write(data)
            if self.options.verbose:
                write_all(2, data)
        lines = (self.partial[name] + data).split(b"\n")
        self.partial[name] = lines.pop()
        for line in lines:
            (self.on_console if name == "console" else self.on_ctl)(line)
        return bool(data)

    def check_time(self):
        now = time.monotonic()
        limit = self.options.timeout
        if not self.ready and now - self.started > self.options.boot_timeout:
            self.fail(f"the guest did not boot within {self.options.boot_timeout:g} s")
        elif limit and self.ready and now - self.ready_at > limit:
            self.fail(f"the command did not end within {limit:g} s (--timeout gives it more)")

    def finished(self):
        if self.failure is not None:
            return time.monotonic() > self.report_end
        if self.status is None:
            return False
        return self.options.tty or all(output.done for output in self.outputs)

    def run(self):
        self.start()
        while not self.finished():
            for key, _ in self.selector.select(0.02 if self.status is not None else 0.5):
                if not self.read(key.data):
                    self.selector.unregister(key.fileobj)
            if any(output.broken for output in self.outputs):
                self.stop()
                return 128 + signal.SIGPIPE
            self.check_time()
            if self.qemu.poll() is not None and self.status is None:
                if "console" in self.registered():
                    while self.read("console"):
                        pass
                self.fail(f"qemu ended by itself with status {self.qemu.returncode}")
                self.report_end = 0.0
        self.stop()
        return self.status if self.failure is None else self.explain()

    def failed_before_us(self):
        """The guest's kernel failed with no module or program of ours in it."""
        with open(self.options.log, "rb") as log:
            console = log.read()
        return not self.ready and b"Kernel panic" in console and b"rdma_odp" not in console

    def registered(self):
        return {key.data for key in self.selector.get_map().values()}

    def explain(self):
        with open(self.options.log, "rb") as log:
            tail = log.read().replace(b"\r", b"").splitlines()[-40:]
        for line in tail:
            write_all(2, b"    | " + line + b"\n")
        write_all(2, f"vm: error: {self.failure}; the whole console: {self.options.log}\n".encode())
        return GUEST_FAILED

    def stop(self):
        if self.qemu is not None and self.qemu.poll() is None:
            self.qemu.kill()
            self.qemu.wait()
        if self.saved_tty is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, self.saved_tty)
            self.saved_tty = None


def printable(line):
    return line.decode("utf-8", "replace").strip()


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data):]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--timeout", type=float, default=0)
    parser.add_argument("--boot-timeout", type=float, default=300)
    parser.add_argument("--tty", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("qemu", nargs="+")
    options = parser.parse_args()
    supervisor = Supervisor(options)

    def interrupted(number, _frame):
        supervisor.stop()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    # Reading the terminal from the background is an error to be told, not a reason to stop.
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)
    try:
        status = supervisor.run()
        if status == GUEST_FAILED and supervisor.failed_before_us():
            os.replace(options.log, options.log + ".first-boot")
            write_all(2, b"vm: that was before anything of ours was loaded, which emulation under "
                         b"load brings about: booting once more\n")
            supervisor = Supervisor(options)
            status = supervisor.run()
    finally:
        supervisor.stop()
    # Not sys.exit: a thread may be blocked in a read of our stdin.
    os._exit(status)


if __name__ == "__main__":
    main()
