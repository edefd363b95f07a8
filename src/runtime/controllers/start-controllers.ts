/** The controllers of users, where this process leads. Each has its own stores and queue: none delays another. */
import type { CompiledController } from '../../controllers/compile-controller.ts';
import { createBrake } from '../../controllers/brake.ts';
import { runPass, type PassResult } from '../../controllers/pass.ts';
import type { Settled } from '../../controllers/pass-state.ts';
import type { RateLimit } from '../../controllers/controller.ts';
import type { ControllerWorld, ServedKind, UnreadableKind } from '../../controllers/world.ts';
import { toError } from '../../admission/handlers/errors.ts';
import { messageOf } from '../../json/abort.ts';
import { type GroupResource, groupResourceName, type KubeObject } from '../../json/kube-object.ts';
import { canI, type AccessQuestion } from '../../kube/access.ts';
import { type Clock, linkedController, sleep, systemClock } from '../../kube/clock.ts';
import { AWAIT_CHANGE, GONE, startController, type RecordingContext, type Reconcile } from '../controller.ts';
import { inHandler } from '../handlers/stray-errors.ts';
import { placesOf } from '../namespaces.ts';
import { mayRead } from '../policies/read-access.ts';
import {
  createClusterWorld,
  createOwnWrites,
  isSame,
  type ServedSource,
  watchKinds,
  writeKey,
} from './cluster-world.ts';
import { createObserved, type Observed } from './observed.ts';
import { startPublishing, type MissingKind } from './published.ts';
import type { InstalledWebhooks } from '../webhooks/installed-webhooks.ts';

/** The CRD may be created later, and no watch reports a permission. In milliseconds. */
const RETRY_MS = 5_000;
const ERROR_RETRY_MS = 500;
const REPORT_MS = 30_000;
/** After its timeout, a pass that respects its signal has long ended. In milliseconds. */
const STUCK_MS = 5_000;

export function startControllers(
  context: RecordingContext,
  controllers: readonly CompiledController[],
  signal: AbortSignal,
  clock = systemClock,
  observing: (controller: CompiledController) => Observed = observedIn(context),
): { readonly stopped: Promise<unknown> } {
  const running = controllers.map((controller) =>
    run({ ...context, clock, observed: observing(controller) }, controller, signal),
  );
  return { stopped: Promise.all(running) };
}

const observedIn =
  ({ metrics, serverClock }: RecordingContext) =>
  (controller: CompiledController): Observed =>
    createObserved(controller, metrics, serverClock.now);

async function run(context: OwnContext, controller: CompiledController, signal: AbortSignal): Promise<void> {
  const log = context.log.child({ controller: `controller-${controller.name}` });
  const { observed } = context;
  const own = { ...context, log };
  while (!signal.aborted) {
    const running = linkedController(signal);
    let watching: Promise<unknown> | undefined;
    try {
      const { kinds, sources, missing, unreadable } = await whenServed(own, controller, running.signal);
      watching = endWhenServed(own, missing, running).catch(() => undefined); // ended
      await reconcileAll(own, controller, kinds, { sources, unreadable }, running.signal);
    } catch (error) {
      if (!running.signal.aborted) throw error;
    } finally {
      running.abort(new Error('the controller ends'));
      running.release();
      await watching;
      observed.ends();
    }
  }
}

interface OwnContext extends RecordingContext {
  readonly clock: Clock;
  readonly observed: Observed;
}

