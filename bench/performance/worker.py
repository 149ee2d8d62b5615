"""Runs in the process that is measured: `python worker.py EVENTS [FIRST]`, with what it measures on PYTHONPATH.

EVENTS is a file that says of each operation which module answers it, and its event. With FIRST, the name of an operation, it
imports that module, calls it once, prints the seconds of processor time that both took, and the status. Otherwise it reads
lines from standard input, `<operation> <times>`, and answers each with the seconds that as many calls took, or with the
answer itself if `times` is 0. Without arguments it ends at once: what is left is the start of Python.
"""

# Only what is built in, or there when Python has started: what the app imports is to be counted.
import gc
import itertools
import marshal
import os
import sys
import time


class WorkerContext:
    """What Lambda says of an invocation."""

    function_name = "videos"
    function_version = "1"
    memory_limit_in_mb = "1024"
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:videos"
    aws_request_id = "52fdfc07-2182-454f-963f-5f0f9a621d72"

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        """As much as a function has at its start."""
        return 60_000


def main(path: str, first: str = "") -> None:
    """Measure."""
    # What apps print on standard output goes where Lambda would log it.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with open(path, "rb") as file:
        events = marshal.load(file)  # noqa: S302 -- the bench wrote it a moment ago; json is not built in
    context = WorkerContext()
    if first:
        module, event = events[first]
        started = time.process_time()
        answer = __import__(module, fromlist=["lambda_handler"]).lambda_handler(event, context)
        taken = time.process_time() - started
        answers.write(f"{taken} {answer['statusCode']}\n")
        return
    # The time stands still, so that what an app remembers for some seconds it remembers for all calls.
    time.time = itertools.repeat(time.time()).__next__
    for line in sys.stdin:
        operation, _, times = line.strip().rpartition(" ")
        module, event = events[operation]
        handle = __import__(module, fromlist=["lambda_handler"]).lambda_handler
        if times == "0":
            import json

            answers.write(json.dumps(handle(event, context)) + "\n")
            continue
        calls = range(int(times))
        gc.collect()  # so that none pays for what others left behind
        started = time.process_time()
        for _ in calls:
            handle(event, context)
        answers.write(f"{time.process_time() - started}\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(*sys.argv[1:])
    os._exit(0)  # how long an app takes to end is nobody's time
