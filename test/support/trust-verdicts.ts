/** Verdicts of real TLS stacks on a served chain, for a client that trusts a bundle and expects a host name. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { duplexPair } from 'node:stream';
import { text } from 'node:stream/consumers';
import { connect, createSecureContext, createServer, TLSSocket } from 'node:tls';
import { splitCertificates, toCertificatePem } from '../../src/pki/x509/pem.ts';
import { listen } from './tls.ts';

interface Presented {
  readonly chain: string;
  readonly privateKey: string;
}

/** `ok`, or the code of the client's error. Both ends run in this process: a test can judge thousands of pairs. */
export async function nodeVerdict(server: Presented, bundle: string, name: string): Promise<string> {
  const [near, far] = duplexPair();
  const secureContext = createSecureContext({ cert: server.chain, key: server.privateKey });
  const serving = new TLSSocket(far, { isServer: true, secureContext });
  serving.on('error', () => undefined); // only the client's verdict counts
  const client = connect({ socket: near, servername: name, ca: bundle });
  try {
    await once(client, 'secureConnect');
    return 'ok';
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : String(error);
  } finally {
    client.destroy();
    serving.destroy();
  }
}

interface Case {
  readonly server: Presented;
  readonly bundle: string;
}

interface ForeignStack {
  readonly name: string;
  /** The reason why the stack is unavailable, for the test log; undefined if it is available. */
  readonly missing: string | undefined;
  /** Whether a client with the bundle trusts the server, for each case: some stacks start slowly. */
  readonly judge: (cases: readonly Case[], hostName: string) => Promise<readonly boolean[]>;
}

function runs(command: string, ...args: readonly string[]): boolean {
  const { status, error } = spawnSync(command, args, { stdio: 'ignore' });
  return error === undefined && status === 0;
}

