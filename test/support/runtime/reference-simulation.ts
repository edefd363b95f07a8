/**
 * An API server and Gatehouse in memory, for `guarantee: Serializable`. A scheduler releases the calls of requests
 * in any order. The stores know nothing. A write conflicts if the object has changed since admission saw it.
 */
import { checkTargetDeletion } from '../../../src/admission/policy/references/check-target-deletion.ts';
import { validate } from '../../../src/admission/policy/validate.ts';
import type { Claims, Holding, Intents, RequestWorld } from '../../../src/admission/policy/world.ts';
import type { AdmissionRequest } from '../../../src/admission/review/request.ts';
import type { UniqueClaim } from '../../../src/api/unique-claim.ts';
import { isJsonObject } from '../../../src/json/json.ts';
import type { KubeObject, ObjectRef } from '../../../src/json/kube-object.ts';
import { createHeldIntents, HOLD_MS } from '../../../src/runtime/claims/held-intents.ts';
import { finishIntent, isOver } from '../../../src/runtime/claims/claims.ts';
import { createUnsettledClaims } from '../../../src/runtime/claims/unsettled-claims.ts';
import { claimsOf, SETTLE_MS } from '../admission/claims.ts';
import { createRequest, emptyWorld, GROUP, policyOf } from '../admission/policy.ts';
import { NEVER } from './fixtures.ts';

const REQUEST_MS = 60_000;

export const POLICY = policyOf({
  validate: {
    references: [
      {
        name: 'datacenter',
        path: 'spec.datacenter',
        target: { apiGroup: GROUP, resource: 'datacenters' },
        onTargetDelete: 'Restrict',
        guarantee: 'Serializable',
      },
    ],
  },
});

interface Stored extends KubeObject {
  readonly metadata: NonNullable<KubeObject['metadata']>;
  readonly spec?: { readonly datacenter: string };
}

export type Wish =
  | { readonly kind: 'name'; readonly server: string; readonly datacenter: string }
  | { readonly kind: 'delete-datacenter' | 'create-datacenter' | 'delete-server'; readonly name: string };

export type Outcome = 'stored' | 'refused' | 'retry' | 'gone' | 'crashed';

/** A defect of a copy of Gatehouse, to show that the model finds it. */
export type Defect =
  | `ignores ${'deletions' | 'the target' | 'writes' | 'expiry'}`
  | ('lists nothing live' | 'admits after release' | 'removes too early');

export const EXPIRED_MS = SETTLE_MS + HOLD_MS + 5_000;

export interface Scheduler {
  readonly step: (isPause?: boolean) => Promise<void>;
}

