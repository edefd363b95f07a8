"""One side of TLS handshakes. It loads its certificate or its bundle once, when it starts."""
import socket
import ssl
import sys
import threading

RESPONSE = b'HTTP/1.1 204 No Content\r\n\r\n'


def head(secure):
    """The head of the next message; what has arrived if the other side closes before."""
    received = b''
    while b'\r\n\r\n' not in received:
        part = secure.recv(4096)
        if not part:
            break
        received += part
    return received.lower()


def serve(cert, key, host, port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with socket.create_server((host, int(port)), backlog=128) as listener:
        while True:
            plain, _ = listener.accept()
            threading.Thread(target=answer, args=(context, plain), daemon=True).start()


def answer(context, plain):
    try:
        plain.settimeout(10)
        with context.wrap_socket(plain, server_side=True) as secure:
            while head(secure):
                secure.sendall(RESPONSE)
    except OSError:
        pass  # only the client's verdict counts


def trusting(bundle):
    context = ssl.create_default_context(cafile=bundle)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def judge(name, *pairs):
    """Prints, for each bundle and port, whether a client with this bundle trusts the server."""
    for bundle, port in zip(pairs[::2], pairs[1::2]):
        try:
            exchange(trusting(bundle), b'', name, '127.0.0.1', int(port), 0)
            print('ok')
        except ssl.SSLCertVerificationError:
            print('refused')


def connect(bundle, name):
    """
    Reads lines with an address, a port and a number of requests, which it sends over one connection. Answers each with
    `ok` and the number of responses, or with the reason of the failure.
    """
    context = trusting(bundle)
    request = f'GET / HTTP/1.1\r\nhost: {name}\r\n\r\n'.encode()
    print('ready', flush=True)
    for line in sys.stdin:
        host, port, count = line.split()
        try:
            print('ok', exchange(context, request, name, host, int(port), int(count)), flush=True)
        except OSError as error:
            print(str(error).replace('\n', ' '), flush=True)


def exchange(context, request, name, host, port, count):
    with socket.create_connection((host, port), timeout=20) as plain:
        with context.wrap_socket(plain, server_hostname=name) as secure:
            for responses in range(1, count + 1):
                secure.sendall(request)
                response = head(secure)
                if not response.startswith((b'http/1.0 2', b'http/1.1 2')):
                    raise OSError(f'no response, but {response!r}')
                if response.startswith(b'http/1.0'):
                    return responses  # the server closes the connection
    return count


{'serve': serve, 'connect': connect, 'judge': judge}[sys.argv[1]](*sys.argv[2:])
