/** `@gatehouse-dev/gatehouse/testing`: runs a controller as Gatehouse does, against the API of the sandbox. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import pino from 'pino';
import { parseAllDocuments } from 'yaml';

import { resolveConfig } from './config/config.ts';
import { compileController, type CompiledController } from './controllers/compile-controller.ts';
import type { Controller } from './controllers/controller.ts';
import { listIn } from './json/json.ts';
import { groupResourceName, type KubeObject } from './json/kube-object.ts';
import { createClient } from './kube/client.ts';
import { createEventRecorder } from './kube/events.ts';
import type { NamedRef } from './kube/object.ts';
import type { Rest } from './kube/rest.ts';
import { connect, type Context } from './runtime/context.ts';
import { startControllers } from './runtime/controllers/start-controllers.ts';
import { createMetrics } from './server/metrics/metrics.ts';
import { applyManifests } from './cli/deploy-manifests.ts';
import { NAMESPACE, startApi } from './cli/sandbox/api.ts';

export interface SettleOptions {
  /** Default: 30. */
  readonly timeoutSeconds?: number;
}

/** A group, a version and a plural, as in `watch` of a controller: `{ group: '', version: 'v1', resource: 'namespaces' }`. */
export interface SuiteKind {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
}

export type ControllerSuite = Awaited<ReturnType<typeof startControllerSuite>>;

/** So many looks in a row without a pass: nothing is left to do. A process that gets no CPU time does not look. */
const QUIET_LOOKS = 4;
const LOOK_EVERY_MS = 75;

/**
 * Starts an API in memory. Stop it at the end of the test.
 *
 * @param manifests the CustomResourceDefinitions, and what else exists before the controller starts; a URL names a YAML file
 */
export async function startControllerSuite(
  controller: Controller<never>,
  { manifests = [] }: { readonly manifests?: readonly (object | URL)[] } = {},
) {
  const compiled = compileController(controller.name ?? 'controller', controller);
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-suite-'));
  const api = await startApi(0, folder);
  const connection = api.connectAsAdmin();
  const ended = new AbortController();
  const log = pino({ level: 'silent' });
  const metrics = createMetrics();
  const parts = { config: resolveConfig({ namespace: NAMESPACE }, {}), identity: 'suite', metrics, log };
  const connected = await connect(connection, { ...parts, tracing: undefined }, ended.signal);
  const { context } = connected;
  const { client, discovery } = context;
  const apply = async (...objects: readonly object[]): Promise<void> => {
    await applyManifests({ client, discovery, namespace: 'default' }, objects);
  };
  const served = async ({ group, resource }: SuiteKind) => {
    const found = await discovery.resolve({ group, resource }, ended.signal);
    if (found === undefined) throw new Error(`${groupResourceName({ group, resource })} is not served`);
    return found;
  };
  await apply(...manifests.flatMap((one) => (one instanceof URL ? documentsIn(one) : [one])));
  return {
    /** Server-side apply, as a user. */
    apply,
    get: async (kind: SuiteKind, ref: NamedRef): Promise<KubeObject | undefined> =>
      await client.get<KubeObject>(await served(kind), ref),
    remove: async (kind: SuiteKind, ref: NamedRef): Promise<void> => {
      await client.delete(await served(kind), ref);
    },
    /**
     * Runs the controller until each object is ready, stalled or gone, and no pass is left. Then runs it once more, like
     * a new leader. Returns the writes of the first run: `PATCH /api/v1/namespaces/ann`.
     *
     * @throws Error if the second run writes, or the first one does not end in time
     */
    settle: async ({ timeoutSeconds = 30 }: SettleOptions = {}): Promise<readonly string[]> => {
      const until = AbortSignal.timeout(timeoutSeconds * 1_000);
      const writes = await runUntilQuiet(context, compiled, until);
      const again = await runUntilQuiet(context, compiled, until);
      if (again.length > 0) throw new Error(`the second run writes, too:\n${again.join('\n')}`);
      return writes;
    },
    stop: async (): Promise<void> => {
      ended.abort();
      await connected.close();
      await api.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const documentsIn = (file: URL): readonly object[] =>
  parseAllDocuments(readFileSync(file, 'utf8')).map((document) => document.toJS() as object);

async function runUntilQuiet(
  context: Context,
  controller: CompiledController,
  until: AbortSignal,
): Promise<readonly string[]> {
  const running = new AbortController();
  const writes: string[] = [];
  const rest = recording(context.rest, writes);
  const client = createClient(rest);
  const passes = countPasses(context.metrics);
  const { record } = createEventRecorder({
    client,
    log: context.log,
    component: 'gatehouse',
    instance: 'suite',
    signal: running.signal,
  });
  const metrics = { ...context.metrics, userController: passes.userController };
  const { stopped } = startControllers(
    { ...context, rest, client, metrics, record },
    [controller],
    running.signal,
  );
  try {
    for (let quiet = 0; ;) {
      await sleep(LOOK_EVERY_MS);
      quiet = passes.wereThereNone() ? quiet + 1 : 0;
      const unsettled =
        quiet >= QUIET_LOOKS ? await unsettledIn(context, controller, passes.ended()) : undefined;
      if (unsettled?.length === 0 && passes.wereThereNone()) return writes;
      if (until.aborted)
        throw new Error(
          `the controller is not done in time: ${unsettled?.join('; ') ?? 'passes follow each other'}`,
        );
    }
  } finally {
    running.abort();
    await stopped;
  }
}

/** Objects that a pass has not brought to an end, each with the reason. @param passes since the start */
async function unsettledIn(
  { client, discovery }: Context,
  { watched }: CompiledController,
  passes: number,
): Promise<readonly string[]> {
  const resource = await discovery.resolve(watched);
  if (resource === undefined) return [`${groupResourceName(watched)} is not served`];
  const { items } = await client.listAll<KubeObject>(resource);
  if (passes < items.length) return [`${passes} passes for ${items.length} objects`];
  return items.flatMap((object) => {
    const open = listIn(object, 'status', 'conditions').find(
      (condition) =>
        Reflect.get(condition as object, 'type') === 'Reconciling' &&
        Reflect.get(condition as object, 'status') === 'True',
    ) as { readonly message?: string } | undefined;
    return open === undefined ? [] : [`${object.metadata?.name ?? ''}: ${open.message ?? ''}`];
  });
}

/** The metrics, and whether a pass runs or has run since the last look. */
function countPasses({ userController }: Context['metrics']) {
  let active = 0;
  let [ended, endedBefore] = [0, 0];
  let hasFailed = false; // a retry follows
  return {
    ended: () => ended,
    wereThereNone: () => {
      const isQuiet = active === 0 && !hasFailed && ended === endedBefore;
      endedBefore = ended;
      return isQuiet;
    },
    userController: ((name, concurrency) => {
      const metrics = userController(name, concurrency);
      return {
        ...metrics,
        pass: () => {
          const end = metrics.pass();
          active += 1;
          return (result) => {
            active -= 1;
            ended += 1;
            hasFailed = result === 'error';
            end(result);
          };
        },
      };
    }) satisfies Context['metrics']['userController'],
  };
}

const recording = (rest: Rest, writes: string[]): Rest => ({
  ...rest,
  request: (request) => {
    const { method, path } = request;
    if (method !== 'GET' && !/\/(events|selfsubjectaccessreviews)(\/|$)/.test(path))
      writes.push(`${method} ${path}`);
    return rest.request(request);
  },
});
