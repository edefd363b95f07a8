/** An API server, replicas and leaders in memory. A scheduler releases every step, in any order and with any delay. */
import type { KubeClient } from '../../../src/kube/client.ts';
import type { CompiledPolicy } from '../../../src/admission/policy/compile.ts';
import { isJsonObject } from '../../../src/json/json.ts';
import type { AdmissionRequest } from '../../../src/admission/review/request.ts';
import { summarise } from '../../../src/admission/policy/governed-summary.ts';
import { validate } from '../../../src/admission/policy/validate.ts';
import type { RequestWorld } from '../../../src/admission/policy/world.ts';
import type { KubeObject, ObjectRef } from '../../../src/json/kube-object.ts';
import type { UniqueClaim } from '../../../src/api/unique-claim.ts';
import { claimsOf as claimStoreOf, SETTLE_MS } from '../admission/claims.ts';
import { createRequest, emptyWorld } from '../admission/policy.ts';
import { GROUP, NEVER, silent } from './fixtures.ts';
import {
  ALL_CLAIMS,
  createUniqueClaimsReconciler,
  type UniqueClaimsOptions,
} from '../../../src/runtime/claims/unique-claims.ts';
import { createUnsettledClaims, type UnsettledClaims } from '../../../src/runtime/claims/unsettled-claims.ts';
import type { Reconcile } from '../../../src/runtime/controller.ts';

/** Maximum time that the API server works on a request; Gatehouse assumes the same limit. */
const REQUEST_MS = 60_000;

const SERVERS = { group: GROUP, resource: 'servers' };

interface Stored extends KubeObject {
  readonly metadata: NonNullable<KubeObject['metadata']>;
  readonly spec: { readonly serial?: string };
}

export type Wish =
  | { readonly kind: 'create' | 'update'; readonly name: string; readonly serial: string | undefined }
  | { readonly kind: 'delete'; readonly name: string };

