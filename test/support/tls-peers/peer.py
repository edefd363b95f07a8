"""One side of TLS handshakes. It loads its certificate or its bundle once, when it starts."""
import socket
import ssl
import sys
import threading

RESPONSE = b'HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n'


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
            if secure.recv(4096):
                secure.sendall(RESPONSE)
    except OSError:
        pass  # only the client's verdict counts


def connect(bundle, name):
    """Reads lines with an address and a port, and answers each with `ok` or the reason of the failure."""
    context = ssl.create_default_context(cafile=bundle)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    print('ready', flush=True)
    for line in sys.stdin:
        host, port = line.split()
        try:
            with socket.create_connection((host, int(port)), timeout=20) as plain:
                context.wrap_socket(plain, server_hostname=name).close()
            print('ok', flush=True)
        except OSError as error:
            print(str(error).replace('\n', ' '), flush=True)


{'serve': serve, 'connect': connect}[sys.argv[1]](*sys.argv[2:])
