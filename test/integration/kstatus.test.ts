// suite: processes
/** Every state that Gatehouse writes into an object, judged by kstatus and by the health checks for Argo CD. */
import { beforeAll, describe, expect, test } from 'vitest';

import { CONVERSION_REASONS } from '../../src/admission/conversion/converter.ts';
import type { GrantState } from '../../src/admission/policy/exceptions/exceptions.ts';
import { REJECTION_REASONS } from '../../src/admission/policy/problem.ts';
import type { AdmissionPolicy } from '../../src/api/admission-policy.ts';
import { customResourceDefinitions } from '../../src/api/crds.ts';
import type { ConversionPolicy } from '../../src/api/conversion-policy.ts';
import type { PolicyException } from '../../src/api/policy-exception.ts';
import type { RestoreDetector } from '../../src/api/restore-detector.ts';
import type { RestoreWindow, RestoreWindowStatus } from '../../src/api/restore-window.ts';
import { desiredStatus, type Unready } from '../../src/controllers/status.ts';
import { valueIn } from '../../src/json/json.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import type { Reconcile } from '../../src/runtime/controller.ts';
import type { ConversionState } from '../../src/runtime/conversions/conversions-reconciler.ts';
import { createConversionStatusReconciler } from '../../src/runtime/conversions/start-conversions.ts';
import { createExceptionStatusReconciler } from '../../src/runtime/policies/policy-exceptions.ts';
import type { PolicyState } from '../../src/runtime/policies/policy-registry.ts';
import { createPolicyStatusReconciler } from '../../src/runtime/policies/policy-status.ts';
import {
  ADMISSION_POLICIES,
  CONVERSION_POLICIES,
  POLICY_EXCEPTIONS,
  RESTORE_DETECTORS,
  RESTORE_WINDOWS,
} from '../../src/runtime/resources.ts';
import {
  createRestoreDetectorsReconciler,
  type Followed,
} from '../../src/runtime/restores/restore-detectors.ts';
import { updateStatus } from '../../src/runtime/restores/window-status.ts';
import { argoHealth, healthChecks, kstatus, type KStatus } from '../support/argocd-health.ts';
import { policyOf } from '../support/admission/policy.ts';
import {
  compiled,
  createCluster,
  createEvents,
  NEVER,
  silent,
  type Cluster,
} from '../support/runtime/fixtures.ts';
import { condition } from '../support/objects.ts';

const NOW = new Date('2026-11-21T12:00:00Z');
const now = () => NOW;

interface State {
  readonly what: string;
  readonly expected: KStatus;
  readonly object: KubeObject;
}

type Named = readonly [what: string, expected: KStatus, object: Promise<KubeObject>];

const statesOf = (kind: string, all: readonly Named[]): Promise<readonly State[]> =>
  Promise.all(
    all.map(async ([what, expected, object]) => ({
      what: `${kind} ${what}`,
      expected,
      object: await object,
    })),
  );

async function after<T extends KubeObject>(
  { kind, ...resource }: Resource,
  object: T,
  reconcilerOf: (cluster: Cluster, get: () => T | undefined) => Reconcile,
): Promise<KubeObject> {
  const cluster = createCluster();
  const objects = cluster.objects<T>(resource);
  const { namespace, name = '' } = object.metadata ?? {};
  const key = namespace === undefined ? name : `${namespace}/${name}`;
  objects.add({ ...object, apiVersion: 'gatehouse.dev/v1alpha1', kind });
  await reconcilerOf(cluster, () => objects.read(key))(key, NEVER);
  const written = objects.read(key);
  if (written === undefined) throw new Error(`there is no ${key}`);
  return written;
}

const problemOf = (reason: string) => ({ reason, message: 'spec.match: x' });

