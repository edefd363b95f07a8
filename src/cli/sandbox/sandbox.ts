/** `gatehouse sandbox`: an in-memory Kubernetes API, a replica of Gatehouse, and a guided tour. */
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

import { resolveConfig, type Config } from '../../config/config.ts';
import { createClient } from '../../kube/client.ts';
import { systemClock } from '../../kube/clock.ts';
import type { Connection } from '../../kube/connection.ts';
import { createDiscovery } from '../../kube/discovery.ts';
import { createRest } from '../../kube/rest.ts';
import { namespaces } from '../../kube/well-known.ts';
import { compileHandlers, loadHandlers } from '../../runtime/handlers/load-handlers.ts';
import { readingRole } from '../manifests.ts';
import { NAMESPACE, startApi } from './api.ts';
import { applyManifests, DEPLOY, readManifests, withSingleAccount } from '../deploy-manifests.ts';
import { localService } from './tour-objects.ts';
import { runTour, type Cluster } from './tour.ts';
import { processes } from '../serve.ts';

export interface SandboxFlags {
  /** The port of the API. 0: any free port. */
  readonly port: number;
  /** The folder for the state; undefined: keep it in memory. */
  readonly data?: string;
  /** Whether to print only the path of the kubeconfig. */
  readonly quiet?: boolean;
  readonly tour: boolean;
  /** A folder or a package with handlers; undefined: none. */
  readonly handlers?: string;
}

type Say = (text: string) => void;

const READY_TIMEOUT_MS = 30_000;

/** Runs until the signal, and leaves only the data folder behind. Rejects when the sandbox cannot start. */
export async function sandbox(flags: SandboxFlags, signal: AbortSignal): Promise<void> {
  const { port, data } = flags;
  const folder = openFolder(data);
  try {
    const api = await startApi(port, folder, data === undefined ? undefined : join(folder, 'objects'));
    const connection = api.connectAsAdmin();
    try {
      await run(flags, { folder, api, connection }, signal);
    } finally {
      await connection.close();
      await api.stop();
    }
  } finally {
    if (data === undefined) rmSync(folder, { recursive: true, force: true });
  }
}

/** The folder for the log, the kubeconfig and, with --data, the objects. */
function openFolder(data: string | undefined): string {
  if (data === undefined) return mkdtempSync(join(tmpdir(), 'gatehouse-sandbox-'));
  const folder = resolve(data);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}

interface Place {
  readonly folder: string;
  readonly api: Awaited<ReturnType<typeof startApi>>;
  /** The connection of the administrator. */
  readonly connection: Connection;
}

async function run(flags: SandboxFlags, place: Place, signal: AbortSignal): Promise<void> {
  const { folder, api, connection } = place;
  const { quiet = false, handlers, tour } = flags;
  const say: Say = quiet ? () => undefined : console.log;
  const cluster = clusterOf(connection);
  const hasHistory = (await cluster.client.get(namespaces, { name: NAMESPACE })) !== undefined;
  const [port, operationsPort] = await Promise.all([freePort(), freePort()]);
  await install(cluster, port);
  await allowReads(cluster, handlers);

  const ending = new AbortController();
  const replica = processes.serve(configFor(port, operationsPort, handlers), {
    connection: api.connectAsGatehouse,
    logFile: join(folder, 'gatehouse.log'),
    draining: ending.signal,
  });
  const ended = replica.then(() => {
    throw new Error(`Gatehouse has stopped; see its log: ${join(folder, 'gatehouse.log')}`);
  });
  const unlessStopped = (work: Promise<unknown>) => Promise.race([work, ended, aborted(signal)]);
  try {
    await unlessStopped(whenReady(operationsPort, signal));
    // performance.now() starts with the process, so it includes loading the program.
    const seconds = (performance.now() / 1_000).toFixed(1);
    if (!signal.aborted)
      say(
        `Ready ${seconds} s after the process began. This is a sandbox: an in-memory Kubernetes API, which runs no pods.`,
      );
    if (tour && !quiet && !hasHistory) await unlessStopped(runTour(cluster, say));
    if (!signal.aborted) sayWhatToTry(flags, place, operationsPort, say);
    await unlessStopped(aborted(signal));
    say('\nStopping …');
  } finally {
    ending.abort(new Error('the sandbox stops'));
    await Promise.allSettled([replica, ended]);
  }
}

