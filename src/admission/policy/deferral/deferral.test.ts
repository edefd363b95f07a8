import { describe, expect, test, vi } from 'vitest';

import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { Decision } from '../../review/decision.ts';
import {
  clusterOf,
  createRequest,
  NIGHTLY,
  policyOf,
  restoringIn,
  updateRequest,
} from '../../../../test/support/admission/policy.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { validate } from '../validate.ts';
import type { RestoreEvidence, RequestWorld } from '../world.ts';

const CHECKS = {
  schema: { properties: { spec: { properties: { units: { maximum: 4 } } } } },
  immutable: ['spec.serial'],
  references: [
    { name: 'dc', path: 'spec.dc', target: { apiGroup: 'infra.example.com', resource: 'datacenters' } },
  ],
  rules: [
    { name: 'height', expression: 'object.spec.height < 10' },
    {
      name: 'author',
      expression: "object.spec.owner == request.userInfo.username || object.spec.owner == 'x'",
    },
  ],
} as const satisfies AdmissionPolicySpec['validate'];

const GOOD = { units: 1, height: 1, owner: 'x' };
const OLD = createRequest({ ...GOOD, units: 9 });
const TALL = createRequest({ ...GOOD, height: 99 });
const ORPHAN = createRequest({ ...GOOD, dc: 'gone' });
const CHANGED = updateRequest({ ...GOOD, serial: 'a' }, { ...GOOD, serial: 'b' });

/** @param evidence `none`: no user restores; `unknown`: the API server does not answer */
async function decide(
  request: AdmissionRequest,
  spec: Partial<AdmissionPolicySpec>,
  evidence: RestoreEvidence | 'unknown' | 'none' = NIGHTLY,
): Promise<Decision> {
  const cluster = clusterOf();
  const restoreEvidence = () =>
    evidence === 'unknown'
      ? Promise.reject(new Error('connection refused'))
      : Promise.resolve(evidence === 'none' ? undefined : evidence);
  return await validate(request, [policyOf({ validate: CHECKS, ...spec })], {
    ...cluster,
    world: { ...cluster.world, restoreEvidence },
  });
}

const kindOf = async (...asked: Parameters<typeof decide>) => (await decide(...asked)).kind;

describe('during a restore', () => {
  test.each<[string, AdmissionRequest, AdmissionPolicySpec['restore'], string]>([
    ['the schema', OLD, { schema: 'Defer' }, 'servers/schema=spec.units'],
    ['a rule about the object', TALL, { rules: 'Defer' }, 'servers/height='],
    ['a reference', ORPHAN, {}, 'servers/dc=datacenters.infra.example.com/gone'],
  ])('a policy can defer %s, and the audit log records it', async (_check, request, restore, auditRef) => {
    const policy = restore === undefined ? {} : { restore };
    expect(await decide(request, policy)).toMatchObject({
      kind: 'allow',
      warnings: [expect.stringContaining('checked again after the restore (RestoreWindow "nightly")')],
      auditAnnotations: { deferred: auditRef, 'restore-window': 'nightly' },
    });
    expect(await kindOf(request, policy, 'none')).toBe('deny');
    expect(await kindOf(request, policy, 'unknown')).toBe('retry');
    expect(await kindOf(request, policy, restoringIn({ operations: ['UPDATE'] }))).toBe('deny');
  });

  test.each<[string, AdmissionRequest, AdmissionPolicySpec['restore']]>([
    ['the schema', OLD, {}],
    ['rules', TALL, {}],
    ['immutable fields', CHANGED, {}],
    ['references of a policy with enforcement', ORPHAN, { references: 'Enforce' }],
    [
      'a rule about the request, which the sweep cannot check later',
      createRequest({ ...GOOD, owner: 'eve' }),
      { rules: 'Defer' },
    ],
  ])('the policy still enforces %s', async (_check, request, restore) => {
    expect(await kindOf(request, restore === undefined ? {} : { restore })).toBe('deny');
  });

  test('a check that the window enforces is enforced', async () => {
    expect(await kindOf(ORPHAN, {}, restoringIn({ enforced: ['references'] }))).toBe('deny');
  });

  test('each window counts that covers the operation and defers the check, whichever comes first', async () => {
    const updates = { window: 'updates', operations: ['UPDATE'] } as const;
    const strict = { window: 'strict', enforced: ['references'] } as const;
    const wide = { window: 'wide' };
    for (const windows of [
      [updates, strict, wide],
      [wide, strict, updates],
    ])
      expect(await decide(ORPHAN, {}, restoringIn(...windows))).toMatchObject({
        kind: 'allow',
        auditAnnotations: { 'restore-window': 'wide' },
      });
    expect(await kindOf(ORPHAN, {}, restoringIn(updates, strict))).toBe('deny');
    expect(await decide(TALL, { restore: { rules: 'Defer' } }, restoringIn(updates, strict))).toMatchObject({
      kind: 'allow',
      auditAnnotations: { 'restore-window': 'strict' },
    });
  });

  test('A8: immutable fields may change where the policy skips them, and no later check is announced', async () => {
    expect(await decide(CHANGED, { restore: { immutable: 'Skip' } })).toMatchObject({
      kind: 'allow',
      warnings: [expect.stringContaining('it cannot be checked later')],
      auditAnnotations: { skipped: 'servers/immutable=spec.serial', 'restore-window': 'nightly' },
    });
  });

  test('immutable fields cannot change in a window of a user who may open windows only in namespaces', async () => {
    const inNamespaces = restoringIn({ clusterWide: false });
    expect(await kindOf(CHANGED, { restore: { immutable: 'Skip' } }, inNamespaces)).toBe('deny');
    expect(await kindOf(ORPHAN, {}, inNamespaces)).toBe('allow');
  });

  test('a known window makes target lookups unnecessary: the sweep does them', async () => {
    const { world, ...rest } = clusterOf();
    const confirm = vi.fn(world.confirm);
    const judge = (knownRestore: RequestWorld['knownRestore']) =>
      validate(ORPHAN, [policyOf({ validate: CHECKS })], {
        ...rest,
        world: { ...world, confirm, knownRestore },
      });
    expect(await judge(() => undefined)).toMatchObject({ kind: 'deny' });
    expect(confirm).toHaveBeenCalledOnce();
    confirm.mockClear();
    expect(await judge(() => restoringIn({ enforced: ['references'] }))).toMatchObject({ kind: 'deny' });
    expect(confirm).toHaveBeenCalledOnce();
    confirm.mockClear();
    // Even if the window has closed by the time of a live read.
    expect(await judge(() => NIGHTLY)).toMatchObject({
      kind: 'allow',
      auditAnnotations: { 'restore-window': 'nightly' },
    });
    expect(confirm).not.toHaveBeenCalled();
  });

  test('a lookup that throws synchronously counts as failed', async () => {
    const { world, ...rest } = clusterOf();
    const restoreEvidence = () => {
      throw new TypeError('invalid window');
    };
    const context = { ...rest, world: { ...world, restoreEvidence } };
    const policy = policyOf({ validate: CHECKS, restore: { rules: 'Defer' } });
    expect(await validate(TALL, [policy], context)).toMatchObject({
      kind: 'retry',
      message: expect.stringContaining('could not find out whether a backup is being restored') as string,
    });
  });
});

