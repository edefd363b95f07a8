/**
 * An API server, replicas and leaders in memory. A scheduler releases every step, in any order and with any delay
 * between steps. The simulation covers the API server behaviour that UniqueClaims rely on: see
 * `admission/policy/unique/claim-state.ts`.
 */
import type { KubeClient } from '../../../src/kube/client.ts';
import type { CompiledPolicy } from '../../../src/admission/policy/compile.ts';
import { isJsonObject } from '../../../src/json/json.ts';
import type { AdmissionRequest } from '../../../src/admission/review/request.ts';
import { summarise } from '../../../src/admission/policy/governed-summary.ts';
import { validate } from '../../../src/admission/policy/validate.ts';
import type { Claims, World } from '../../../src/admission/policy/world.ts';
import type { KubeObject, ObjectRef } from '../../../src/json/kube-object.ts';
import type { UniqueClaim } from '../../../src/api/unique-claim.ts';
import { GROUP, NEVER, silent } from './fixtures.ts';
import { ALL_CLAIMS, createUniqueClaimsReconciler } from '../../../src/runtime/claims/unique-claims.ts';
import type { Reconcile } from '../../../src/runtime/controller.ts';

/** Maximum time that the API server works on a request; Gatehouse assumes the same limit. */
const REQUEST_MS = 60_000;
export const SETTLE_MS = 70_000;

interface Stored extends KubeObject {
  readonly metadata: NonNullable<KubeObject['metadata']>;
  readonly spec: { readonly serial?: string };
}

export type Wish =
  | { readonly kind: 'create' | 'update'; readonly name: string; readonly serial: string | undefined }
  | { readonly kind: 'delete'; readonly name: string };

