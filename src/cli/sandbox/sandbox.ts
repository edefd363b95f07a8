/** `gatehouse sandbox`: an in-memory Kubernetes API, a replica of Gatehouse, and a guided tour. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, watch } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { createServer } from 'node:net';
import { isSea } from 'node:sea';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

import { resolveConfig, type Config } from '../../config/config.ts';
import { createClient } from '../../kube/client.ts';
import { systemClock } from '../../kube/clock.ts';
import type { Connection } from '../../kube/connection.ts';
import { createDiscovery } from '../../kube/discovery.ts';
import { createRest } from '../../kube/rest.ts';
import { NAMESPACE, STATUS_VIEWER, startApi } from './api.ts';
import { applyManifests, DEPLOY, readManifests, shownPath, withSingleAccount } from '../deploy-manifests.ts';
import { localService, roleBinding } from './tour-objects.ts';
import { runTour, type Cluster } from './tour.ts';
import { processes } from '../serve.ts';
import { messageOf } from '../../json/abort.ts';
import { compileHandlers, loadModules, reloadHandlers } from '../../runtime/handlers/load-handlers.ts';
import { controllerRoles, readingRole } from '../manifests.ts';

export interface SandboxFlags {
  readonly port: number;
  readonly quiet?: boolean;
  readonly tour: boolean;
  readonly handlers?: string;
  readonly watch?: boolean;
  readonly statusPage?: boolean;
}

type Say = (text: string) => void;

const READY_TIMEOUT_MS = 30_000;

export async function sandbox(flags: SandboxFlags, signal: AbortSignal): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-sandbox-'));
  try {
    const api = await startApi(flags.port, folder);
    const connection = api.connectAsAdmin();
    try {
      await run(flags, { folder, api, connection }, signal);
    } finally {
      await connection.close();
      await api.stop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Place {
  readonly folder: string;
  readonly api: Awaited<ReturnType<typeof startApi>>;
  readonly connection: Connection;
}

async function run(given: SandboxFlags, place: Place, signal: AbortSignal): Promise<void> {
  const { connection } = place;
  const { quiet = false } = given;
  const say: Say = quiet ? () => undefined : console.log;
  const access = clusterOf(connection);
  const tour = given.tour && !quiet;
  const flags = tour ? withTourController(given) : given;
  const cluster = { ...access, controllers: flags.handlers === given.handlers ? undefined : flags.handlers };
  const [port, operationsPort] = await Promise.all([freePort(), freePort()]);
  await install(cluster, port);
  if (flags.statusPage === true) await allowStatusPage(cluster);
  await allowReads(cluster, flags.handlers);

  const config = configFor(port, operationsPort, flags);
  const failure = Promise.withResolvers<never>();
  let stop = startReplica(config, place, failure.reject);
  const unlessStopped = (work: Promise<unknown>) => Promise.race([work, failure.promise, aborted(signal)]);
  const restart = async (): Promise<void> => {
    await stop();
    // Another change may have come after the check: the next one starts the replica again.
    const ended = Promise.withResolvers<never>();
    ended.promise.catch((error: unknown) => {
      say(`\nGatehouse has stopped until the next change: ${messageOf(error)}`);
    });
    stop = startReplica(config, place, ended.reject);
    await Promise.race([whenReady(operationsPort, signal), ended.promise]);
  };
  try {
    await unlessStopped(whenReady(operationsPort, signal));
    // performance.now() starts with the process, so it includes loading the program.
    const seconds = (performance.now() / 1_000).toFixed(1);
    if (!signal.aborted)
      say(
        `Ready ${seconds} s after the process began. This is a sandbox: an in-memory Kubernetes API, which runs no pods.`,
      );
    if (tour) await unlessStopped(runTour(cluster, say));
    if (!signal.aborted) sayWhatToTry(flags, place, operationsPort, say);
    if (flags.watch === true)
      await unlessStopped(followHandlers(flags.handlers ?? '', cluster, restart, say, signal));
    await unlessStopped(aborted(signal));
    say('\nStopping …');
  } finally {
    await stop();
  }
}

/** Returns what stops the replica. @param failed called when the replica ends before it is stopped */
function startReplica(config: Config, { api, folder }: Place, failed: (error: unknown) => void) {
  const ending = new AbortController();
  const logFile = join(folder, 'gatehouse.log');
  const options = { connection: api.connectAsGatehouse, logFile, draining: ending.signal };
  const ended = processes.serve(config, options).then(() => {
    if (!ending.signal.aborted) failed(new Error(`Gatehouse has stopped; see its log: ${logFile}`));
  }, failed);
  return async (): Promise<void> => {
    ending.abort(new Error('the sandbox stops'));
    await ended;
  };
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

async function install({ apply, controllers, examples }: Cluster, port: number): Promise<void> {
  await apply(readManifests(join(DEPLOY, 'base', 'crds')));
  const inPods = new Set(['Deployment', 'Service']);
  await apply(
    withSingleAccount(readManifests(join(DEPLOY, 'base'))).filter(({ kind = '' }) => !inPods.has(kind)),
  );
  await apply([localService(NAMESPACE, 'gatehouse', port)]);
  if (controllers !== undefined)
    await apply(
      readManifests(join(examples, 'users')).filter(({ kind }) => kind === 'CustomResourceDefinition'),
    );
}

/** The tour shows a controller, unless the user has own handlers. The single executable can load none. */
const withTourController = (flags: SandboxFlags): SandboxFlags =>
  flags.handlers !== undefined || isSea()
    ? flags
    : { ...flags, handlers: join(DEPLOY, 'examples', 'users', 'controllers') };

async function allowStatusPage({ apply }: Cluster): Promise<void> {
  await apply(withSingleAccount(readManifests(join(DEPLOY, 'components', 'status-page'))));
  await apply([roleBinding('gatehouse-status-viewer', 'gatehouse-status-viewer', STATUS_VIEWER)]);
}

function configFor(
  port: number,
  operationsPort: number,
  { handlers, statusPage = false }: SandboxFlags,
): Config {
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
      'status-page': String(statusPage),
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
  { quiet, tour, statusPage }: SandboxFlags,
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
   kubectl create -f ${shownPath('examples', 'objects', 'muc1.yaml')} && kubectl get restorewindows -w     # the violation disappears`
    : `
   kubectl apply -k ${shownPath('examples')}
   kubectl get admissionpolicies -w
   kubectl explain server.spec`;
  const page =
    statusPage === true
      ? `
   status page:       http://127.0.0.1:${operationsPort}/status
   its token:         ${api.viewerToken}`
      : '';
  say(`
Press Ctrl-C to stop. In another terminal:

   export KUBECONFIG=${api.kubeconfig}${tries}

   Gatehouse's log:   ${join(folder, 'gatehouse.log')}
   metrics:           http://127.0.0.1:${operationsPort}/metrics${page}`);
}

const aborted = async (signal: AbortSignal): Promise<void> => {
  if (!signal.aborted) await once(signal, 'abort');
};

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  await once(server.close(), 'close');
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return address.port;
}