/** Its target does not exist. */
const AWAITING = {
  validate: {
    references: CHECKS.references,
    rules: [{ name: 'room', expression: 'object.spec.units <= refs.dc.spec.units' }],
  },
} satisfies Partial<AdmissionPolicySpec>;
const HALF = { dc: 'gone', units: 1 };
const GROWN = updateRequest(HALF, { ...HALF, units: 2 });

describe('a rule that depends on a missing target', () => {
  test.each([
    ['a later write of the restorer', GROWN],
    ['its write of the status', { ...GROWN, subResource: 'status' }],
  ])('is deferred with the reference, for %s too', async (_what, request) => {
    expect(await decide(request, AWAITING)).toMatchObject({
      kind: 'allow',
      auditAnnotations: { deferred: 'servers/room=', 'restore-window': 'nightly' },
    });
    expect(await kindOf(request, AWAITING, 'none')).toBe('deny');
    expect(await kindOf(request, AWAITING, 'unknown')).toBe('retry');
    expect(await kindOf(request, AWAITING, restoringIn({ enforced: ['references'] }))).toBe('deny');
    const strict = { ...AWAITING, restore: { references: 'Enforce' } } as const;
    expect(await kindOf(request, strict)).toBe('deny');
  });

  test('is deferred for users whose references always are, and reported after the grace period', async () => {
    const standing = { ...AWAITING, initiallyDeferred: { principals: [{ group: 'authors' }], grace: '2m' } };
    expect(await decide(GROWN, standing, 'none')).toMatchObject({
      kind: 'allow',
      warnings: [expect.stringContaining('120 s after the object was created')],
    });
  });
});

describe('references that may always be deferred', () => {
  const standing = { initiallyDeferred: { principals: [{ group: 'authors' }], grace: '2m' } };

  test('allow a missing target and report the deadline', async () => {
    expect(await decide(ORPHAN, standing, 'none')).toMatchObject({
      kind: 'allow',
      warnings: [
        expect.stringContaining('reported if it still does not exist 120 s after the object was created'),
      ],
      auditAnnotations: { deferred: 'servers/dc=datacenters.infra.example.com/gone' },
    });
  });

  test('apply to no other user and no other check', async () => {
    const other = { initiallyDeferred: { principals: [{ user: 'flux' }] } };
    expect(await kindOf(ORPHAN, other, 'none')).toBe('deny');
    expect(await kindOf(OLD, standing, 'none')).toBe('deny');
  });
});
