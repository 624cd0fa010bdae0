"""Programs that measure the system: memory, files, processes, pipes, sockets, threads."""

import os
import socket
import subprocess
import sys
import tempfile
import threading


def _directory(where):
    return tempfile.TemporaryDirectory(prefix="perfjudge-", dir=where)


def writing(where="/dev/shm", block=65536, count=4, sync=0):
    """Return a function that writes `count` blocks to a file in `where` (synced if `sync`) and reads them."""
    handle, data = tempfile.TemporaryFile(buffering=0, dir=where), bytes(block)

    def unit():
        handle.seek(0)
        for _ in range(count):
            handle.write(data)
        if sync:
            os.fdatasync(handle.fileno())
        handle.seek(0)
        for _ in range(count):
            handle.read(block)

    return unit


def copying(size=2 << 20):
    """Return a function that copies a buffer of `size` bytes to another one."""
    source, target = memoryview(bytes(size)), memoryview(bytearray(size))

    def unit():
        target[:] = source

    return unit


def lines(where="/dev/shm", count=500, buffering=8192):
    """Return a function that writes `count` lines to a file in `where` and reads them."""
    directory = _directory(where)
    path = directory.name + "/lines"

    # the default argument keeps the directory until the end
    def unit(directory=directory):
        with open(path, "wb", buffering=buffering) as handle:
            for i in range(count):
                handle.write(b"line %d of some length\n" % i)
        with open(path, "rb", buffering=buffering) as handle:
            return sum(len(line) for line in handle)

    return unit


def making(where="/dev/shm", count=30, depth=1):
    """Return a function that creates, renames, stats and removes `count` files, one after the other."""
    directory = _directory(where)
    folder = directory.name + "/" + "/".join("d" * 8 for _ in range(depth))
    os.makedirs(folder)

    def unit(directory=directory):
        for i in range(count):
            path = f"{folder}/{i}"
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            os.rename(path, path + "x")
            os.stat(path + "x")
            os.unlink(path + "x")

    return unit


def listing(where="/dev/shm", files=300, how="scandir"):
    """Return a function that sums the sizes of `files` files in a directory, or counts them ("kinds")."""
    directory = _directory(where)
    for i in range(files):
        os.close(os.open(f"{directory.name}/{i}", os.O_CREAT | os.O_WRONLY))

    def by_scan():
        with os.scandir(directory.name) as entries:
            return sum(entry.stat().st_size for entry in entries)

    def by_list():
        return sum(os.stat(f"{directory.name}/{name}").st_size for name in os.listdir(directory.name))

    def kinds():
        with os.scandir(directory.name) as entries:
            return sum(entry.is_file() for entry in entries)

    return {"scandir": by_scan, "listdir": by_list, "kinds": kinds}[how]


def spawning(how="spawn", program="true"):
    """Return a function that runs ``/bin/<program>`` to its end; `how`: "spawn", "subprocess" or "fork"."""
    path = "/bin/" + program

    def by_spawn():
        os.waitpid(os.posix_spawn(path, [program], os.environ), 0)

    def by_subprocess():
        subprocess.run([path], check=False)

    def by_fork():
        pid = os.fork()
        if not pid:
            os.execv(path, [program])
        os.waitpid(pid, 0)

    return {"spawn": by_spawn, "subprocess": by_subprocess, "fork": by_fork}[how]


def forking(memory=10):
    """Return a function that forks this process, which holds `memory` MiB more, and waits for the child."""
    block = bytearray(os.urandom(1) * (memory << 20))

    def unit(block=block):
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)

    return unit


def _echo(receive, send, size):
    while True:
        data = receive(size)
        if not data:
            os._exit(0)
        send(data)


def pipes(size=64, how="pipe"):
    """Return a function that sends `size` bytes to a child process and receives them back.

    `how` is "pipe", "unix" or "tcp".
    """
    message = bytes(size)
    if how == "pipe":
        ask, answer = os.pipe(), os.pipe()
        if not os.fork():
            os.close(ask[1])
            _echo(lambda count: os.read(ask[0], count), lambda data: os.write(answer[1], data), size)

        def by_pipe():
            os.write(ask[1], message)
            return os.read(answer[0], size)

        return by_pipe
    left, right = _pair(how)
    if not os.fork():
        left.close()
        _echo(right.recv, right.sendall, size)

    def by_socket():
        left.sendall(message)
        got = len(left.recv(size))
        while got < size:
            got += len(left.recv(size))

    return by_socket


def _pair(how):
    if how == "unix":
        return socket.socketpair()
    server = socket.create_server(("127.0.0.1", 0))
    left = socket.create_connection(server.getsockname())
    right, _ = server.accept()
    for end in (left, right):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return left, right


def tasks(size=60, how="gather"):
    """Return a function that runs `size` tasks in an event loop, at once ("gather") or in turn."""
    import asyncio

    loop = asyncio.new_event_loop()

    async def task(i):
        await asyncio.sleep(0)
        return i

    async def gathered():
        return await asyncio.gather(*(task(i) for i in range(size)))

    async def in_turn():
        return [await task(i) for i in range(size)]

    run = gathered if how == "gather" else in_turn
    return lambda: loop.run_until_complete(run())


def _request(address, keep):
    from http.client import HTTPConnection

    connections = [HTTPConnection(*address)]

    def unit():
        if not keep:
            connections[0].close()
            connections[0] = HTTPConnection(*address)
        connections[0].request("GET", "/")
        return connections[0].getresponse().read()

    return unit


def serving(size=500, keep=1, log=0, work=0):
    """Return a function that requests `size` bytes from an HTTP server in a thread.

    `keep` keeps the connection; the server adds up `work` numbers and logs to stderr if `log`.
    """
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    body = bytes(size)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            sum(range(work))
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            if log:
                sys.stderr.write(" ".join(map(str, words)) + "\n")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return _request(server.server_address, keep)


def asgi(size=500, http="h11", keep=1):
    """Return a function that requests `size` bytes from uvicorn in a thread; `keep` keeps the connection."""
    import asyncio

    import uvicorn

    body = bytes(size)

    async def app(scope, receive, send):
        headers = [(b"content-length", str(size).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    # an event loop disables Nagle's algorithm only if the socket names its protocol
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    config = uvicorn.Config(app, http=http, lifespan="off", log_level="critical", loop="asyncio")
    serve = uvicorn.Server(config).serve(sockets=[listening])
    threading.Thread(target=asyncio.run, args=(serve,), daemon=True).start()
    return _request(listening.getsockname(), keep)
