# task_service.py - a service that runs one command.
# SPDX-License-Identifier: Apache-2.0

import threading

from horovod.runner.common.util import network, safe_shell_exec, timeout
from horovod.runner.util.streams import Pipe
from horovod.runner.util.threads import in_thread

WAIT_FOR_COMMAND_MIN_DELAY = 0.1


class RunCommandRequest:
    """Run a command; a second command is not run."""

    def __init__(self, command, env, capture_stdout=False, capture_stderr=False,
                 prefix_output_with_timestamp=False):
        self.command = command
        self.env = env
        self.capture_stdout = capture_stdout
        self.capture_stderr = capture_stderr
        self.prefix_output_with_timestamp = prefix_output_with_timestamp


class StreamCommandOutputRequest:
    """Send the output of the command."""


class StreamCommandStdOutRequest(StreamCommandOutputRequest):
    """Send the stdout of the command."""


class StreamCommandStdErrRequest(StreamCommandOutputRequest):
    """Send the stderr of the command."""


class CommandOutputNotCaptured(Exception):
    """The output of the command was not captured."""


class AbortCommandRequest:
    """End the command."""


class CommandExitCodeRequest:
    """Ask whether the command has ended, and its exit status."""


class CommandExitCodeResponse:
    """The answer: terminated, and exit_code or None."""

    def __init__(self, terminated, exit_code):
        self.terminated = terminated
        self.exit_code = exit_code


class WaitForCommandExitCodeRequest:
    """Wait until the command has ended."""

    def __init__(self, delay):
        self.delay = delay


class WaitForCommandExitCodeResponse:
    """The exit status."""

    def __init__(self, exit_code):
        self.exit_code = exit_code


class NotifyInitialRegistrationCompleteRequest:
    """Report that all services are known."""


class RegisterCodeResultRequest:
    """The result of a function."""

    def __init__(self, result):
        self.result = result


class BasicTaskService(network.BasicService):
    """Runs one command, and answers questions about it."""

    def __init__(self, name, index, key, nics, command_env=None, verbose=0):
        self._changed = threading.Condition()
        self._initial_registration_complete = False
        self._index = index
        self._command_env = command_env
        self._verbose = verbose
        self._command_thread = None
        self._command_abort = threading.Event()
        self._command_stdout = self._command_stderr = None
        self._command_exit_code = None
        self._fn_result = None
        super().__init__(name, key, nics)

    def _run_command(self, command, env, event, stdout=None, stderr=None, index=None,
                     prefix_output_with_timestamp=False):
        try:
            status = safe_shell_exec.execute(
                command, env=env, stdout=stdout, stderr=stderr, index=index, events=[event],
                prefix_output_with_timestamp=prefix_output_with_timestamp)
        finally:
            for pipe in (stdout, stderr):
                if pipe:
                    pipe.close()
        with self._changed:
            self._command_exit_code = status
            self._changed.notify_all()

    def _add_envs(self, env, extra_env):
        """Add variables to env; a value of None removes one."""
        for name, value in extra_env.items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value

    def _start(self, req):
        if self._command_thread is not None:
            return
        env = req.env
        if self._command_env:
            env = dict(self._command_env)
            self._add_envs(env, req.env)
        if self._verbose >= 2:
            print(f"Task service executes command: {req.command}")
        self._command_stdout = Pipe() if req.capture_stdout else None
        self._command_stderr = Pipe() if req.capture_stderr else None
        self._command_thread = in_thread(
            self._run_command, (req.command, env, self._command_abort, self._command_stdout,
                                self._command_stderr, self._index,
                                req.prefix_output_with_timestamp))
        self._changed.notify_all()

    def _has_ended(self):
        return self._command_thread is not None and not self._command_thread.is_alive()

    def _wait_for_end(self, delay):
        while not self._has_ended():
            self._changed.wait(max(delay, WAIT_FOR_COMMAND_MIN_DELAY))

    def _abort(self):
        if self._command_thread is not None:
            self._command_abort.set()
        for pipe in (self._command_stdout, self._command_stderr):
            if pipe:
                pipe.close()

    def _handle(self, req, client_address):
        if isinstance(req, StreamCommandOutputRequest):
            self.wait_for_command_start()
            return self.stream_output(self._command_stdout
                                      if isinstance(req, StreamCommandStdOutRequest)
                                      else self._command_stderr)
        with self._changed:
            if isinstance(req, CommandExitCodeRequest):
                ended = self._has_ended()
                return CommandExitCodeResponse(ended, self._command_exit_code if ended else None)
            if isinstance(req, WaitForCommandExitCodeRequest):
                self._wait_for_end(req.delay)
                return WaitForCommandExitCodeResponse(self._command_exit_code)
            if isinstance(req, RunCommandRequest):
                self._start(req)
            elif isinstance(req, AbortCommandRequest):
                self._abort()
            elif isinstance(req, NotifyInitialRegistrationCompleteRequest):
                self._initial_registration_complete = True
                self._changed.notify_all()
            elif isinstance(req, RegisterCodeResultRequest):
                self._fn_result = req.result
            else:
                return super()._handle(req, client_address)
        return network.AckResponse()

    def fn_result(self):
        """Return the function's result."""
        return self._fn_result

    def wait_for_initial_registration(self, timeout):
        """Wait until all services are known; timeout is a Timeout."""
        with self._changed:
            while not self._initial_registration_complete:
                self._changed.wait(timeout.remaining())
                timeout.check_time_out_for("tasks to start")

    def wait_for_command_start(self, timeout=None):
        """Wait for a command; timeout is a Timeout."""
        with self._changed:
            while self._command_thread is None:
                self._changed.wait(timeout.remaining() if timeout else None)
                if timeout and self._command_thread is None:
                    timeout.check_time_out_for("command to run")

    def check_for_command_start(self, seconds):
        """Return whether a command starts within this time."""
        try:
            self.wait_for_command_start(timeout.Timeout(seconds, "Timed out waiting for "
                                                                 "{activity}"))
        except timeout.TimeoutException:
            return False
        return True

    def wait_for_command_termination(self):
        """Wait until the command has ended."""
        self._command_thread.join()

    def command_exit_code(self):
        """Return the exit status."""
        return self._command_exit_code

    def stream_output(self, stream):
        """Return the answer to a request for a stream."""
        if stream is None:
            return CommandOutputNotCaptured()
        return network.AckStreamResponse(), stream


