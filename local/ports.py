"""Functions for loopback ports: whether a port is taken, free ports, and servers."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from threading import Thread

from local import LocalError

LOOPBACK = "127.0.0.1"
LOOPBACK_NAMES = (LOOPBACK, "localhost")
"""Host names of this machine in URLs and in the header `Host`."""
FROM_CONTAINER = "host.docker.internal"
"""Name of this machine inside a container of Docker Desktop. Such a container cannot share the host's network."""


def is_taken(port: int) -> bool:
    """Return whether a server uses the port on loopback, or on all interfaces."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Without this option, an old connection in TIME_WAIT would look like a server.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    # Some systems let a second program bind loopback next to a server on all interfaces, so test that server also.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def bound(port: int) -> socket.socket:
    """Return a socket that is bound to a loopback port. Port 0 selects a free port. Raises LocalError if the port is taken.

    Pass the socket to the server, because another program could take a free port before the server uses it.
    """
    if port and is_taken(port):
        raise LocalError(f"Port {port} is in use. Stop its process, or use another port.")
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # With port 0, the option could select a port that another program has bound, but does not listen on yet.
        if port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((LOOPBACK, port))
    except OSError as error:
        made.close()
        raise LocalError(f"Port {port} is in use. Stop its process, or use another port.") from error
    return made


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Serve requests in a separate thread for the duration of the block."""
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def free_port() -> int:
    """Return a free port on loopback. On Linux, the port is reserved until this process ends.

    A program that binds port 0 does not get a reserved port. A server with SO_REUSEADDR can still listen on the port;
    nearly all servers set this option. On other systems, a reservation would block such servers. There, the port is not
    reserved, and another program may take it after the call. Use `bound` where possible.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((LOOPBACK, 0))
    port = int(holder.getsockname()[1])
    if sys.platform == "linux":
        holder.detach()  # stays open until this process ends
    else:
        holder.close()
    return port


def chosen_port(variable: str, default: int) -> int:
    """Return the port in an environment variable, or the default. Raises LocalError if the value is not a port number."""
    text = os.environ.get(variable) or str(default)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise LocalError(f"{variable}={text} is not a port. Use a number from 1 to 65535.")
    if int(text) == 80:
        raise LocalError(f"{variable}=80 is not supported, because clients omit that port from URLs. Use another port.")
    return int(text)


def require_free(port: int, variable: str, purpose: str) -> None:
    """Raise LocalError if the port is taken. The message names the environment variable that selects another port."""
    if is_taken(port):
        raise LocalError(
            f"Port {port} ({purpose}) is in use. Stop its process, or use another port with {variable}=<port>."
        )