const policyAfter = (
  state: Partial<PolicyState>,
  facts: { installed?: boolean; shortcoming?: string } = {},
) => {
  const { installed = true, shortcoming = '' } = facts;
  const { spec } = compiled();
  const known: PolicyState = { inForce: compiled(), problem: undefined, generation: 1, ...state };
  return after<AdmissionPolicy>(
    ADMISSION_POLICIES,
    { metadata: { name: 'servers', generation: 1 }, spec },
    ({ client }, get) =>
      createPolicyStatusReconciler(
        client,
        { get },
        { get: () => known, inForce: () => [] },
        { recordOf: () => undefined, verdict: () => (shortcoming === '' ? 'reviewed' : 'earlier') },
        {
          isInstalled: () => installed,
          refusal: () => undefined,
          violations: () => undefined,
          deletions: { progress: () => shortcoming, missing: () => shortcoming },
        },
        now,
      ),
  );
};

/** Problems that other objects end are `InProgress`: a tool that waits for the policy should wait on. */
const POLICY_PROBLEMS: Readonly<Record<string, KStatus>> = {
  ...Object.fromEntries(REJECTION_REASONS.map((reason) => [reason, 'Failed'])),
  UnknownTarget: 'InProgress',
  DiscoveryFailed: 'InProgress',
  Forbidden: 'InProgress',
  UnknownKind: 'InProgress',
  ReadsNotReviewed: 'Failed',
  WebhooksRefused: 'Failed',
};

async function policyStates(): Promise<readonly State[]> {
  const problems = Object.entries(POLICY_PROBLEMS).flatMap(([reason, expected]): Named[] => {
    const problem = problemOf(reason);
    return [
      [`with the problem ${reason}`, expected, policyAfter({ inForce: undefined, problem })],
      [`with the problem ${reason} and an older version in force`, expected, policyAfter({ problem })],
    ];
  });
  return await statesOf('an AdmissionPolicy', [
    ['in force', 'Current', policyAfter({})],
    ['in force, with every shortcoming', 'Current', policyAfter({ unserved: 'racks' }, { shortcoming: 'x' })],
    ['whose webhooks are not installed', 'InProgress', policyAfter({}, { installed: false })],
    ...problems,
  ]);
}

const CONVERSIONS: Readonly<Record<string, KStatus>> = {
  ...Object.fromEntries([...CONVERSION_REASONS, 'Conflict'].map((reason) => [reason, 'Failed'])),
  UnknownVersion: 'InProgress',
  MissingVersion: 'InProgress',
  UnknownTarget: 'InProgress',
};

async function conversionStates(): Promise<readonly State[]> {
  const target = { group: 'infra.example.com', resource: 'databases' };
  const policy: ConversionPolicy = {
    metadata: { name: 'databases', generation: 1 },
    spec: {
      target: { apiGroup: target.group, resource: target.resource },
      hub: 'v1',
      versions: [{ name: 'v2' }],
    },
  };
  const written = (problem: ConversionState['problem']) =>
    after(CONVERSION_POLICIES, policy, ({ client }, get) => {
      const state = { target, definition: undefined, inForce: undefined, problem, generation: 1 };
      const service = { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 };
      return createConversionStatusReconciler(client, { get }, { get: () => state }, service, now);
    });
  return await statesOf('a ConversionPolicy', [
    ['in force', 'Current', written(undefined)],
    ...Object.entries(CONVERSIONS).map(([reason, expected]): Named => [
      `with the problem ${reason}`,
      expected,
      written(problemOf(reason)),
    ]),
  ]);
}

type VoidReason = Extract<GrantState, { readonly kind: 'void' }>['reason'];
const EXCEPTIONS: Readonly<
  Record<VoidReason | 'InForce', readonly [KStatus, Partial<PolicyException['spec']>, accepts?: 'Refuse']>
> = {
  InForce: ['Current', {}],
  Expired: ['Failed', { expiresAt: NOW.toISOString() }],
  InvalidSpec: ['Failed', { expiresAt: 'tomorrow' }],
  NotAccepted: ['Failed', {}, 'Refuse'],
  UnknownCheck: ['Failed', { checks: ['nothing'] }],
  UnknownPolicy: ['InProgress', { policy: 'later' }],
};

