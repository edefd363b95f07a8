/** Verdicts of real TLS stacks on a served chain, for a client that trusts a bundle and expects a host name. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { duplexPair } from 'node:stream';
import { connect, createSecureContext, createServer, TLSSocket } from 'node:tls';
import { splitCertificates, toCertificatePem } from '../../src/pki/x509/pem.ts';
import { outputOf } from './processes.ts';
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

export interface Meeting {
  readonly server: Presented;
  readonly bundle: string;
}

interface ForeignStack {
  readonly name: string;
  /** The reason why the stack is unavailable, for the test log; undefined if it is available. */
  readonly missing: string | undefined;
  /** Whether a client with the bundle trusts the server, for each case: some stacks start slowly. */
  readonly judge: (cases: readonly Meeting[], hostName: string) => Promise<readonly boolean[]>;
}

function runs(command: string, ...args: readonly string[]): boolean {
  const { status, error } = spawnSync(command, args, { stdio: 'ignore' });
  return error === undefined && status === 0;
}

async function inFolder<Result>(
  files: Readonly<Record<string, string>>,
  use: (path: (name: string) => string) => Promise<Result>,
): Promise<Result> {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'gatehouse-trust-'));
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder.path, name), content);
  return await use((name) => join(folder.path, name));
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
  using folder = mkdtempDisposableSync(join(tmpdir(), 'gatehouse-trust-'));
  const path = (name: string) => join(folder.path, name);
  for (const [name, content] of Object.entries(files)) writeFileSync(path(name), content);
  const untrusted = bridges.length === 0 ? [] : ['-untrusted', path('bridges.pem')];
  const time = at === undefined ? [] : ['-attime', String(Math.floor(at.getTime() / 1000))];
  const strict = ['-x509_strict', '-purpose', purpose, '-verify_hostname', hostName, ...time];
  const trusted = ['-CAfile', path('bundle.pem'), '-no-CApath', '-no-CAstore'];
  return runs('openssl', 'verify', ...strict, ...trusted, ...untrusted, path('leaf.pem'));
}

async function withListeners<Result>(
  cases: readonly Meeting[],
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

const filesOf = (cases: readonly Meeting[]): Readonly<Record<string, string>> =>
  Object.fromEntries(cases.map(({ bundle }, index) => [`b${index}.pem`, bundle]));

/** By real handshakes: with the program of tls-clients.ts. */
const judgedBy =
  (command: string, source: string): ForeignStack['judge'] =>
  (cases, name) =>
    withListeners(cases, (ports) =>
      inFolder(filesOf(cases), async (path) => {
        const pairs = ports.flatMap((port, index) => [path(`b${index}.pem`), String(port)]);
        const program = join(import.meta.dirname, 'tls-peers', source);
        const { printed } = await outputOf(command, [program, 'judge', name, ...pairs]);
        return printed
          .trim()
          .split(/\r?\n/)
          .map((line) => line === 'ok');
      }),
    );

const absent = (command: string): string => `there is no ${command} on the PATH`;

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
    judge: judgedBy('python3', 'peer.py'),
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
              return said.printed === '0 204';
            }),
          ),
        ),
      ),
  },
  {
    name: 'java',
    missing: hasJava ? undefined : absent('java with a compiler'),
    judge: judgedBy('java', 'Peer.java'),
  },
];

for (const { name, missing } of FOREIGN_STACKS)
  if (missing !== undefined) console.warn(`skipped the tests with ${name}: ${missing}`);