/** Numbers between 0 and 1, reproducible by seed. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function createSimulation(policy: CompiledPolicy, random: () => number) {
  const objects = new Map<string, Stored>();
  const claims = new Map<string, UniqueClaim>();
  /** The content of a stale store. */
  let cached = new Map<string, Stored>();
  const gone = new Set<string>();
  let unseenDeletions: string[] = [];
  const queue = new Set<string>();
  let now = Date.parse('2026-11-21T12:00:00Z');
  let version = 0;
  let refusals = 0;
  const waiting: (() => void)[] = [];
  const next = () => String(++version);
  const chance = (share: number) => random() < share;

  const step = async (): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    waiting.push(() => {
      resolve(undefined);
    });
    await promise;
  };

  const refOf = (name: string): ObjectRef => ({
    group: GROUP,
    resource: 'servers',
    namespace: 'shop',
    name,
  });
  const claimsOf = (object: Stored) => summarise([policy], refOf(''), object).claims;

  const claimsDoor: Claims = {
    settleMs: SETTLE_MS,
    read: async (name) => {
      await step();
      return claims.get(name);
    },
    create: async (claim) => {
      await step();
      const { name = '' } = claim.metadata;
      if (claims.has(name)) return 'taken';
      return put({ ...claim, metadata: { ...claim.metadata, uid: next() } });
    },
    replace: async (claim) => {
      await step();
      const { name = '', resourceVersion } = claim.metadata;
      return claims.get(name)?.metadata.resourceVersion === resourceVersion ? put(claim) : 'changed';
    },
    remove: async (claim) => {
      await step();
      const { name = '', resourceVersion } = claim.metadata;
      if (claims.get(name)?.metadata.resourceVersion !== resourceVersion) return 'changed';
      claims.delete(name);
      return 'removed';
    },
  };
  const put = (claim: UniqueClaim): UniqueClaim => {
    const stored = { ...claim, metadata: { ...claim.metadata, resourceVersion: next() } };
    claims.set(claim.metadata.name ?? '', stored);
    return stored;
  };
  const holders = (claim: string) =>
    [...cached.values()]
      .filter((object) => claimsOf(object).includes(claim))
      .map(({ metadata }) => refOf(metadata.name ?? ''));
  const read = async ({ name, resource }: ObjectRef) => {
    await step();
    return resource === 'servers' ? objects.get(name) : undefined;
  };
  const world: World = {
    find: () => undefined,
    confirm: read,
    read,
    restoreEvidence: () => Promise.resolve(undefined),
    claims: claimsDoor,
    governed: { referrers: () => [], holders },
  };

  /** Processes one request as the API server does. */
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

  const admits = async (
    kind: 'create' | 'update',
    object: Stored,
    old: Stored | undefined,
  ): Promise<boolean> => {
    const skewMs = chance(0.5) ? 1_500 : -1_500;
    const asked = (async () =>
      await validate(requestOf(kind, object, old), [policy], {
        world,
        signal: NEVER,
        now: now + skewMs,
      }))();
    const crash = chance(0.1) ? crashed(1 + Math.floor(random() * 6)) : undefined;
    const decision = await Promise.race(crash === undefined ? [asked] : [asked, crash]);
    if (decision?.kind !== 'allow') refusals += 1;
    return decision?.kind === 'allow';
  };
  /** Crashes a replica: none of its later requests reach the API server. */
  const crashed = async (steps: number): Promise<undefined> => {
    for (let n = 0; n < steps; n++) await step();
    return undefined;
  };

  const store = (object: Stored): void => {
    const { name = '' } = object.metadata;
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

  /** Lets the watches catch up. */
  const catchUp = (): void => {
    cached = new Map(objects);
    for (const uid of unseenDeletions) gone.add(uid);
    unseenDeletions = [];
  };
  const reconcile: Reconcile = createUniqueClaimsReconciler({
    policies: () => [policy],
    client: {
      get: (() => Promise.resolve({ spec: policy.spec })) as KubeClient['get'], // the simulation has one policy
      pages: async function* () {
        await step();
        yield { metadata: {}, items: [...claims.values()] };
      } as KubeClient['pages'], // the code under test lists only UniqueClaims
    },
    claims: claimsDoor,
    governed: {
      holdersOf: holders,
      objects: () =>
        [...cached.values()].map((object) => ({
          ref: { group: GROUP, resource: 'servers', namespace: undefined, name: '' },
          object: { claims: claimsOf(object) },
        })),
      isComplete: () => true,
    },
    world,
    wasStored: (uid) => gone.has(uid),
    enqueue: (claim) => queue.add(claim),
    pace: () => Promise.resolve(),
    onHolders: () => undefined,
    now: () => new Date(now),
    random,
    log: silent,
  });

  /** Releases waiting steps in random order until all tasks have ended. Time moves in random increments. */
  const run = async (tasks: readonly Promise<unknown>[]): Promise<void> => {
    let failure: Error | undefined;
    let left = tasks.length;
    for (const task of tasks) {
      task
        .catch((error: unknown) => {
          failure ??= error instanceof Error ? error : new Error('it failed', { cause: error });
        })
        .finally(() => {
          left -= 1;
        });
    }
    while (left > 0 && failure === undefined) {
      await new Promise(setImmediate);
      if (chance(0.2)) catchUp();
      if (chance(0.25)) now += [10, 1_000, 20_000, 65_000][Math.floor(random() * 4)] ?? 0;
      waiting.splice(Math.floor(random() * waiting.length), 1)[0]?.();
    }
    if (failure !== undefined) throw failure;
  };

  /** Reconciles the next queued key. A key that fails goes to the end of the queue and is retried after all others. */
  const repairClaims = async (): Promise<void> => {
    const [claim = ALL_CLAIMS] = queue;
    queue.delete(claim);
    await reconcile(claim, NEVER).catch(() => queue.add(claim));
  };

  return {
    carryOut,
    repairClaims,
    run,
    /** Reaches a quiet state: watches are up to date, claims are repaired, and all waiting times are over. */
    settle: async (): Promise<void> => {
      for (let round = 0; round < 3; round++) {
        catchUp();
        now += SETTLE_MS + 5_000;
        queue.clear();
        await run([reconcile(ALL_CLAIMS, NEVER)]);
        while (queue.size > 0) await run([repairClaims()]);
      }
    },
    objects: (): ReadonlyMap<string, Stored> => objects,
    claims: (): readonly UniqueClaim[] => [...claims.values()],
    refusals: () => refusals,
  };
}

function requestOf(
  kind: 'create' | 'update',
  object: Stored,
  oldObject: Stored | undefined,
): AdmissionRequest {
  const gvk = { group: GROUP, version: 'v1', kind: 'Server' };
  const gvr = { group: GROUP, version: 'v1', resource: 'servers' };
  const asJson = (value: Stored | undefined) => {
    const unknown: unknown = value;
    return isJsonObject(unknown) ? unknown : undefined;
  };
  return {
    uid: 'u',
    kind: gvk,
    resource: gvr,
    subResource: '',
    requestKind: gvk,
    requestResource: gvr,
    name: object.metadata.name,
    namespace: 'shop',
    operation: kind === 'create' ? 'CREATE' : 'UPDATE',
    userInfo: { username: 'ada', uid: '', groups: [], extra: {} },
    object: asJson(object),
    oldObject: kind === 'create' ? undefined : asJson(oldObject),
    dryRun: false,
    options: undefined,
  };
}