const exceptionStates = (): Promise<readonly State[]> =>
  statesOf(
    'a PolicyException',
    Object.entries(EXCEPTIONS).map(([reason, [expected, change, accepts]]): Named => {
      const inForce = policyOf({ policyExceptions: accepts ?? 'Accept' });
      const state: PolicyState = { inForce, problem: undefined, generation: 1 };
      const get = (name: string) => (name === 'servers' ? state : undefined);
      const spec = {
        policy: 'servers',
        objects: { names: ['db'] },
        reason: 'old',
        expiresAt: '2027-12-01T00:00:00Z',
        ...change,
      };
      const object = after<PolicyException>(
        POLICY_EXCEPTIONS,
        { metadata: { namespace: 'shop', name: 'legacy', generation: 1 }, spec },
        ({ client }, read) =>
          createExceptionStatusReconciler(client, { get: read }, { get }, now, () => undefined),
      );
      return [`with the reason ${reason}`, expected, object];
    }),
  );

async function detectorStates(): Promise<readonly State[]> {
  const everybody = [{ group: 'system:authenticated' }];
  const following: Followed = { kind: 'following', objects: [], outside: [] };
  const written = (followed: Followed, change: Partial<RestoreDetector['spec']> = {}) => {
    const spec: RestoreDetector['spec'] = {
      watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
      namespaces: ['velero'],
      phasePath: 'status.phase',
      activeValues: ['InProgress'],
      principals: [{ group: 'system:serviceaccounts:velero' }],
      ...change,
    };
    return after<RestoreDetector>(
      RESTORE_DETECTORS,
      { metadata: { name: 'velero', generation: 1 }, spec },
      ({ client, objects }, get) =>
        createRestoreDetectorsReconciler(
          { client, serverClock: { now }, log: silent, record: createEvents().record },
          { get },
          objects<RestoreWindow>(RESTORE_WINDOWS),
          { follow: () => Promise.resolve(followed), unfollow: () => undefined },
        ),
    );
  };
  return await statesOf('a RestoreDetector', [
    ['that follows its kind', 'Current', written(following)],
    ['with a namespace left out', 'Current', written({ ...following, outside: ['velero'] })],
    ['whose kind is not served', 'Current', written({ kind: 'not-served' })],
    ['that trusts no namespace', 'Current', written(following, { namespaces: [] })],
    ['that lists its kind', 'InProgress', written({ kind: 'listing' })],
    ['that lacks permission to read its kind', 'InProgress', written({ kind: 'forbidden' })],
    ['with an invalid spec', 'Failed', written(following, { principals: everybody })],
  ]);
}

const PHASES: Readonly<Record<NonNullable<RestoreWindowStatus['phase']>, KStatus>> = {
  Open: 'Current',
  Settling: 'InProgress',
  Completed: 'Current',
  CompletedWithViolations: 'Failed',
  Refused: 'Failed',
};

