import { beforeEach, describe, expect, test } from 'vitest';

import { createConfirmer, PENDING, type Subject } from './confirm.ts';
import type { Confirmation } from '../../admission/native/release.ts';
import {
  ApiError,
  compiled,
  createCluster,
  GROUP,
  OWN_NAMESPACE,
  silent,
} from '../../../test/support/runtime/fixtures.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { listIn, textIn } from '../../json/json.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { KubeClient, WriteOptions } from '../../kube/client.ts';
import type { Resource } from '../../kube/object.ts';
import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '../../kube/well-known.ts';
import { createNativePoliciesReconciler, createTakeover, type Enforcement } from './native-policies.ts';

const PAIR = { name: 'a.policies.gatehouse.dev', digest: 'd1', policy: 'p/1', binding: 'b/1' };
const checked = { observedGeneration: 1, typeChecking: {} };
const LIVE = { metadata: { generation: 1 }, status: checked };
const SUBJECT: Subject = { pair: PAIR, policy: LIVE, objectSelector: {}, answers: true };
const { signal } = new AbortController();

let time: number;
let answer: 'refused' | 'admitted' | 'down';
let probes: WriteOptions[];
/** How many probes reach another API server, which has not read the policy. */
let elsewhere: number;

beforeEach(() => {
  time = 0;
  answer = 'refused';
  probes = [];
  elsewhere = 0;
});

const refusal = (digest: string) => new ApiError(403, `refused as a probe of the compiled policy ${digest}`);
const monotonic = () => time;
const now = () => new Date(time);
const create = async <T>(_kind: unknown, object: T, options: WriteOptions = {}) => {
  probes.push(options);
  if (elsewhere > 0) {
    elsewhere -= 1;
    return object;
  }
  if (answer === 'down') throw new ApiError(503, 'away');
  if (answer === 'refused') throw refusal('d1');
  return await Promise.resolve(object);
};
const start = () => createConfirmer({ client: { create }, now, monotonic });

async function ask(confirmer: ReturnType<typeof start>, subject = SUBJECT, known?: Subject['pair']) {
  const obstacle = await confirmer.obstacle(subject, known, signal);
  time += 1_500;
  return obstacle;
}
async function askThreeTimes(confirmer: ReturnType<typeof start>, subject = SUBJECT) {
  return [await ask(confirmer, subject), await ask(confirmer, subject), await ask(confirmer, subject)];
}
const CONFIRMED = [PENDING, PENDING, undefined];

test('refused dry runs over three seconds, each on its own connection, confirm a policy; it is probed again after a minute', async () => {
  const confirmer = start();
  expect(await askThreeTimes(confirmer)).toEqual(CONFIRMED);
  expect(await ask(confirmer)).toBeUndefined();
  expect(probes).toEqual(Array(18).fill({ dryRun: true, isLastOnConnection: true, signal }));
  time += 60_000;
  answer = 'down';
  expect([await ask(confirmer), await ask(confirmer)]).toEqual([undefined, undefined]); // nothing new is known
  expect(probes).toHaveLength(24);
  time += 60_000;
  answer = 'admitted';
  expect(await ask(confirmer)).toContain('admits a probe');
});

test('an admitted probe starts again, because another API server has possibly not read the policy yet', async () => {
  const confirmer = start();
  await ask(confirmer);
  await ask(confirmer);
  elsewhere = 1;
  expect(await ask(confirmer)).toBe(PENDING);
  expect(await askThreeTimes(confirmer)).toEqual(CONFIRMED);
  time += 60_000;
  elsewhere = 1;
  expect(await ask(confirmer)).toContain('admits a probe');
});

test.each([
  ['does not answer', 'down'],
  ['admits them', 'admitted'],
] as const)('after half a minute, the reason says that an API server %s', async (reason, what) => {
  const confirmer = start();
  answer = what;
  expect(await ask(confirmer)).toBe(PENDING);
  time += 30_000;
  expect(await ask(confirmer)).toContain(reason.replace('them', 'a probe'));
});

test('a new leader keeps a confirmation that its first probe agrees with', async () => {
  expect(await ask(start(), SUBJECT, PAIR)).toBeUndefined();
  answer = 'admitted';
  expect(await ask(start(), SUBJECT, PAIR)).toBe(PENDING);
});

test('types come first, and an objectSelector that no labels satisfy leaves the check in the webhook', async () => {
  const unchecked = { ...SUBJECT, policy: { ...SUBJECT.policy, metadata: { generation: 2 } } };
  expect(await ask(start(), unchecked)).toContain('has not checked its types');
  const operators = ['Exists', 'DoesNotExist'] as const;
  const matchExpressions = operators.map((operator) => ({ key: 'a', operator }));
  const subject = { ...SUBJECT, objectSelector: { matchExpressions } };
  expect(await ask(start(), subject)).toContain('no probe can satisfy');
  expect(probes).toEqual([]);
});