function clusterOf(connection: Connection): Cluster {
  const rest = createRest({ connection, userAgent: 'gatehouse-sandbox' });
  const client = createClient(rest);
  const discovery = createDiscovery(rest, systemClock);
  return {
    client,
    impersonate: (who) => createClient(rest.impersonate(who)),
    apply: (manifests) => applyManifests({ client, discovery, namespace: NAMESPACE }, manifests),
    examples: join(DEPLOY, 'examples'),
  };
}

/** Installs `deploy/` except Deployments and Services. */
async function install({ apply }: Cluster, port: number): Promise<void> {
  await apply(readManifests(join(DEPLOY, 'base', 'crds')));
  const inPods = new Set(['Deployment', 'Service']);
  await apply(
    withSingleAccount(readManifests(join(DEPLOY, 'base'))).filter(({ kind = '' }) => !inPods.has(kind)),
  );
  await apply([localService(NAMESPACE, 'gatehouse', port)]);
}

/** Applies the output of `gatehouse manifests` for these handlers. */
async function allowReads({ apply }: Cluster, handlers: string | undefined): Promise<void> {
  if (handlers === undefined) return;
  const loaded = await loadHandlers(handlers, process.cwd());
  const compiled = compileHandlers(loaded, { ownNamespace: NAMESPACE, matchConditions: true });
  const role = readingRole(compiled);
  if (role !== undefined) await apply([role]);
}

function configFor(port: number, operationsPort: number, handlers: string | undefined): Config {
  return resolveConfig(
    {
      identity: 'sandbox',
      host: '127.0.0.1',
      port: String(port),
      'service-port': String(port),
      'operations-port': String(operationsPort),
      'cluster-domain': 'cluster.local',
      'restore-settle': '2s',
      'drain-delay': '0s',
      ...(handlers === undefined ? {} : { handlers }),
    },
    {},
  );
}

async function whenReady(operationsPort: number, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + READY_TIMEOUT_MS;
  while (!signal.aborted) {
    const { code, text } = await httpGet(`http://127.0.0.1:${operationsPort}/readyz`);
    if (code === 200) return;
    if (performance.now() > deadline) throw new Error(`Gatehouse is not ready: ${text}`);
    await sleep(20);
  }
}

/** Without `fetch`, which would load a second HTTP client and delay the start. */
async function httpGet(url: string): Promise<{ readonly code: number | undefined; readonly text: string }> {
  try {
    const [answer] = (await once(get(url), 'response')) as [IncomingMessage]; // as node:http documents
    return { code: answer.statusCode, text: await readText(answer) };
  } catch (error) {
    return { code: undefined, text: String(error) };
  }
}

function sayWhatToTry(
  { quiet, tour }: SandboxFlags,
  { folder, api }: Place,
  operationsPort: number,
  say: Say,
): void {
  if (quiet) {
    console.log(api.kubeconfig);
    return;
  }
  const tries = tour
    ? `
   kubectl get admissionpolicies,restorewindows,servers -A
   kubectl -n shop patch server web --type merge -p '{"spec":{"datacenter":"muc1"}}'      # refused: immutable
   kubectl create -f deploy/examples/objects/muc1.yaml && kubectl get restorewindows -w     # the violation disappears`
    : `
   kubectl apply -k deploy/examples
   kubectl get admissionpolicies -w
   kubectl explain server.spec`;
  say(`
Press Ctrl-C to stop. In another terminal:

   export KUBECONFIG=${api.kubeconfig}${tries}

   Gatehouse's log:   ${join(folder, 'gatehouse.log')}
   metrics:           http://127.0.0.1:${operationsPort}/metrics`);
}

const aborted = async (signal: AbortSignal): Promise<void> => {
  if (!signal.aborted) await once(signal, 'abort');
};

/** A TCP port on 127.0.0.1 that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  await once(server.close(), 'close');
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return address.port;
}
