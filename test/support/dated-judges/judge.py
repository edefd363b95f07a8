"""Handshakes in memory, by the clock of this process. Prints `ok` or the reason for each case in the folder."""
import pathlib
import ssl
import sys


def verdict(case, host):
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(f'{case}.chain.pem', f'{case}.key.pem')
    client_context = ssl.create_default_context(cafile=f'{case}.bundle.pem')
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(8):
        for side in (client, server):
            try:
                side.do_handshake()
                if side is client:
                    return 'ok'
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                return str(error)
    return 'the handshake does not end'


folder = pathlib.Path(sys.argv[1])
for index, host in enumerate((folder / 'hosts').read_text().split()):
    print(verdict(folder / str(index), host))