const CONFIRMATION: Confirmation = { generation: 1, pairs: [PAIR] };
const object = (uid: string, generation = 1) => ({ metadata: { uid, generation } });
const STORED = { policy: object('p'), binding: object('b') };

let confirmed: Confirmation | undefined;
let isInstalled: boolean;
const policy = compiled({}, { name: 'a', generation: 1 });

beforeEach(() => {
  confirmed = CONFIRMATION;
  isInstalled = true;
});

const releaseOf = () => undefined;
const takeOver = () =>
  createTakeover({ confirmed: () => confirmed, releaseOf, isInstalled: () => isInstalled, monotonic });
type Takeover = ReturnType<typeof takeOver>;

function after(takeover: Takeover, ms: number): Takeover {
  takeover.observe([policy]);
  time += ms;
  takeover.observe([policy]);
  return takeover;
}

test('a confirmed pair changes only after the confirmation is withdrawn and replicas had time to read that', () => {
  const takeover = after(takeOver(), 60_000);
  expect(takeover.mayChange(policy, PAIR.name, STORED)).toBe(false);
  confirmed = undefined;
  expect(after(takeover, 4_000).mayChange(policy, PAIR.name, STORED)).toBe(false);
  expect(after(takeover, 1_000).mayChange(policy, PAIR.name, STORED)).toBe(true);
});

test('a new leader waits for the webhook entry that another one narrowed, however long that takes', () => {
  confirmed = undefined;
  isInstalled = false;
  const takeover = after(takeOver(), 60_000);
  expect(takeover.mayChange(policy, PAIR.name, STORED)).toBe(false);
  isInstalled = true;
  expect(after(takeover, 4_000).mayChange(policy, PAIR.name, STORED)).toBe(false);
  expect(after(takeover, 1_000).mayChange(policy, PAIR.name, STORED)).toBe(true);
});

test.each([
  ['deleted', { ...STORED, policy: undefined }],
  ['without its binding', { ...STORED, binding: undefined }],
  ['edited', { ...STORED, policy: object('p', 2) }],
  ['replaced', { ...STORED, binding: object('other') }],
])('a confirmed pair that others have changed is repaired immediately: %s', (_how, stored) => {
  expect(after(takeOver(), 0).mayChange(policy, PAIR.name, stored)).toBe(true);
});

