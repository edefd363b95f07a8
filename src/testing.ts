/** `@gatehouse-dev/gatehouse/testing`: runs a controller as Gatehouse does, against the API of the sandbox. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import pino, { type Logger } from 'pino';
import { parseAllDocuments } from 'yaml';

import { resolveConfig } from './config/config.ts';
import { compileController, type CompiledController } from './controllers/compile-controller.ts';
import type { Controller } from './controllers/controller.ts';
import { messageWithCauses } from './json/abort.ts';
import { listIn, textIn } from './json/json.ts';
import { groupResourceName, keyOf, objectKey, type KubeObject } from './json/kube-object.ts';
import { systemClock } from './kube/clock.ts';
import { createClient } from './kube/client.ts';
import { createEventRecorder, type EventRecorder } from './kube/events.ts';
import type { NamedRef } from './kube/object.ts';
import { createRest, type Rest } from './kube/rest.ts';
import { connect, type Context } from './runtime/context.ts';
import { startControllers } from './runtime/controllers/start-controllers.ts';
import { createMetrics } from './server/metrics/metrics.ts';
import { applyManifests } from './cli/deploy-manifests.ts';
import { NAMESPACE, startApi } from './cli/sandbox/api.ts';
import { createFailures } from './testing/failures.ts';
import { startRealApi } from './testing/real-api.ts';

export type { ArmedFailure, Failure } from './testing/failures.ts';

export interface SettleOptions {
  /** Whether the controller then runs once more, like a new leader, and must not write. Default: true. */
  readonly restart?: boolean;
  /** Retries failures for so long, with the delays of a cluster. Default: four times, without delay. */
  readonly timeoutSeconds?: number;
}

/** What the controller waits for: `wait` was called, or the next pass is due later. */
export interface Waiting {
  readonly object: string;
  readonly reason: string;
  readonly message: string;
}

export interface Settled {
  /** Of the first run: `PATCH /api/v1/namespaces/ann`. */
  readonly writes: readonly string[];
  readonly waiting: readonly Waiting[];
}

export interface SuiteEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
  /** `Workplace ann` */
  readonly object: string;
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
/** An object that fails so often in a row, or has so many passes in one run, does not settle. */
const MOST_FAILURES = 4;
const MOST_PASSES = 200;

export interface SuiteOptions {
  readonly manifests?: readonly (object | URL)[];
  /** Default: `real` if the variable KUBEBUILDER_ASSETS names the folder of etcd and kube-apiserver, otherwise `memory`. */
  readonly api?: 'real' | 'memory';
}

/**
 * Starts an API in memory, or a real API server. Stop it at the end of the test.
 *
 * @param manifests the CustomResourceDefinitions, and what else exists before the controller starts; a URL names a YAML file
 */