/** @param isSafe no replica crashes; then the leader never compares all claims with all objects */
export function createSimulation(policy: CompiledPolicy, random: () => number, isSafe: boolean) {
  const objects = new Map<string, Stored>();
  const claims = new Map<string, UniqueClaim>();
  let cached = new Map<string, Stored>();
  const gone = new Set<string>();
  let unseenDeletions: string[] = [];
  const queue = new Set<string>();
  const later = new Set<string>();
  let now = Date.parse('2026-11-21T12:00:00Z');
  let version = 0;
  let refusals = 0;
  const waiting: (() => void)[] = [];
  const next = () => String(++version);
  const chance = (share: number) => random() < share;

  const step = () => new Promise<void>((resolve) => waiting.push(resolve));

  const refOf = (name: string): ObjectRef => ({ ...SERVERS, namespace: 'shop', name });
  const claimsOf = (object: Stored) => summarise([policy], refOf(''), object).claims;

  /** The API server. A caller whose `send` never resolves has crashed; what it has sent before may still arrive. */
  const claimsThrough = (send: () => Promise<void>) => claimStoreOf(claims, send, next);
  const holders = (claim: string) =>
    [...cached.values()]
      .filter((object) => claimsOf(object).includes(claim))
      .map(({ metadata }) => refOf(metadata.name ?? ''));
  const readThrough =
    (send: () => Promise<void>) =>
    async ({ name, resource }: ObjectRef) => {
      await send();
      return resource === 'servers' ? objects.get(name) : undefined;
    };
  const worldThrough = (send: () => Promise<void>, unsettled: UnsettledClaims): RequestWorld => ({
    ...emptyWorld(),
    confirm: readThrough(send),
    read: readThrough(send),
    claims: {
      ...claimsThrough(send),
      reserve: unsettled.reserve,
      hasNamespace: async () => {
        await send();
        return true;
      },
    },
    governed: { referrers: () => [], holders },
  });
  const ignore = () => undefined;
  const newLedger = () => createUnsettledClaims(SETTLE_MS, () => now, ignore);
  const replicas = [newLedger(), newLedger()];

  const carryOut = async (wish: Wish): Promise<void> => {
    const deadline = now + REQUEST_MS;
    for (;;) {
      await step();
      const before = objects.get(wish.name);
      if (now > deadline || (before === undefined && wish.kind !== 'create')) return;
      if (wish.kind === 'delete') {
        deleteNow(wish.name);
        return;
      }
      const object =
        wish.kind === 'create'
          ? newObject(wish)
          : { ...before, ...specOf(wish), metadata: before?.metadata ?? {} };
      if (!(await admits(wish.kind, object, before)) || chance(0.15)) return; // another admission plugin refuses it
      await step();
      if (now > deadline) return;
      const current = objects.get(wish.name);
      if (wish.kind === 'create' && current !== undefined) return;
      if (wish.kind === 'update' && current?.metadata.resourceVersion !== before?.metadata.resourceVersion)
        continue;
      store(object);
      return;
    }
  };
  const newObject = (wish: Extract<Wish, { kind: 'create' | 'update' }>): Stored => ({
    apiVersion: `${GROUP}/v1`,
    kind: 'Server',
    metadata: {
      namespace: 'shop',
      name: wish.name,
      uid: next(),
      creationTimestamp: new Date(now).toISOString(),
    },
    ...specOf(wish),
  });
  const specOf = ({ serial }: { readonly serial: string | undefined }) => ({
    spec: serial === undefined ? {} : { serial },
  });

  const admits = async (kind: 'create' | 'update', object: Stored, old?: Stored): Promise<boolean> => {
    const skewMs = chance(0.5) ? 1_500 : -1_500;
    const replica = chance(0.5) ? 1 : 0;
    let isCrashed = false;
    const send = async (): Promise<void> => {
      if (isCrashed) await new Promise(() => undefined);
      await step();
    };
    const world = worldThrough(send, replicas[replica] ?? newLedger());
    const context = { world, signal: NEVER, now: now + skewMs };
    const asked = (async () => await validate(requestOf(kind, object, old), [policy], context))();
    const crash = async (): Promise<undefined> => {
      for (let steps = 1 + Math.floor(random() * 6); steps > 0; steps--) await step();
      isCrashed = true;
      replicas[replica] = newLedger();
      return undefined;
    };
    const decision = await Promise.race(!isSafe && chance(0.1) ? [asked, crash()] : [asked]);
    if (decision?.kind !== 'allow') refusals += 1;
    return decision?.kind === 'allow';
  };

  const store = (object: Stored): void => {
    const { name = '' } = object.metadata;
    const before = objects.get(name);
    if (before !== undefined) for (const claim of claimsOf(before)) queue.add(claim);
    objects.set(name, { ...object, metadata: { ...object.metadata, resourceVersion: next() } });
    const serials = [...objects.values()].flatMap(({ spec }) => spec.serial ?? []);
    if (new Set(serials).size < serials.length)
      throw new Error(`two objects hold one value: ${serials.join(', ')}`);
  };
  const deleteNow = (name: string): void => {
    const object = objects.get(name);
    if (object === undefined) return;
    objects.delete(name);
    unseenDeletions.push(object.metadata.uid ?? '');
    for (const claim of claimsOf(object)) queue.add(claim);
  };

  const catchUp = (): void => {
    cached = new Map(objects);
    for (const uid of unseenDeletions) gone.add(uid);
    unseenDeletions = [];
    for (const object of cached.values())
      for (const { settle } of replicas) settle(refOf(object.metadata.name ?? ''), claimsOf(object));
  };
  const repairs: UniqueClaimsOptions = {
    policies: () => [policy],
    client: {
      get: (() => Promise.resolve({ spec: policy.spec })) as KubeClient['get'], // the simulation has one policy
      pages: async function* () {
        await step();
        yield { metadata: {}, items: [...claims.values()] };
      } as KubeClient['pages'], // the code under test lists only UniqueClaims
    },
    claims: claimsThrough(step),
    governed: {
      holdersOf: holders,
      objects: () =>
        [...cached.values()].map((object) => ({
          ref: { ...SERVERS, namespace: undefined, name: '' },
          object: { claims: claimsOf(object) },
        })),
      unsynced: () => [],
      unlisted: () => new Set(),
    },
    world: { read: readThrough(step) },
    wasStored: (uid) => gone.has(uid),
    enqueue: (claim) => queue.add(claim),
    pace: () => Promise.resolve(),
    onHolders: () => undefined,
    now: () => new Date(now),
    random,
    log: silent,
  };
  const reconcile: Reconcile = createUniqueClaimsReconciler(repairs);
  const cleanUp: Reconcile = createUniqueClaimsReconciler({ ...repairs, wasStored: () => false });

  /** Releases waiting steps in random order until all tasks have ended. Time moves in random increments. */
  const run = async (tasks: readonly Promise<unknown>[]): Promise<void> => {
    let isRunning = true;
    const all = Promise.all(tasks).finally(() => (isRunning = false));
    all.catch(() => undefined); // thrown below
    while (isRunning) {
      await new Promise(setImmediate);
      if (chance(0.2)) catchUp();
      if (chance(0.25)) now += [10, 1_000, 20_000, 65_000][Math.floor(random() * 4)] ?? 0;
      waiting.splice(Math.floor(random() * waiting.length), 1)[0]?.();
    }
    await all;
  };

  /** Reconciles the next queued key. A key that fails goes to the end of the queue and is retried after all others. */
  const repairClaims = async (): Promise<void> => {
    const [claim = isSafe ? undefined : ALL_CLAIMS] = queue;
    if (claim === undefined) return;
    queue.delete(claim);
    const result = await reconcile(claim, NEVER).catch(() => undefined);
    if (result === undefined) queue.add(claim);
    else if (result.kind === 'requeue' && claim !== ALL_CLAIMS) later.add(claim);
  };

  const cleanUpAll = async (): Promise<void> => {
    for (const unsettled of replicas) {
      for (const claim of unsettled.takeDue()) {
        const entry = unsettled.get(claim);
        const result = await cleanUp(claim, NEVER).catch(() => undefined);
        if (entry !== undefined && result !== undefined && result.kind !== 'requeue')
          unsettled.cleaned(claim, entry);
      }
    }
  };

  return {
    carryOut,
    repairClaims,
    cleanUpAll,
    run,
    /** Reaches a quiet state: no call is in flight, watches are current, claims repaired, waiting times over. */
    settle: async (): Promise<void> => {
      while (waiting.length > 0) {
        waiting.shift()?.();
        await new Promise(setImmediate);
      }
      for (let round = 0; round < 3; round++) {
        catchUp();
        now += SETTLE_MS + 5_000;
        await run([cleanUpAll()]);
        if (isSafe) for (const claim of later) queue.add(claim);
        else queue.clear();
        later.clear();
        if (!isSafe) await run([reconcile(ALL_CLAIMS, NEVER)]);
        while (queue.size > 0) await run([repairClaims()]);
      }
    },
    unsettled: () => replicas.reduce((sum, { count }) => sum + count(), 0),
    objects: (): ReadonlyMap<string, Stored> => objects,
    claims: (): readonly UniqueClaim[] => [...claims.values()],
    refusals: () => refusals,
  };
}

function requestOf(kind: 'create' | 'update', object: Stored, oldObject?: Stored): AdmissionRequest {
  const asJson = (value: unknown) => (isJsonObject(value) ? value : undefined);
  const common = { ...createRequest({}), name: object.metadata.name, namespace: 'shop' };
  return kind === 'create'
    ? { ...common, operation: 'CREATE', object: asJson(object) }
    : { ...common, operation: 'UPDATE', object: asJson(object), oldObject: asJson(oldObject) };
}