async function reconcileAll(
  context: OwnContext,
  controller: CompiledController,
  kinds: readonly [ServedKind, ...ServedKind[]],
  { sources, unreadable }: Pick<Awaited<ReturnType<typeof whenServed>>, 'sources' | 'unreadable'>,
  signal: AbortSignal,
): Promise<void> {
  const { clock, observed } = context;
  const writes = createOwnWrites();
  let enqueue: (key: string) => void = () => undefined;
  let isStarted = false;
  const settled: Settled = new Map();
  const brake = createBrake();
  const blocked = new Set<string>();
  const parts = { sources, writes, settled, isStarted: () => isStarted };
  const stores = watchKinds(context, controller, kinds, parts, (key) => enqueue(key), signal);
  const sizes = { objects: () => stores.primary.store.keys().length, failures: stores.failures };
  observed.runs({ ...sizes, queued: () => 0 });
  await stores.whenSynced(signal);
  const metric: ControllerWorld['metric'] = (write) => observed.own(write, context.log);
  const world = createClusterWorld({ ...context, metric }, controller, kinds, stores, { writes, unreadable });
  const [kind] = kinds;
  const { concurrency, name, timeoutMs, watched } = controller;
  const takeTurn = controller.rateLimit && createRateLimit(controller.rateLimit, clock);
  const reconcile: Reconcile = async (key, pass) => {
    await takeTurn?.(pass);
    const ended = observed.pass(key, (error) => signal.aborted || world.isPassing(error));
    const work = async (deadline: AbortSignal) => {
      const object = await latest(key, pass);
      return await runPass({ controller, world, settled, brake, blocked, deadline, signal: pass }, object);
    };
    const result = await within(key, pass, work).catch(failedPass);
    ended(result);
    observed.blocked(blocked.size);
    return resultOf(result, key);
  };
  /** Its worker goes on with other objects. The object gets no second pass at the same time. */
  const reportStuck = (key: string): void => {
    observed.stuck(1);
    const message = `the pass ignores its signal and does not return, so ${key} gets no other pass: pass signal to every call in the controller ${name}, and restart Gatehouse`;
    context.log.error({ object: key }, message);
    const object = stores.primary.store.get(key);
    if (object !== undefined && controller.leaderOnly) world.event(object, 'Warning', 'PassStuck', message);
  };
  const within = async (
    key: string,
    pass: AbortSignal,
    work: (deadline: AbortSignal) => Promise<PassResult>,
  ) => {
    const { signal: deadline, abort, release } = linkedController(pass);
    const state = { isStuck: false };
    let cancel = clock.after(timeoutMs, () => {
      const hint = 'pass signal to every call, otherwise the object gets no other pass';
      abort(new Error(`the pass took longer than ${timeoutMs / 1_000} s: ${hint}`));
      cancel = clock.after(STUCK_MS, () => {
        state.isStuck = true;
        reportStuck(key);
      });
    });
    try {
      return await inHandler(name, () => work(deadline));
    } finally {
      cancel();
      release();
      if (state.isStuck) observed.stuck(-1);
    }
  };
  const latest = async (key: string, pass: AbortSignal): Promise<KubeObject | undefined> => {
    const stored = stores.primary.store.get(key);
    if (writes.isSeen(writeKey(watched, key), stored)) return stored;
    const [name = '', namespace] = key.split('/').toReversed();
    return await world.get({ ...kind, metadataOnly: false }, { namespace, name }, pass);
  };
  const resultOf = (result: PassResult, key: string) => {
    if (result.kind === 'failed') throw result.error;
    if (result.kind === 'done')
      return result.requeueAt === undefined
        ? AWAIT_CHANGE
        : ({ kind: 'requeue', at: result.requeueAt } as const);
    writes.forget(writeKey(watched, key));
    brake.forget(key);
    blocked.delete(key);
    return GONE;
  };
  const turnMs = (concurrency * 1_000) / (controller.rateLimit?.passesPerSecond ?? Infinity);
  const { backoff } = controller;
  const limits = { concurrency, backoff, timeoutMs: timeoutMs + REPORT_MS + turnMs };
  const options = { name: `controller-${name}`, ...limits, reconcile, clock };
  const controlled = startController(context, options, signal);
  enqueue = controlled.add;
  isStarted = true;
  observed.runs({ ...sizes, queued: () => controlled.load().depth });
  for (const key of stores.primary.store.keys()) controlled.add(key);
  await controlled.stopped;
}

/** Waits for a token of a bucket, as client-go does; the tokens are given in the order of the calls. */
function createRateLimit({ passesPerSecond, burst }: Required<RateLimit>, clock: Clock) {
  const intervalMs = 1_000 / passesPerSecond;
  /** When the bucket is full again. */
  let full = clock.monotonic();
  return async (signal: AbortSignal): Promise<void> => {
    const now = clock.monotonic();
    full = Math.max(full, now) + intervalMs;
    const waitMs = full - burst * intervalMs - now;
    if (waitMs > 0) await sleep(clock, waitMs, signal);
  };
}

const failedPass = (error: unknown): PassResult => ({
  kind: 'failed',
  error: toError(error),
  reason: 'PassFailed',
});