class BasicTaskClient(network.BasicClient):
    """Sends requests to a BasicTaskService."""

    def __init__(self, service_name, task_addresses, key, verbose, match_intf=False, attempts=3):
        super().__init__(service_name, task_addresses, key, verbose, match_intf=match_intf,
                         attempts=attempts)

    def run_command(self, command, env, capture_stdout=False, capture_stderr=False,
                    prefix_output_with_timestamp=False):
        """Start the command."""
        self._send(RunCommandRequest(command, env, capture_stdout, capture_stderr,
                                     prefix_output_with_timestamp))

    def stream_command_output(self, stdout=None, stderr=None):
        """Return two threads that copy the command's output to text streams."""
        def send(request, stream):
            try:
                self._send(request, stream)
            except Exception:
                self.abort_command()
                raise

        return (in_thread(send, (StreamCommandStdOutRequest(), stdout)) if stdout else None,
                in_thread(send, (StreamCommandStdErrRequest(), stderr)) if stderr else None)

    def abort_command(self):
        """End the command."""
        self._send(AbortCommandRequest())

    def notify_initial_registration_complete(self):
        """Report that all services are known."""
        self._send(NotifyInitialRegistrationCompleteRequest())

    def command_terminated(self):
        """Return whether the command has ended."""
        return self.command_result()[0]

    def command_result(self):
        """Return (whether the command has ended, exit status)."""
        answer = self._send(CommandExitCodeRequest())
        return answer.terminated, answer.exit_code

    def register_code_result(self, result):
        """Register the result of a function."""
        self._send(RegisterCodeResultRequest(result))

    def wait_for_command_termination(self, delay=1.0):
        """Wait until the command ends or the connection closes."""
        self.wait_for_command_exit_code(delay)

    def wait_for_command_exit_code(self, delay=1.0):
        """Wait until the command ends; return its exit status, or None."""
        try:
            return self._send(WaitForCommandExitCodeRequest(delay)).exit_code
        except Exception:
            return None