export async function startControllerSuite(
  given: Controller<never> | readonly Controller<never>[],
  { manifests = [], api: wanted }: SuiteOptions = {},
) {
  const controllers = [given]
    .flat()
    .map((one, index) =>
      compileController(one.name ?? (index === 0 ? 'controller' : `controller-${index + 1}`), one),
    );
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-suite-'));
  const api = await startWantedApi(wanted, folder);
  const connection = api.connectAsAdmin();
  const ended = new AbortController();
  const lines: string[] = [];
  const log = pino({ base: null }, { write: (line: string) => lines.push(line) });
  const metrics = createMetrics();
  const parts = { config: resolveConfig({ namespace: NAMESPACE }, {}), identity: 'suite', metrics, log };
  const connected = await connect(connection, { ...parts, tracing: undefined }, ended.signal);
  const { context } = connected;
  const { client, discovery } = context;
  const events: SuiteEvent[] = [];
  const clock = createMovedClock();
  const failures = createFailures(clock.advance);
  const ofControllers = api.connectAsAdmin();
  const rest = createRest({
    connection: failures.connection(ofControllers),
    userAgent: 'gatehouse-suite',
    background: true,
    clock,
  });
  const running = {
    context: { ...context, rest },
    controllers,
    clock,
    events,
    failures,
    ended: ended.signal,
  };
  const apply = async (...objects: readonly object[]): Promise<void> => {
    await applyManifests({ client, discovery, namespace: 'default' }, objects);
  };
  const served = async ({ group, resource }: SuiteKind) => {
    const found = await discovery.resolve({ group, resource }, ended.signal);
    if (found === undefined) throw new Error(`${groupResourceName({ group, resource })} is not served`);
    return found;
  };
  let settling: Promise<unknown> | undefined;
  const stop = async (): Promise<void> => {
    ended.abort(new Error('the suite is stopped'));
    await settling?.catch(() => undefined); // its caller gets the error
    await connected.close();
    await ofControllers.close();
    await api.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await apply(...manifests.flatMap((one) => (one instanceof URL ? documentsIn(one) : [one])));
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    /** Server-side apply, as a user. */
    apply,
    get: async (kind: SuiteKind, ref: NamedRef): Promise<KubeObject | undefined> =>
      await client.get<KubeObject>(await served(kind), ref),
    /** @param namespace undefined: all namespaces */
    list: async (kind: SuiteKind, namespace?: string): Promise<readonly KubeObject[]> =>
      (await client.listAll<KubeObject>(await served(kind), { namespace })).items,
    /** A merge patch, as a user or another controller: null removes a field. */
    patch: async (kind: SuiteKind, ref: NamedRef, patch: object): Promise<KubeObject> =>
      await client.patchMerge<KubeObject>(await served(kind), ref, patch),
    /** As a kubelet or another controller: a merge patch of the status. */
    setStatus: async (kind: SuiteKind, ref: NamedRef, status: object): Promise<KubeObject> =>
      await client.patchStatus<KubeObject>(await served(kind), ref, { status }),
    remove: async (kind: SuiteKind, ref: NamedRef): Promise<void> => {
      await client.delete(await served(kind), ref);
    },
    /** A file for kubectl and other clients. */
    kubeconfig: api.kubeconfig,
    /** The time of the passes moves on: what they wait for is due at the next `settle`. */
    advance: clock.advance,
    /** Requests of the controllers fail. Failures of the same requests happen one after the other. */
    fail: failures.fail,
    /** Breaks the open watches of the controllers. With `isExpired`, the API server forgot what followed. */
    dropWatches: failures.dropWatches,
    /** The Events that the controller recorded. */
    events: (): readonly SuiteEvent[] => [...events],
    /** The log as JSON, one line an entry. */
    logs: (): readonly string[] => [...lines],
    /**
     * Runs the controller until no pass is left, and each object is ready, stalled, gone, or waits. Delays after failures take
     * no time.
     *
     * @throws Error if the second run writes, an object keeps failing, or passes keep changing the same
     */
    settle: async (options: SettleOptions = {}): Promise<Settled> => {
      const work = settle(running, options);
      settling = work;
      return await work;
    },
    /** Also ends `settle`, which then fails. */
    stop,
  };
}

async function settle(running: Running, { restart = true, timeoutSeconds }: SettleOptions): Promise<Settled> {
  const until = timeoutSeconds === undefined ? undefined : AbortSignal.timeout(timeoutSeconds * 1_000);
  const settled = await runUntilQuiet(running, until);
  const again = restart ? await runUntilQuiet(running, until) : undefined;
  if (again !== undefined && again.writes.length > 0)
    throw new Error(`the second run writes, too:\n${again.writes.join('\n')}`);
  return settled;
}

/** Leaves nothing if the start fails. */
async function startWantedApi(wanted: SuiteOptions['api'], folder: string) {
  const assets = process.env.KUBEBUILDER_ASSETS ?? '';
  const starting =
    (wanted ?? (assets === '' ? 'memory' : 'real')) === 'real'
      ? startRealApi(assets, join(folder, 'api'))
      : startApi(0, folder);
  return await starting.catch((error: unknown) => {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  });
}

const documentsIn = (file: URL): readonly object[] =>
  parseAllDocuments(readFileSync(file, 'utf8')).map((document) => document.toJS() as object);

interface Running {
  readonly context: Context;
  readonly controllers: readonly CompiledController[];
  readonly clock: MovedClock;
  readonly events: SuiteEvent[];
  readonly failures: ReturnType<typeof createFailures>;
  readonly ended: AbortSignal;
}

async function runUntilQuiet(suite: Running, until: AbortSignal | undefined): Promise<Settled> {
  const { context, controllers, clock, events, failures, ended } = suite;
  const running = new AbortController();
  const writes: string[] = [];
  const rest = recording(context.rest, writes);
  const client = createClient(rest);
  const passes = countPasses(context.metrics);
  const { log, fails } = failuresIn(context.log);
  const recorder = createEventRecorder({
    client,
    log,
    component: 'gatehouse',
    instance: 'suite',
    signal: running.signal,
  });
  const record: EventRecorder['record'] = (note) => {
    const { regarding, type, reason, message } = note;
    events.push({ type, reason, message, object: `${regarding.kind} ${objectKey(regarding)}` });
    recorder.record(note);
  };
  const metrics = { ...context.metrics, userController: passes.userController };
  const parts = { ...context, rest, client, metrics, record, log };
  const { stopped } = startControllers(parts, controllers, running.signal, clock);
  try {
    for (let quiet = 0; ;) {
      await sleep(LOOK_EVERY_MS, undefined, { signal: ended });
      quiet = passes.wereThereNone() && !failures.hasLostWatches() ? quiet + 1 : 0;
      const failing = fails(until === undefined || until.aborted ? MOST_FAILURES : Number.POSITIVE_INFINITY);
      if (failing !== undefined)
        throw new Error(`a pass of ${failing.key} fails again and again: ${failing.why}`);
      if (until?.aborted === true) throw new Error('the controller is not done in time');
      const waiting = quiet >= QUIET_LOOKS ? await waitingIn(suite, passes.ended()) : undefined;
      if (!passes.wereThereNone() || waiting === undefined) continue;
      if (!passes.hasFailed()) return { writes, waiting };
      if (until === undefined) clock.skip();
      quiet = 0;
    }
  } finally {
    running.abort();
    await stopped;
    failures.forgetWatches();
  }
}

