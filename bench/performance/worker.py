"""Main program of the measured process: `python worker.py EVENTS [FIRST]`, with the app on PYTHONPATH.

EVENTS is a file that maps each operation to its module and its event.

- With FIRST, the name of an operation, the program imports the operation's module and calls the operation once. It
  prints the seconds of processor time for the import and the call together, and the status.
- Without FIRST, the program reads lines `<operation> <times>` from standard input. It prints the seconds of these
  calls, or the response if `times` is 0.
- Without arguments, the program exits immediately, to measure the start of Python alone.
"""

# Imports only modules that are built in or that Python's start loads. The import of other modules by the app must be
# measured.
import gc
import itertools
import marshal
import os
import sys
import time


class WorkerContext:
    """Lambda context of an invocation."""

    function_name = "videos"
    function_version = "1"
    memory_limit_in_mb = "1024"
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:videos"
    aws_request_id = "52fdfc07-2182-454f-963f-5f0f9a621d72"

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        """Return the milliseconds that remain at the start of an invocation. The result never decreases."""
        return 60_000


def main(path: str, first: str = "") -> None:
    """Measure the start of operation `first`, or serve commands from standard input."""
    # Discards the app's standard output, which Lambda would write to the log.
    responses = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with open(path, "rb") as file:
        events = marshal.load(file)  # noqa: S302 -- trusted, because this run wrote it. Importing json would add to the measured start
    context = WorkerContext()
    if first:
        module, event = events[first]
        started = time.process_time()
        response = __import__(module, fromlist=["lambda_handler"]).lambda_handler(event, context)
        instructions = time.process_time() - started
        responses.write(f"{instructions} {response['statusCode']}\n")
        return
    # Stops the clock, so that the app's cache entries do not expire between calls.
    time.time = itertools.repeat(time.time()).__next__
    for line in sys.stdin:
        operation, _, times = line.strip().rpartition(" ")
        module, event = events[operation]
        handle = __import__(module, fromlist=["lambda_handler"]).lambda_handler
        if times == "0":
            import json

            responses.write(json.dumps(handle(event, context)) + "\n")
            continue
        calls = range(int(times))
        gc.collect()  # so that no operation collects the garbage of another operation
        started = time.process_time()
        for _ in calls:
            handle(event, context)
        responses.write(f"{time.process_time() - started}\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(*sys.argv[1:])
    os._exit(0)  # the time to shut down is not measured