describe('the policy of the API server', () => {
  const KINDS = [validatingAdmissionPolicies, validatingAdmissionPolicyBindings];
  const rules = [{ name: 'few', expression: 'object.spec.units < 5' }];
  const ruled = compiled({ validate: { rules } }, { name: 'a', generation: 1 });
  let served: readonly Resource[];
  let aggregated: readonly string[] | 'forbidden';
  let listings: number;
  let inForce: readonly CompiledPolicy[];
  let reported: Enforcement;
  let status: AdmissionPolicyStatus;
  /** The expressions of each written policy, and whether it was confirmed before. */
  let written: [string, boolean][];
  let stored: () => Promise<readonly KubeObject[]>;
  let startLeader: () => void;
  let reconcile: () => Promise<unknown>;
  const nothing = () => Promise.resolve(undefined);
  beforeEach(() => {
    served = KINDS;
    aggregated = [];
    listings = 0;
    inForce = [ruled];
    status = {};
    written = [];
    const { client } = createCluster();
    const create = ((kind: Resource, claim: UniqueClaim) => {
      if (kind.resource !== 'uniqueclaims') return client.create(kind, checkTypes(claim));
      const digest = claim.metadata.name?.replace('probe-', '') ?? '';
      return Promise.reject(refusal(digest));
    }) as KubeClient['create']; // only these kinds are created
    const listAll = (async (kind: Resource) => {
      if (kind.resource !== 'apiservices') return await client.listAll(kind);
      listings += 1;
      if (aggregated === 'forbidden') throw new ApiError(403, 'cannot list resource "apiservices"');
      const items = aggregated.map((group) => ({ spec: { group, service: { name: 'api' } } }));
      return { metadata: {}, items: [{ spec: { group: GROUP } }, ...items] };
    }) as KubeClient['listAll']; // only these kinds are listed
    const replace: KubeClient['replace'] = (kind, object) => client.replace(kind, checkTypes(object));
    stored = async () => (await client.listAll<KubeObject>(validatingAdmissionPolicies)).items;
    startLeader = () => {
      const one = createNativePoliciesReconciler({
        client: { ...client, create, replace, listAll },
        discovery: { servedIn: () => Promise.resolve(served) },
        installation: { owner: nothing, obstacle: nothing, isChanging: () => false },
        policies: { get: () => ({ metadata: { name: 'a', uid: 'u' }, spec: ruled.spec, status }) },
        detectors: { list: () => [] },
        inForce: () => inForce,
        isInstalled: () => true,
        releaseOf,
        ownNamespace: OWN_NAMESPACE,
        report: (_name, enforcement) => (reported = enforcement),
        now,
        monotonic,
        log: silent,
      });
      reconcile = async () => {
        await one('all', signal);
        time += 1_500;
      };
    };
    startLeader();
  });
  /** Of the API server and kube-controller-manager, which here warns about strings. */
  function checkTypes<T extends KubeObject>(object: T): T {
    const generation = (object.metadata?.generation ?? 0) + 1;
    const expressions = listIn(object, 'spec', 'validations').map((one) => textIn(one, 'expression'));
    if (expressions.length > 0) written.push([expressions.slice(1).join(), status.confirmed !== undefined]);
    const found = expressions.findIndex((text) => text.includes('"'));
    const warning = { fieldRef: `spec.validations[${found}].expression`, warning: 'no overload' };
    const typeChecking = { expressionWarnings: found === -1 ? [] : [warning] };
    const metadata = { ...object.metadata, generation };
    return { ...object, metadata, status: { observedGeneration: generation, typeChecking } };
  }
  const enforcers = () => reported.enforcedBy.map(({ by, reason }) => reason ?? by);
  const confirmedAfter = async () => {
    for (let passes = 1; ; passes += 1) {
      await reconcile();
      if (enforcers()[0] === 'APIServer') return passes;
      expect([enforcers()[0], passes < 9]).toEqual([PENDING, true]);
    }
  };

  const typed = { name: 'typed', expression: 'object.spec.name != "a"' };
  const WARNED = 'the API server warns about its expression: no overload';
  const settle = async (generation: number, given: typeof rules) => {
    inForce = [compiled({ validate: { rules: given } }, { name: 'a', generation })];
    for (let passes = 0; passes < 15; passes += 1) {
      await reconcile();
      const { enforcedBy, confirmed: pairs } = reported;
      status = { enforcedBy, ...(pairs && { confirmed: pairs }) };
    }
  };

  test('loses only the check with a warning, also for the next leader, until the AdmissionPolicy changes', async () => {
    const texts: typeof written = [[typed, ...rules], rules].map((all) => [
      all.map(({ expression }) => expression).join(),
      false,
    ]);
    for (const [generation, wanted] of [
      [1, texts],
      [1, texts],
      [2, [...texts, ...texts]],
    ] as const) {
      startLeader();
      await settle(generation, [typed, ...rules]);
      expect(enforcers()).toEqual([WARNED, 'APIServer']);
      expect(status.confirmed?.generation).toBe(generation);
      expect(written).toEqual(wanted);
    }
  });

  test('is gone once it has lost all checks', async () => {
    await settle(1, [typed]);
    expect(enforcers()).toEqual([WARNED]);
    expect([written.length, (await stored()).length]).toEqual([1, 0]);
  });

  test.each<[string, typeof aggregated, string]>([
    ['its kind is of an aggregated API', [GROUP], `an aggregated API server serves ${GROUP}`],
    ['it is unknown which APIs are aggregated', 'forbidden', 'cannot list resource "apiservices"'],
    ['another API is aggregated', ['metrics.k8s.io', 'example.com'], PENDING],
  ])(
    'is left to the API server only if no other server serves its kind: %s',
    async (_when, groups, reason) => {
      aggregated = groups;
      await reconcile();
      expect(enforcers()[0]).toContain(reason);
    },
  );

  test('is gone ten seconds after its API becomes an aggregated one, although not every pass lists APIServices', async () => {
    for (const passes of [1, 2, 3, 4, 5, 6, 7]) {
      await reconcile();
      expect([passes, listings]).toEqual([passes, 1]);
    }
    expect(enforcers()).toEqual(['APIServer']);
    aggregated = [GROUP];
    await reconcile();
    expect([enforcers()[0], listings]).toEqual([
      expect.stringContaining('an aggregated API server serves'),
      2,
    ]);
  });

  test('is not released while APIServices cannot be listed, and a failed listing is not remembered', async () => {
    aggregated = 'forbidden';
    await reconcile();
    await reconcile();
    expect(listings).toBe(2);
    aggregated = [];
    await reconcile();
    expect(enforcers()).toEqual([PENDING]);
  });

  test.each<[string, () => void]>([
    ['its kinds were not served for a while', () => (served = [])],
    ['it was removed for a while', () => (inForce = [])],
  ])('is confirmed anew after %s', async (_what, end) => {
    expect(await confirmedAfter()).toBe(3);
    end();
    await reconcile();
    [served, inForce] = [KINDS, [ruled]];
    expect(await confirmedAfter()).toBe(3);
  });
});