async function inFolder<Result>(
  files: Readonly<Record<string, string>>,
  use: (path: (name: string) => string) => Promise<Result>,
): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-trust-'));
  try {
    for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
    return await use((name) => join(folder, name));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export function opensslTrusts(
  { chain }: Pick<Presented, 'chain'>,
  bundle: string,
  hostName: string,
  at?: Date,
  purpose: 'sslserver' | 'sslclient' = 'sslserver',
): boolean {
  const [leaf, ...bridges] = splitCertificates(chain);
  if (leaf === undefined) throw new Error('the chain is empty');
  const files = {
    'bundle.pem': bundle,
    'leaf.pem': toCertificatePem([leaf]),
    ...(bridges.length === 0 ? {} : { 'bridges.pem': toCertificatePem(bridges) }),
  };
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-trust-'));
  const path = (name: string) => join(folder, name);
  try {
    for (const [name, content] of Object.entries(files)) writeFileSync(path(name), content);
    const untrusted = bridges.length === 0 ? [] : ['-untrusted', path('bridges.pem')];
    const time = at === undefined ? [] : ['-attime', String(Math.floor(at.getTime() / 1000))];
    const strict = ['-x509_strict', '-purpose', purpose, '-verify_hostname', hostName, ...time];
    const trusted = ['-CAfile', path('bundle.pem'), '-no-CApath', '-no-CAstore'];
    return runs('openssl', 'verify', ...strict, ...trusted, ...untrusted, path('leaf.pem'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function withListeners<Result>(
  cases: readonly Case[],
  use: (ports: readonly number[]) => Promise<Result>,
): Promise<Result> {
  const servers = cases.map(({ server: { chain, privateKey } }) => {
    const server = createServer({ cert: chain, key: privateKey }, (socket) => {
      socket.on('error', () => undefined);
      socket.end('HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n');
    });
    return server.on('tlsClientError', () => undefined);
  });
  try {
    return await use(await Promise.all(servers.map(listen)));
  } finally {
    for (const server of servers) server.close();
  }
}

const PYTHON = `
import socket, ssl, sys
name, pairs = sys.argv[1], sys.argv[2:]
for bundle, port in zip(pairs[::2], pairs[1::2]):
    context = ssl.create_default_context(cafile=bundle)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        with socket.create_connection(('127.0.0.1', int(port))) as plain:
            context.wrap_socket(plain, server_hostname=name).close()
        print('ok')
    except ssl.SSLCertVerificationError:
        print('refused')
`;

const JAVA = `
import java.io.*; import java.security.*; import java.security.cert.*; import java.util.*; import javax.net.ssl.*;
class Judge {
  static Collection<? extends java.security.cert.Certificate> read(String path) throws Exception {
    try (InputStream in = new FileInputStream(path)) {
      return CertificateFactory.getInstance("X.509").generateCertificates(in);
    }
  }
  public static void main(String[] files) throws Exception {
    for (int i = 0; i + 1 < files.length; i += 2) {
      KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
      store.load(null, null);
      int n = 0;
      for (java.security.cert.Certificate root : read(files[i])) store.setCertificateEntry("root" + n++, root);
      TrustManagerFactory factory = TrustManagerFactory.getInstance("PKIX");
      factory.init(store);
      X509TrustManager manager = (X509TrustManager) factory.getTrustManagers()[0];
      try {
        manager.checkServerTrusted(read(files[i + 1]).toArray(new X509Certificate[0]), "ECDHE_ECDSA");
        System.out.println("ok");
      } catch (CertificateException error) { System.out.println("refused"); }
    }
  }
}
`;

async function outputOf(command: string, args: readonly string[]): Promise<string> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return output;
}

const verdictsOf = (output: string): readonly boolean[] =>
  output
    .trim()
    .split('\n')
    .map((line) => line.trim() === 'ok');

const filesOf = (cases: readonly Case[]): Readonly<Record<string, string>> =>
  Object.fromEntries(
    cases.flatMap(({ server, bundle }, index) => [
      [`b${index}.pem`, bundle],
      [`c${index}.pem`, server.chain],
    ]),
  );

const absent = (command: string): string => `there is no ${command} on the PATH`;

/** Logs it once in each file whose tests need it. */
function found(command: string, isFound: boolean): boolean {
  if (!isFound) console.warn(`skipped the tests with ${command}: ${absent(command)}`);
  return isFound;
}
export const hasOpenssl = found('openssl', runs('openssl', 'version'));
export const hasJava = found('java', runs('java', '-version') && runs('javac', '-version'));

export const FOREIGN_STACKS: readonly ForeignStack[] = [
  {
    name: 'openssl',
    missing: hasOpenssl ? undefined : absent('openssl'),
    judge: (cases, name) =>
      Promise.resolve(cases.map(({ server, bundle }) => opensslTrusts(server, bundle, name))),
  },
  {
    name: 'python',
    missing: runs('python3', '-c', 'import ssl') ? undefined : absent('python3 with ssl'),
    judge: (cases, name) =>
      withListeners(cases, (ports) =>
        inFolder(filesOf(cases), async (path) => {
          const pairs = ports.flatMap((port, index) => [path(`b${index}.pem`), String(port)]);
          return verdictsOf(await outputOf('python3', ['-c', PYTHON, name, ...pairs]));
        }),
      ),
  },
  {
    name: 'curl',
    missing: runs('curl', '--version') ? undefined : absent('curl'),
    judge: (cases, name) =>
      withListeners(cases, (ports) =>
        inFolder(filesOf(cases), (path) =>
          Promise.all(
            ports.map(async (port, index) => {
              const format = '%{ssl_verify_result} %{http_code}';
              const quiet = ['--silent', '--output', '/dev/null', '--write-out', format];
              const host = ['--noproxy', '*', '--resolve', `${name}:${port}:127.0.0.1`];
              const to = [...host, `https://${name}:${port}/`];
              const said = await outputOf('curl', [...quiet, '--cacert', path(`b${index}.pem`), ...to]);
              return said === '0 204';
            }),
          ),
        ),
      ),
  },
  {
    name: 'java',
    missing: hasJava ? undefined : absent('java with a compiler'),
    judge: (cases) =>
      inFolder({ ...filesOf(cases), 'Judge.java': JAVA }, async (path) => {
        const args = cases.flatMap((_case, index) => [path(`b${index}.pem`), path(`c${index}.pem`)]);
        return verdictsOf(await outputOf('java', [path('Judge.java'), ...args]));
      }),
  },
];

for (const { name, missing } of FOREIGN_STACKS)
  if (missing !== undefined) console.warn(`skipped the tests with ${name}: ${missing}`);