function windowIn(phase: string): Promise<KubeObject> {
  const spec = { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T13:00:00Z' };
  return after<RestoreWindow>(
    RESTORE_WINDOWS,
    { metadata: { name: 'drill', generation: 1 }, spec },
    ({ client }, get) =>
      async (_name, signal) => {
        const window = get();
        const change = { phase: phase as keyof typeof PHASES }; // a key of the record
        if (window !== undefined) await updateStatus(window, change, [], { client, now }, signal);
        return { kind: 'await-change' };
      },
  );
}

const windowStates = (): Promise<readonly State[]> =>
  statesOf(
    'a RestoreWindow',
    Object.entries(PHASES).map(([phase, expected]) => [`in the phase ${phase}`, expected, windowIn(phase)]),
  );

function controllerStates(): readonly State[] {
  const said = { reason: 'Said', message: 'x' };
  const named = (status: 'True' | 'False', type = 'Ready') => ({ type, status, ...said });
  const unready = (why: Unready['why']) => ({ why, ...said });
  const all: readonly (readonly [string, KStatus, ReturnType<typeof named>[], Unready?])[] = [
    ['that is done', 'Current', []],
    ['whose author says that it is ready', 'Current', [named('True')]],
    ['whose author says that it is not ready', 'InProgress', [named('False')]],
    ['whose author says that a part is not ready', 'InProgress', [named('False', 'Disks')]],
    ['that waits', 'InProgress', [], unready('Reconciling')],
    ['that cannot continue', 'Failed', [], unready('Stalled')],
    [
      'that cannot continue, although its author says that it is ready',
      'Failed',
      [named('True')],
      unready('Stalled'),
    ],
  ];
  return all.map(([what, expected, conditions, reason]) => {
    const object = {
      apiVersion: 'infra.example.com/v1',
      kind: 'Machine',
      metadata: { name: 'web', generation: 3 },
    };
    const status = desiredStatus(object, { conditions, fields: {} }, reason, NOW);
    const state = { expected, object: { ...object, status } as KubeObject };
    return { what: `an object of a user's controller ${what}`, ...state };
  });
}

/** What every kind with a status goes through. The first is the default of the CRDs. */
const around = (inForce: KubeObject): readonly State[] => [
  {
    what: `a new ${inForce.kind}`,
    expected: 'InProgress',
    object: { ...inForce, status: { observedGeneration: -1 } } as KubeObject,
  },
  {
    what: `a ${inForce.kind} that was edited since`,
    expected: 'InProgress',
    object: { ...inForce, metadata: { ...inForce.metadata, generation: 2 } },
  },
  {
    what: `a ${inForce.kind} that is being deleted`,
    expected: 'Terminating',
    object: { ...inForce, metadata: { ...inForce.metadata, deletionTimestamp: NOW.toISOString() } },
  },
];

const written = [
  ...(await policyStates()),
  ...(await conversionStates()),
  ...(await exceptionStates()),
  ...(await detectorStates()),
  ...(await windowStates()),
  ...controllerStates(),
];
const firstOf = (kind: string) => written.filter(({ object }) => object.kind === kind).slice(0, 1);
const STATES: readonly State[] = [
  ...written,
  ...[...healthChecks().keys(), 'Machine'].flatMap(firstOf).flatMap(({ object }) => around(object)),
  // Kinds without a status.
  ...['RestoreReport', 'UniqueClaim'].map((kind) => ({
    what: `a ${kind}`,
    expected: 'Current' as const,
    object: { apiVersion: 'gatehouse.dev/v1alpha1', kind, metadata: { name: 'a', generation: 1 } },
  })),
];

/** Undefined: Argo CD shows deletions without a script. */
const HEALTH = { Current: 'Healthy', InProgress: 'Progressing', Failed: 'Degraded', Terminating: undefined };

describe('kstatus', () => {
  let judged: ReadonlyMap<State, KStatus | undefined>;
  beforeAll(async () => {
    const all = await kstatus(STATES.map(({ object }) => object));
    judged = new Map(STATES.map((state, index) => [state, all[index]]));
  });

  test.each(STATES)(
    'of $what is $expected, and Argo CD agrees, with the message of the condition Ready',
    async (state) => {
      const { object, expected } = state;
      expect(judged.get(state)).toBe(expected);
      const status = HEALTH[expected];
      if (status === undefined || !healthChecks().has(object.kind ?? '')) return;
      const isProcessed = valueIn(object, 'status', 'observedGeneration') === object.metadata?.generation;
      const message = isProcessed
        ? condition(object, 'Ready')?.message
        : 'Gatehouse has not processed this generation yet';
      expect(await argoHealth(object)).toEqual({ status, message });
    },
  );
});

test('each kind that has a status has a health check, and is judged in every state that all kinds go through', () => {
  const kinds = customResourceDefinitions().flatMap(({ manifest }) => {
    const text = JSON.stringify(manifest);
    return text.includes('"subresources"') ? [/"kind":"(\w+)","listKind"/.exec(text)?.[1]] : [];
  });
  expect([...healthChecks().keys()]).toEqual(kinds);
  const judged = new Set(STATES.map(({ object }) => object.kind));
  expect(kinds.filter((kind) => !judged.has(kind))).toEqual([]);
});
