/** `gatehouse sandbox`: an in-memory Kubernetes API, Gatehouse against it, and the whole story, step by step. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { resolveConfig, type Config } from '../config/config.ts';
import { createClient, type KubeClient } from '../kube/client.ts';
import { systemClock } from '../kube/clock.ts';
import { loadConnection } from '../kube/connection.ts';
import { createDiscovery } from '../kube/discovery.ts';
import type { KubeObject } from '../kube/object.ts';
import { createRest } from '../kube/rest.ts';
import { namespaces } from '../kube/well-known.ts';
import { startSandbox, type Sandbox } from '../sandbox/sandbox.ts';
import { kubeconfigOf } from './sandbox/kubeconfig.ts';
import { applyManifests, readManifests } from './sandbox/manifests.ts';
import { localService } from './sandbox/tour-objects.ts';
import { createSandboxTls } from './sandbox/tls.ts';
import { tellTour, type Cluster } from './sandbox/tour.ts';
import { serve } from './serve.ts';

export interface SandboxSettings {
  /** Of the API. 0: any free port. */
  readonly port: number;
  /** Where everything is kept; undefined: in memory, gone at the end. */
  readonly data: string | undefined;
  /** Only the path of the kubeconfig. */
  readonly quiet: boolean;
  readonly tour: boolean;
}

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');
const NAMESPACE = 'gatehouse-system';
const GATEHOUSE = 'system:serviceaccount:gatehouse-system:gatehouse';
/** A replica that is not ready by then never will be: milliseconds. */
const READY_WITHIN_MS = 30_000;

/** What a sandbox keeps beside its objects: logs and kubeconfigs. */
interface Workplace {
  readonly folder: string;
  readonly remove: () => void;
}

/** Runs until the signal; leaves nothing behind but the data folder. Rejects with a sentence when it cannot start. */
export async function sandbox(settings: SandboxSettings, signal: AbortSignal): Promise<void> {
  const say = settings.quiet
    ? () => undefined
    : (text: string) => {
        console.log(text);
      };
  const workplace = openWorkplace(settings.data);
  try {
    const api = await startApi(settings, workplace.folder);
    try {
      await run(settings, workplace.folder, api, say, signal);
    } finally {
      await api.sandbox.stop();
    }
  } finally {
    workplace.remove();
  }
}

function openWorkplace(data: string | undefined): Workplace {
  if (data === undefined) {
    const folder = mkdtempSync(join(tmpdir(), 'gatehouse-sandbox-'));
    return {
      folder,
      remove: () => {
        rmSync(folder, { recursive: true, force: true });
      },
    };
  }
  const folder = resolve(data);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return { folder, remove: () => undefined };
}

interface RunningApi {
  readonly sandbox: Sandbox;
  readonly adminKubeconfig: string;
  readonly gatehouseKubeconfig: string;
}

async function startApi({ port, data }: SandboxSettings, folder: string): Promise<RunningApi> {
  const tls = await createSandboxTls(new Date());
  const [admin, gatehouse] = [randomBytes(24).toString('hex'), randomBytes(24).toString('hex')];
  const running = await startSandbox({
    port,
    tls,
    users: new Map([
      [admin, { username: 'admin', groups: ['system:masters'] }],
      [
        gatehouse,
        { username: GATEHOUSE, groups: ['system:serviceaccounts', `system:serviceaccounts:${NAMESPACE}`] },
      ],
    ]),
    dataFolder: data === undefined ? undefined : join(folder, 'objects'),
    onError: (error) => {
      console.error('fault of the sandbox:', error);
    },
  }).catch((error: unknown) => {
    throw portProblem(error, port) ?? error;
  });
  const server = `https://localhost:${running.port}`;
  const write = (file: string, user: string, token: string) => {
    const path = join(folder, file);
    writeFileSync(path, kubeconfigOf({ server, ca: tls.ca, user, token }), { mode: 0o600 });
    return path;
  };
  return {
    sandbox: running,
    adminKubeconfig: write('kubeconfig', 'admin', admin),
    gatehouseKubeconfig: write('gatehouse.kubeconfig', 'gatehouse', gatehouse),
  };
}

function portProblem(error: unknown, port: number): Error | undefined {
  if (!(error instanceof Error && 'code' in error)) return undefined;
  if (error.code === 'EADDRINUSE') {
    return new Error(
      `port ${port} is taken: choose another with --port, or let the sandbox choose one with --port 0`,
    );
  }
  if (error.code === 'EACCES')
    return new Error(`port ${port} needs more rights than you have: choose one above 1023`);
  return undefined;
}

