"""Server on loopback that serves each connection with a function of the test."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

from tests.polling import LIMIT

Converse = Callable[[socket.socket], None]
"""Function that reads from a connection and writes to it. The server closes the connection afterwards."""


class Listener:
    """Server on loopback that serves each connection in a separate thread until `close` ends them all."""

    def __init__(self, converse: Converse, tls: ssl.SSLContext | None = None) -> None:
        self.accepted: list[socket.socket] = []
        """All connections that clients have opened."""
        self._converse, self._tls = converse, tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Close all connections and the server. Fails unless every thread ends."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self.accepted:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LIMIT)
            assert not thread.is_alive()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                self.accepted.append(self._socket.accept()[0])
                self._threads.append(
                    threading.Thread(target=self._serve_connection, args=(self.accepted[-1],), daemon=True)
                )
                self._threads[-1].start()

    def _serve_connection(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection:
                self._converse(connection)