/** Ends `running`, so that the controller starts again with the kind. */
async function endWhenServed(
  context: OwnContext,
  missing: readonly WantedKind[],
  { signal, abort }: Pick<ReturnType<typeof linkedController>, 'signal' | 'abort'>,
): Promise<void> {
  while (missing.length > 0 && !signal.aborted) {
    await sleep(systemClock, RETRY_MS, signal);
    const may = (question: AccessQuestion) => canI(context.client, question, { signal });
    const found = missing.map((kind) => served(context, kind, may, signal).catch(() => undefined));
    const index = (await Promise.all(found)).findIndex((one) => one !== undefined);
    const kind = missing[index];
    if (kind === undefined) continue;
    context.log.info(
      { kind: groupResourceName(kind) },
      'a kind can be used now, so the controller starts again',
    );
    abort(new Error(`${groupResourceName(kind)} can be used now`));
  }
}

/** The kinds of `watch` and `owns` that are served. Kinds in `owns` can be missing: only their objects are not applied. */
async function whenServed(
  context: OwnContext,
  controller: CompiledController,
  signal: AbortSignal,
): Promise<{
  readonly kinds: readonly [ServedKind, ...ServedKind[]];
  readonly sources: readonly ServedSource[];
  readonly missing: readonly WantedKind[];
  readonly unreadable: readonly UnreadableKind[];
}> {
  const { log, observed } = context;
  const may = rememberingYes((question) => canI(context.client, question, { signal }));
  let logged: string | undefined;
  for (;;) {
    let waitMs = RETRY_MS;
    try {
      const unreadable: UnreadableKind[] = [];
      const [watched, ...owns] = await Promise.all([
        served(context, controller.watched, may, signal),
        ...controller.owns.map((kind) => served(context, kind, may, signal).catch(unlessRefused(unreadable))),
      ]);
      if (watched === undefined)
        throw new NotUsable(notServed(controller.watched), unserved(controller.watched));
      const others = controller.watches.map(({ kind }) => kind);
      const unwatched: UnreadableKind[] = [];
      const found = await Promise.all(
        others.map((kind) => served(context, kind, may, signal).catch(unlessRefused(unwatched))),
      );
      const missing = [
        ...controller.owns.filter((_kind, index) => owns[index] === undefined),
        ...others.filter((_kind, index) => found[index] === undefined),
      ];
      const refusalOf = (kind: GroupResource) =>
        [...unreadable, ...unwatched].find((one) => isSame(one, kind));
      observed.unserved(missing.map((kind) => (refusalOf(kind) ? refused(kind) : unserved(kind))));
      for (const kind of missing)
        log.warn(
          { problem: refusalOf(kind)?.problem ?? notServed(kind) },
          'the controller runs without a kind in owns or watches',
        );
      const sources = controller.watches.flatMap((source, index) => {
        const kind = found[index];
        return kind === undefined ? [] : [{ kind, source }];
      });
      return { kinds: [watched, ...owns.filter((kind) => kind !== undefined)], sources, missing, unreadable };
    } catch (error) {
      signal.throwIfAborted();
      const problem = messageOf(error);
      const unknown = {
        kind: groupResourceName(controller.watched),
        why: 'Failed',
        message: problem,
      } as const;
      observed.unserved([error instanceof NotUsable ? error.missing : unknown]);
      if (problem !== logged) log.warn({ problem }, 'the controller waits');
      logged = problem;
      if (!(error instanceof NotUsable)) waitMs = ERROR_RETRY_MS;
    }
    await sleep(systemClock, waitMs, signal);
  }
}

class NotUsable extends Error {
  readonly missing: MissingKind;
  /** Served, but not readable. */
  readonly kind: ServedKind | undefined;

  constructor(message: string, missing: MissingKind, kind?: ServedKind) {
    super(message);
    this.missing = missing;
    this.kind = kind;
  }
}

/** A kind in `owns` or `watches` that Gatehouse lacks permission to read stops only the passes that need it. */
const unlessRefused =
  (unreadable: UnreadableKind[]) =>
  (error: unknown): undefined => {
    if (!(error instanceof NotUsable) || error.kind === undefined) throw error;
    unreadable.push({ ...error.kind, problem: error.message });
  };

const refused = (kind: WantedKind): MissingKind => ({
  kind: groupResourceName(kind),
  why: 'Forbidden',
  message: `Gatehouse lacks permission to get, list and watch ${nameOf(kind)}`,
});

/** Without a version: the one that the API server prefers. */
type WantedKind = GroupResource & { readonly version: string | undefined };

