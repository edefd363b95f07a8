/** etcd and kube-apiserver of KUBEBUILDER_ASSETS, for a suite. They end with it, even if its process is killed. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { createSandboxTls, kubeconfigOf } from '../cli/sandbox/api.ts';
import { createConnection } from '../kube/connection.ts';

const START_MS = 60_000;
const LOOK_MS = 100;
/** Another process can take a free port before the server does. */
const STARTS = 3;
const ENDED = /address already in use|"command failed"/;

/**
 * $1: folder, $2: assets, $3 to $5: ports. A line on the standard input starts kube-controller-manager, which deletes what
 * a Namespace and owners leave, if the assets have it. The end of the input, also that of the test's process, ends them all.
 */
const SCRIPT = `
cd "$1"
"$2/etcd" --data-dir=etcd --listen-client-urls=http://127.0.0.1:$3 --advertise-client-urls=http://127.0.0.1:$3 \
  --listen-peer-urls=http://127.0.0.1:$4 --initial-advertise-peer-urls=http://127.0.0.1:$4 \
  --initial-cluster=default=http://127.0.0.1:$4 --unsafe-no-fsync >etcd.log 2>&1 </dev/null & all=$!
"$2/kube-apiserver" --etcd-servers=http://127.0.0.1:$3 --bind-address=127.0.0.1 --advertise-address=127.0.0.1 \
  --secure-port=$5 --endpoint-reconciler-type=none --service-cluster-ip-range=10.0.0.0/24 --authorization-mode=RBAC \
  --service-account-issuer=https://kubernetes.default.svc --token-auth-file=tokens.csv --cert-dir=certificates \
  --tls-cert-file=tls.crt --tls-private-key-file=tls.key --allow-privileged \
  --service-account-key-file=tls.crt --service-account-signing-key-file=tls.key >api.log 2>&1 </dev/null & all="$all $!"
if read line && [ -x "$2/kube-controller-manager" ]; then
  "$2/kube-controller-manager" --kubeconfig=kubeconfig --leader-elect=false --secure-port=0 \
    >controllers.log 2>&1 </dev/null & all="$all $!"
fi
while read line; do :; done
kill -9 $all; wait; cd /; rm -rf "$1"
`;

/** @param folder does not exist anymore after `stop` */
export async function startRealApi(assets: string, folder: string) {
  for (const program of ['etcd', 'kube-apiserver'])
    if (!existsSync(join(assets, program)))
      throw new Error(`${join(assets, program)} is missing: see KUBEBUILDER_ASSETS and the option api`);
  for (let left = STARTS; ;) {
    const api = await launch(assets, folder);
    const log = await untilReady(api, folder).catch(async (error: unknown) => {
      await api.stop();
      throw error;
    });
    if (log === undefined) return api;
    await api.stop();
    if ((left -= 1) === 0 || !log.includes('address already in use'))
      throw new Error(`kube-apiserver or etcd did not start:\n${log}`);
  }
}

type RealApi = Awaited<ReturnType<typeof launch>>;

async function launch(assets: string, folder: string) {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const tls = await createSandboxTls(new Date());
  const token = randomBytes(24).toString('hex');
  const ports = await freePorts(3);
  const server = `https://localhost:${ports[2] ?? 0}`;
  const kubeconfig = join(folder, 'kubeconfig');
  const files = {
    'tls.crt': tls.cert,
    'tls.key': tls.key,
    'tokens.csv': `${token},admin,admin,"system:masters"\n`,
    kubeconfig: kubeconfigOf(server, tls.ca, token),
  };
  for (const [name, content] of Object.entries(files))
    writeFileSync(join(folder, name), content, { mode: 0o600 });
  // Detached: Ctrl-C in the terminal must not end the shell before it has cleaned up.
  const shell = spawn('/bin/sh', ['-c', SCRIPT, 'sh', folder, assets, ...ports.map(String)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const ended = once(shell, 'exit');
  return {
    kubeconfig,
    connectAsAdmin: () =>
      createConnection({ server }, () =>
        Promise.resolve({ headers: { Authorization: `Bearer ${token}` }, tls: { ca: tls.ca } }),
      ),
    isReady: () => shell.stdin.write('ready\n'),
    stop: async (): Promise<void> => {
      shell.stdin.end();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Undefined: it is ready. Otherwise the end of the logs. */
async function untilReady({ connectAsAdmin, isReady }: RealApi, folder: string): Promise<string | undefined> {
  const connection = connectAsAdmin();
  const { server: origin, dispatcher } = connection;
  const answers = async (path: string): Promise<boolean> => {
    const headers = { ...(await connection.headers()) } as Record<string, string>;
    const response = await dispatcher
      .request({ origin, path, method: 'GET', headers })
      .catch(() => undefined);
    await response?.body.dump();
    return response?.statusCode === 200;
  };
  try {
    for (const until = performance.now() + START_MS; ;) {
      // After kube-apiserver is ready, it creates the Namespace.
      if ((await answers('/readyz')) && (await answers('/api/v1/namespaces/default'))) {
        isReady();
        return undefined;
      }
      const logs = ['etcd.log', 'api.log']
        .map((name) => join(folder, name))
        .filter((path) => existsSync(path));
      const log = logs.map((path) => readFileSync(path, 'utf8').slice(-2_000)).join('\n');
      if (ENDED.test(log) || performance.now() > until) return log;
      await sleep(LOOK_MS);
    }
  } finally {
    await connection.close();
  }
}

async function freePorts(count: number): Promise<readonly number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}