/** @param replicas how many replicas hold intents; 0: each write has a separate intent */
export function createReferenceSimulation({ step }: Scheduler, defect?: Defect, replicas = 0) {
  const objects = new Map<string, Stored>();
  const claims = new Map<string, UniqueClaim>();
  let version = 0;
  let now = Date.parse('2026-11-27T00:00:00Z');
  const next = () => String(++version);
  const ignore = () => undefined;
  const ledger = createUnsettledClaims(SETTLE_MS, () => now, ignore);

  const put = (key: string, object: Omit<Stored, 'metadata'>, metadata: Stored['metadata']): void => {
    objects.set(key, { ...object, metadata: { ...metadata, resourceVersion: next() } });
    check();
  };
  const check = (): void => {
    for (const { metadata, spec } of objects.values())
      if (spec !== undefined && !objects.has(`datacenters/${spec.datacenter}`))
        throw new Error(`Server ${metadata.name ?? ''} names Datacenter ${spec.datacenter}, which is gone`);
  };

  const worldThrough = (send: (isPause?: boolean) => Promise<void>, hold?: Intents['hold']): RequestWorld => {
    const live = async ({ resource, name }: ObjectRef) => {
      await send();
      return objects.get(`${resource}/${name}`);
    };
    return {
      ...emptyWorld(),
      find: () => ({}),
      confirm: (ref) =>
        defect === 'ignores the target' && ref.resource === 'datacenters' ? Promise.resolve({}) : live(ref),
      read: live,
      claims: claimsThrough(send),
      intents: {
        list: async (label) => {
          if (defect === 'ignores writes') return [];
          await send();
          return [...claims.values()].filter(({ metadata }) => metadata.labels?.[label] !== undefined);
        },
        unseen: async () => {
          if (defect === 'lists nothing live') return [];
          await send();
          return [...objects.values()].flatMap(({ spec, metadata }) =>
            spec === undefined ? [] : [refOf('servers', metadata.name ?? '')],
          );
        },
        pause: () => send(true),
        ...(hold === undefined ? {} : { hold }),
      },
    };
  };
  const claimsThrough = (send: () => Promise<void>): Claims => {
    const store = claimsOf(claims, () => send(), next);
    return {
      ...store,
      reserve: ledger.reserve,
      hasNamespace: () => Promise.resolve(true),
      read: async (name, signal) =>
        defect === 'ignores deletions' && name.startsWith('deletion.')
          ? undefined
          : await store.read(name, signal),
    };
  };

  const holders = Array.from({ length: replicas }, (_, index) => {
    const start = now;
    const isFrozen = defect === 'ignores expiry';
    const crash = Promise.withResolvers<Outcome>();
    let isDead = false;
    const send = async (isPause?: boolean): Promise<void> => {
      if (isDead) await new Promise(() => undefined);
      await step(isPause);
    };
    const store = claimsThrough(send);
    const held = createHeldIntents({
      claims: store,
      cleanup: store,
      identity: String(index),
      now: () => (isFrozen ? start : now),
      monotonic: () => (isFrozen ? start : now),
      seesDeletions: () => true,
      timeout: () => NEVER,
      signal: NEVER,
    });
    const kill = () => {
      isDead = true;
      crash.resolve('crashed');
    };
    return { held, writes: new Set<string>(), send, crashed: crash.promise, kill };
  });
  type Replica = (typeof holders)[number];
  const releasing = new Map<string, Holding>();
  const holdAt =
    ({ held, writes }: Replica): Intents['hold'] =>
    (targets) => {
      const [target] = targets;
      const earlier = target && releasing.get(target.target.name);
      if (defect === 'admits after release' && earlier !== undefined)
        return { ...earlier, stored: () => Promise.resolve(), report: () => undefined };
      const holding = held.hold(targets);
      if (holding === undefined || target === undefined) return undefined;
      writes.add(holding.name);
      return {
        ...holding,
        end: (admitted) => {
          holding.end(admitted);
          if (admitted !== undefined) releasing.set(target.target.name, holding);
          if (defect === 'removes too early') held.finish(holding.name);
        },
      };
    };

  /** One webhook call. @param crashAt the call to the API server at which the replica dies; 0: never */
  const ask = async (request: AdmissionRequest, crashAt: number, replica?: Replica): Promise<Outcome> => {
    const crash = Promise.withResolvers<Outcome>();
    let calls = 0;
    const send = async (isPause?: boolean): Promise<void> => {
      calls += 1;
      if (calls >= crashAt && crashAt > 0) {
        replica?.kill();
        crash.resolve('crashed');
        await new Promise(() => undefined);
      }
      await (replica?.send ?? step)(isPause);
    };
    const world = worldThrough(send, replica && holdAt(replica));
    const context = { world, signal: NEVER, now };
    const decide = async (): Promise<Outcome> => {
      const decision =
        request.operation === 'DELETE'
          ? await checkTargetDeletion(request, [POLICY], context)
          : await validate(request, [POLICY], context);
      if (decision.kind === 'allow') return 'stored';
      return decision.kind === 'deny' && decision.code === 403 ? 'refused' : 'retry';
    };
    return await Promise.race([decide(), crash.promise, ...(replica === undefined ? [] : [replica.crashed])]);
  };

  const carryOut = async (wish: Wish, crashAt = 0, replica = 0): Promise<Outcome> => {
    const deadline = now + REQUEST_MS;
    for (;;) {
      await step();
      const key = keyOf(wish);
      const before = objects.get(key);
      if (wish.kind.startsWith('delete') && before === undefined) return 'gone';
      if (wish.kind === 'create-datacenter' && before !== undefined) return 'gone';
      const after = wish.kind === 'name' ? { spec: { datacenter: wish.datacenter } } : {};
      const metadata = before?.metadata ?? { ...metadataOf(key), uid: next() };
      if (wish.kind === 'name' || wish.kind === 'delete-datacenter') {
        const request = requestOf(wish, next(), { ...after, metadata }, before);
        const outcome = await ask(request, crashAt, holders[replica]);
        if (outcome !== 'stored') return outcome;
        await step();
      }
      if (now > deadline) return 'gone';
      const current = objects.get(key);
      if (before === undefined && current !== undefined) return 'gone';
      if (current?.metadata.resourceVersion !== before?.metadata.resourceVersion) continue;
      if (wish.kind.startsWith('delete')) {
        objects.delete(key);
        check();
      } else put(key, after, metadata);
      return 'stored';
    }
  };

  return {
    carryOut,
    cleanUp: async (): Promise<void> => {
      for (const name of claims.keys())
        await finishIntent(name, claimsThrough(step), worldThrough(step), now, NEVER);
    },
    /** Finishes the writes that are over, and removes the intents that a replica holds, as if deletions waited. */
    release: async (index: number): Promise<void> => {
      const replica = holders[index];
      if (replica === undefined) return;
      const { held, writes, send } = replica;
      const finish = async () => {
        await send();
        // Immediately: a write that is over remains over, so what it read does not become wrong.
        const atOnce = worldThrough(() => Promise.resolve());
        const known = { ...atOnce, settleMs: SETTLE_MS, wasStored: () => false };
        for (const name of writes) {
          const write = held.writeOf(name);
          if (write !== undefined && (await isOver(write, known, now, NEVER))) held.finish(name);
        }
        held.releaseAll();
      };
      await Promise.race([finish(), replica.crashed]);
    },
    pass: (ms: number) => (now += ms),
    has: (key: string): boolean => objects.has(key),
    isNamed: (datacenter: string): boolean =>
      [...objects.values()].some(({ spec }) => spec?.datacenter === datacenter),
    intents: (): number => claims.size,
  };
}

const keyOf = (wish: Wish): string => {
  if (wish.kind === 'name') return `servers/${wish.server}`;
  return wish.kind === 'delete-server' ? `servers/${wish.name}` : `datacenters/${wish.name}`;
};

const metadataOf = (key: string) => {
  const [resource, name = ''] = key.split('/');
  return resource === 'servers' ? { namespace: 'store', name } : { name };
};

const refOf = (resource: string, name: string): ObjectRef => ({
  group: GROUP,
  resource,
  name,
  namespace: resource === 'servers' ? 'store' : undefined,
});

function requestOf(wish: Wish, uid: string, after: Stored, before: Stored | undefined): AdmissionRequest {
  const asJson = (value: unknown) => (isJsonObject(value) ? value : undefined);
  const common = { ...createRequest({}), uid, oldObject: asJson(before) };
  const { name } = after.metadata;
  if (wish.kind === 'name')
    return { ...common, name, operation: before === undefined ? 'CREATE' : 'UPDATE', object: asJson(after) };
  const resource = { group: GROUP, version: 'v1', resource: 'datacenters' };
  return { ...common, name, namespace: undefined, resource, operation: 'DELETE', object: undefined };
}