/** Undefined: not each object had a pass. @throws Error if passes keep changing the same */
async function waitingIn(
  { context: { client, discovery }, controllers }: Running,
  passes: number,
): Promise<readonly Waiting[] | undefined> {
  const lists = controllers.map(async ({ watched }) => {
    const resource = await discovery.resolve(watched);
    if (resource === undefined)
      throw new Error(`${groupResourceName(watched)} is not served: add it to manifests`);
    return (await client.listAll<KubeObject>(resource)).items;
  });
  const items = (await Promise.all(lists)).flat();
  if (passes < items.length) return undefined;
  const waiting = items.flatMap((object) => {
    const conditions = listIn(object, 'status', 'conditions');
    const open = conditions.find(
      (one) => textIn(one, 'type') === 'Reconciling' && textIn(one, 'status') === 'True',
    );
    return open === undefined
      ? []
      : [{ object: keyOf(object), reason: textIn(open, 'reason'), message: textIn(open, 'message') }];
  });
  // The brake delays them, so there is no pass for a while.
  const changing = waiting.find(({ reason }) => reason === 'KeepsChanging');
  if (changing !== undefined || passes > MOST_PASSES * (items.length + 1))
    throw new Error(
      `the controller ${controllers.map(({ name }) => name).join(' or ')} does not come to rest: ${changing === undefined ? `${passes} passes` : `${changing.object}: ${changing.message}`}`,
    );
  return waiting;
}

/** Of each key, how often a pass has failed in a row. */
function failuresIn(log: Logger) {
  const failures = new Map<string, { readonly count: number; readonly why: string }>();
  const child = log.child({});
  const warn = child.warn.bind(child);
  child.warn = ((fields: { readonly key?: string; readonly err?: unknown }, message: string) => {
    if (message === 'reconcile failed' && fields.key !== undefined) {
      const count = (failures.get(fields.key)?.count ?? 0) + 1;
      failures.set(fields.key, { count, why: messageWithCauses(fields.err) });
    }
    warn(fields, message);
  }) as Logger['warn'];
  // startControllers makes children, which must count, too.
  child.child = (() => child) as unknown as Logger['child'];
  return {
    log: child,
    fails: (most: number) => {
      const found = [...failures].find(([, { count }]) => count >= most);
      return found && { key: found[0], why: found[1].why };
    },
  };
}

/** The metrics, and whether a pass runs or has run since the last look. */
function countPasses({ userController }: Context['metrics']) {
  let active = 0;
  let [ended, endedBefore] = [0, 0];
  let hasFailed = false; // a retry follows
  return {
    ended: () => ended,
    hasFailed: () => hasFailed,
    wereThereNone: () => {
      const isQuiet = active === 0 && ended === endedBefore;
      endedBefore = ended;
      return isQuiet;
    },
    userController: ((name, controller) => {
      const metrics = userController(name, controller);
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

type MovedClock = ReturnType<typeof createMovedClock>;

/** The clock of the system, and a part that moves only by hand. */
function createMovedClock() {
  let movedMs = 0;
  const timers = new Set<{ readonly due: number; readonly run: () => void }>();
  const monotonic = () => systemClock.monotonic() + movedMs;
  const runDue = () => {
    for (const timer of timers) if (timer.due <= monotonic()) timer.run();
  };
  return {
    now: () => systemClock.now() + movedMs,
    monotonic,
    after: (ms: number, run: () => void) => {
      const cancel = systemClock.after(ms, () => timer.run());
      const timer = {
        due: monotonic() + ms,
        run: () => {
          cancelAll();
          run();
        },
      };
      const cancelAll = () => {
        timers.delete(timer);
        cancel();
      };
      timers.add(timer);
      return cancelAll;
    },
    advance: (seconds: number): void => {
      movedMs += seconds * 1_000;
      runDue();
    },
    /** To the next timer. */
    skip: (): void => {
      const due = Math.min(...[...timers].map((timer) => timer.due));
      if (!Number.isFinite(due)) return;
      movedMs += Math.max(0, due - monotonic());
      runDue();
    },
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