/** After a change, in milliseconds: editors write several files. */
const SETTLED_MS = 200;

/** Until the signal: restarts the replica after each change of the folder that leaves the handlers valid. */
async function followHandlers(
  folder: string,
  cluster: Pick<Cluster, 'apply'>,
  restart: () => Promise<void>,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  await followChanges(folder, signal, async (file) => {
    reloadHandlers();
    const problem = await allowReads(cluster, folder).then(() => undefined, messageOf);
    if (
      problem === undefined &&
      !(await restart().then(
        () => true,
        () => false,
      ))
    )
      return;
    const what = problem ?? `${file} was changed`;
    say(
      `\nThe ${problem === undefined ? 'handlers are reloaded' : 'previous handlers remain active'}: ${what}`,
    );
  });
}

/** One call at a time. A change during a call causes another call; the iterator of `node:fs/promises` would lose it. */
export async function followChanges(
  folder: string,
  signal: AbortSignal,
  follow: (file: string) => Promise<void>,
): Promise<void> {
  let change = Promise.withResolvers<string>();
  const watcher = watch(folder, { recursive: true, signal }, (_, file) => {
    change.resolve(file ?? folder);
  });
  const closed = once(watcher, 'close').then(() => undefined);
  for (;;) {
    const file = await Promise.race([change.promise, closed]);
    if (file === undefined) return;
    await sleep(SETTLED_MS);
    change = Promise.withResolvers();
    await follow(file);
  }
}

async function allowReads({ apply }: Pick<Cluster, 'apply'>, handlers: string | undefined): Promise<void> {
  if (handlers === undefined) return;
  const loaded = await loadModules(handlers, process.cwd());
  const compiled = compileHandlers(loaded.handlers, { ownNamespace: NAMESPACE });
  const role = readingRole(compiled);
  await apply([...(role === undefined ? [] : [role]), ...controllerRoles(loaded.controllers, NAMESPACE)]);
}