async function run(
  settings: SandboxSettings,
  folder: string,
  api: RunningApi,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const connection = await loadConnection({ kubeconfig: api.adminKubeconfig });
  try {
    const rest = createRest({ connection, userAgent: 'gatehouse-sandbox' });
    const client = createClient(rest);
    const discovery = createDiscovery(rest, systemClock);
    const cluster: Cluster = {
      client,
      impersonate: (who) => createClient(rest.impersonate(who)),
      apply: (manifests) => applyManifests({ client, discovery, namespace: NAMESPACE }, manifests),
      examples: join(DEPLOY, 'examples'),
    };
    const hasHistory = await isUsed(client);
    const [port, operationsPort] = await Promise.all([freePort(), freePort()]);
    await install(cluster, port);

    const config = configFor(api.gatehouseKubeconfig, port, operationsPort);
    const ending = new AbortController();
    const replica = serve(config, { logFile: join(folder, 'gatehouse.log'), draining: ending.signal });
    try {
      await Promise.race([
        whenReady(operationsPort, signal),
        replica.then(() => {
          throw new Error('Gatehouse ended');
        }),
      ]);
      if (!signal.aborted) {
        sayReady(say);
        if (settings.tour && !hasHistory) await Promise.race([tellTour(cluster, say), aborted(signal)]);
        sayWhatToTry(settings, api, folder, operationsPort, say);
        await Promise.race([aborted(signal), replica]);
        say('\nStopping …');
      }
    } finally {
      ending.abort(new Error('the sandbox ends'));
      await replica;
    }
  } finally {
    await connection.close();
  }
}

/** Whether the data folder has been through this before. */
async function isUsed(client: KubeClient): Promise<boolean> {
  return (await client.get(namespaces, { name: NAMESPACE })) !== undefined;
}

/** What `deploy/` puts into a cluster, but for what would run in pods. */
async function install({ apply }: Cluster, port: number): Promise<void> {
  await apply(readManifests(join(DEPLOY, 'base', 'crds')));
  const inPods = new Set(['Deployment', 'Service']);
  await apply(readManifests(join(DEPLOY, 'base')).filter(({ kind = '' }: KubeObject) => !inPods.has(kind)));
  await apply([localService(NAMESPACE, 'gatehouse', port)]);
}

function configFor(kubeconfig: string, port: number, operationsPort: number): Config {
  return resolveConfig(
    {
      kubeconfig,
      identity: 'sandbox',
      host: '127.0.0.1',
      port: String(port),
      'service-port': String(port),
      'operations-port': String(operationsPort),
      'cluster-domain': 'cluster.local',
      'restore-settle': '2s',
      'drain-delay': '0s',
    },
    {},
  );
}

async function whenReady(operationsPort: number, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + READY_WITHIN_MS;
  while (!signal.aborted) {
    const answer = await fetch(`http://127.0.0.1:${operationsPort}/readyz`).catch(() => undefined);
    if (answer?.ok === true) return;
    if (performance.now() > deadline)
      throw new Error(`Gatehouse is not ready: ${(await answer?.text()) ?? 'no answer'}`);
    await sleep(10);
  }
}

function sayReady(say: (text: string) => void): void {
  // performance.now() counts from the start of the process: loading the program is part of the wait.
  const seconds = (performance.now() / 1_000).toFixed(1);
  say(
    `Ready ${seconds} s after the process began. This is a sandbox: an in-memory Kubernetes API, which runs no pods.`,
  );
}

function sayWhatToTry(
  { quiet, tour }: SandboxSettings,
  { adminKubeconfig }: RunningApi,
  folder: string,
  operationsPort: number,
  say: (text: string) => void,
): void {
  if (quiet) {
    console.log(adminKubeconfig);
    return;
  }
  const tries = tour
    ? `
   kubectl get admissionpolicies,restorewindows,servers -A
   kubectl -n shop patch server web --type merge -p '{"spec":{"datacenter":"muc1"}}'      # refused: immutable
   kubectl create -f - <<< '{"apiVersion":"infra.example.com/v1","kind":"Datacenter","metadata":{"name":"muc1"}}'
   kubectl get restorewindow drill -w                                                      # the violation heals`
    : `
   kubectl apply -k deploy/examples
   kubectl get admissionpolicies -w
   kubectl explain server.spec`;
  say(`
It stays up until Ctrl-C. In another terminal:

   export KUBECONFIG=${adminKubeconfig}${tries}

   log of Gatehouse:  ${join(folder, 'gatehouse.log')}
   metrics:           http://127.0.0.1:${operationsPort}/metrics`);
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) done();
    else
      signal.addEventListener(
        'abort',
        () => {
          done();
        },
        { once: true },
      );
  });
}

/** A TCP port on 127.0.0.1 that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done, fail) => {
    server.once('error', fail);
    server.listen(0, '127.0.0.1', done);
  });
  const address = server.address();
  await new Promise((done) => server.close(done));
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return address.port;
}