const nameOf = (kind: WantedKind): string =>
  kind.version === undefined ? groupResourceName(kind) : `${groupResourceName(kind)} in ${kind.version}`;
const notServed = (kind: WantedKind): string => `the API server does not serve ${nameOf(kind)}`;
const unserved = (kind: WantedKind): MissingKind => ({
  kind: groupResourceName(kind),
  why: 'NotServed',
  message: notServed(kind),
});

type May = (question: AccessQuestion) => Promise<boolean>;

/** Repeats only the questions that were refused or not answered, to spare a failing API server. */
export function rememberingYes(ask: May): May {
  const permitted = new Set<string>();
  return async (question) => {
    const key = JSON.stringify(question);
    if (!permitted.has(key) && (await ask(question))) permitted.add(key);
    return permitted.has(key);
  };
}

async function served(
  { discovery, namespaces }: RecordingContext,
  kind: WantedKind,
  may: May,
  signal: AbortSignal,
): Promise<ServedKind | undefined> {
  discovery.forget(kind); // Its CustomResourceDefinition may be gone since: the stores would wait for it.
  const found = await discovery.resolve(kind, signal);
  if (found === undefined) return undefined;
  const usable = { ...found, version: kind.version ?? found.version };
  if (!(await mayRead(may, kind, placesOf(found, namespaces)))) {
    const missing = refused(kind);
    const rule = { apiGroups: [kind.group], resources: [kind.resource], verbs: ['get', 'list', 'watch'] };
    const hint = `apply the output of "gatehouse manifests --handlers", which has the rule ${JSON.stringify(rule)}`;
    throw new NotUsable(`${missing.message}: ${hint}`, missing, usable);
  }
  return usable;
}

type Sessions = Pick<InstalledWebhooks, 'devSessions' | 'whenListed' | 'onChange'>;

/** The controllers of users on the leader. Each pauses while a dev session (`serve --dev-url`) runs it on a laptop. */
export function startUnlessLent(
  context: RecordingContext,
  sessions: Sessions,
  controllers: readonly CompiledController[],
  signal: AbortSignal,
): { readonly stopped: Promise<unknown> } {
  const { serverClock, log } = context;
  const observed = new Map(controllers.map((one) => [one.name, observedIn(context)(one)]));
  const lentTo = new Map<string, string>();
  const rows = () => [...observed].map(([name, { row }]) => row(lentTo.get(name)));
  const published = startPublishing(context, rows, signal);
  if (controllers.length === 0) return published;
  const failed = Promise.withResolvers<never>();
  const running = new Map<
    string,
    { readonly end: () => Promise<unknown>; readonly stopped: Promise<unknown> }
  >();
  const start = (controller: CompiledController) => {
    const { signal: own, abort, release } = linkedController(signal);
    const observing = (one: CompiledController) => observed.get(one.name) ?? observedIn(context)(one);
    const { stopped } = startControllers(context, [controller], own, systemClock, observing);
    stopped.catch(failed.reject);
    const end = async () => {
      abort(new Error('a dev session runs the controller'));
      await stopped.finally(release);
    };
    running.set(controller.name, { end, stopped });
  };
  const reconcile: Reconcile = async (name, waiting) => {
    await sessions.whenListed(waiting);
    const lent = sessions
      .devSessions(serverClock.now())
      .filter((session) => session.controllers?.includes(name));
    const [session] = lent.toSorted((a, b) => b.expiresAt.getTime() - a.expiresAt.getTime());
    const controller = controllers.find((one) => one.name === name);
    if (session === undefined) {
      lentTo.delete(name);
      if (!running.has(name) && controller !== undefined) start(controller);
      return AWAIT_CHANGE;
    }
    const { holder, expiresAt } = session;
    lentTo.set(name, holder);
    if (running.has(name)) log.info({ name, holder }, 'a dev session runs this controller: it pauses here');
    await running.get(name)?.end();
    running.delete(name);
    return { kind: 'requeue', at: expiresAt };
  };
  const key = controllers.map(({ name }) => name);
  const options = { name: 'lend-controllers', key, on: [sessions.onChange], reconcile };
  const { stopped } = startController(context, { ...options, serverNow: serverClock.now }, signal);
  const all = stopped.then(() => Promise.all([published, ...running.values()].map((one) => one.stopped)));
  return { stopped: Promise.race([all, failed.promise]) };
}
