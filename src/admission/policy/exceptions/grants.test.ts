import { describe, expect, test, vi } from 'vitest';

import { compileSpec, createRequest, GROUP } from '../../../../test/support/admission/policy.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { PolicyException, PolicyExceptionSpec } from '../../../api/policy-exception.ts';
import type { Decision } from '../../review/decision.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import type { CompiledPolicy, Grants } from '../compiled-policy.ts';
import type { RequestWorld } from '../world.ts';
import { confirmingExceptions, exemptionOf, exemptionOfStored, grantsIn, grantState } from './exceptions.ts';

const EXPIRY = Date.parse('2026-12-01T00:00:00Z');
const BEFORE = EXPIRY - 1;

const exception = (change: Partial<PolicyExceptionSpec> = {}, namespace = 'shop'): PolicyException => ({
  metadata: { namespace, name: 'legacy', generation: 1 },
  spec: {
    policy: 'servers',
    objects: { names: ['db-*'] },
    reason: 'moves in May',
    expiresAt: '2026-12-01T00:00:00Z',
    ...change,
  },
});

const RULES = {
  rules: [
    { name: 'small', expression: 'object.spec.units < 3' },
    { name: 'named', expression: 'true' },
  ],
};

function policyWith(grants: Grants, change: Partial<AdmissionPolicySpec> = {}): CompiledPolicy {
  const result = compileSpec({ validate: RULES, policyExceptions: 'Accept', ...change }, 'servers', {
    grants,
  });
  if (result.kind === 'rejected') throw new Error(JSON.stringify(result.problems));
  return result.policy;
}

const request = (change: Partial<AdmissionRequest> = {}): AdmissionRequest => ({
  ...createRequest({ units: 9 }),
  namespace: 'shop',
  name: 'db-1',
  ...change,
});

const namesFor = (
  given: PolicyException,
  change: Partial<AdmissionRequest> = {},
  spec: Partial<AdmissionPolicySpec> = {},
  now = BEFORE,
) => exemptionOf(policyWith(grantsIn([given]), spec), request(change), { now }).names;

test('an exception exempts the objects that it names from the checks that it names', () => {
  const grants = grantsIn([exception({ checks: ['small'] })]);
  const { covers, names } = exemptionOf(policyWith(grants), request(), { now: BEFORE });
  expect(names).toEqual(['shop/legacy']);
  expect(['small', 'named'].map((rule) => covers('rules', rule))).toEqual([true, false]);
});

const ofKind = (apiGroup: string, resource: string) =>
  exception({ objects: { resources: [{ apiGroup, resource }] } });

test('an exception exempts the kinds that it names', () => {
  expect(namesFor(ofKind(GROUP, 'servers'))).toEqual(['shop/legacy']);
});

test.each<[string, PolicyException, Partial<AdmissionRequest>]>([
  ['an object of another namespace', exception(), { namespace: 'other' }],
  ['an object with another name', exception(), { name: 'web' }],
  ['another kind', ofKind(GROUP, 'racks'), {}],
  ['a kind with the same name in another group', ofKind('other.example.com', 'servers'), {}],
  ['a user that is not named', exception({ users: ['eve'] }), {}],
  ['a cluster-scoped object', exception({ objects: { names: ['*'] } }), { namespace: undefined }],
  [
    'a Namespace, whose requests carry its name as their namespace',
    exception({ objects: { names: ['*'] } }),
    { name: 'shop', resource: { group: '', version: 'v1', resource: 'namespaces' } },
  ],
  [
    'an invalid selector, which must not select all',
    exception({ objects: { objectSelector: { matchExpressions: [{ key: '?', operator: 'Exists' }] } } }),
    {},
  ],
  ['an invalid time, which must not mean never', exception({ expiresAt: 'soon' }), {}],
])('exempts nothing: %s', (_what, given, change) => {
  expect(namesFor(exception())).toEqual(['shop/legacy']);
  expect(namesFor(given, change)).toEqual([]);
});

test('a policy accepts exceptions only if its author allows them', () => {
  expect(namesFor(exception(), {}, { policyExceptions: 'Refuse' })).toEqual([]);
  const result = compileSpec({ validate: RULES }, 'servers', { grants: grantsIn([exception()]) });
  expect(result.kind === 'compiled' && result.policy.grants).toBeUndefined();
});

test('an exception is void from the millisecond of its expiry', () => {
  expect(namesFor(exception(), {}, {}, EXPIRY - 1)).toEqual(['shop/legacy']);
  expect(namesFor(exception(), {}, {}, EXPIRY)).toEqual([]);
});

test('audits and sweeps count an exception, but not one for some users', () => {
  const stored = { metadata: { namespace: 'shop', name: 'db-1' } };
  const kind = request().resource;
  const namesOf = (given: PolicyException, now = BEFORE) =>
    exemptionOfStored(policyWith(grantsIn([given])), kind, stored, now).names;
  expect(namesOf(exception())).toEqual(['shop/legacy']);
  expect(namesOf(exception(), EXPIRY)).toEqual([]);
  expect(namesOf(exception({ users: ['*'] }))).toEqual([]);
});

test.each<[string, Partial<PolicyExceptionSpec>, Partial<AdmissionPolicySpec> | undefined, number, string]>([
  ['InForce', {}, {}, BEFORE, ''],
  ['Expired', {}, {}, EXPIRY, 'spec.expiresAt: the exception expired at 2026-12-01'],
  [
    'UnknownPolicy',
    {},
    undefined,
    BEFORE,
    'AdmissionPolicy "servers" not found or not in force; create it or fix the name',
  ],
  ['NotAccepted', {}, { policyExceptions: 'Refuse' }, BEFORE, 'can set policyExceptions: Accept'],
  ['UnknownCheck', { checks: ['smal'] }, {}, BEFORE, '"smal" is not a check of this policy'],
  ['InvalidSpec', { expiresAt: 'soon' }, {}, BEFORE, 'nothing is exempt'],
])('the state %s', (reason, change, spec, now, message) => {
  const state = grantState(exception(change), spec && policyWith(grantsIn([]), spec), now);
  expect(state).toMatchObject(
    reason === 'InForce'
      ? { kind: 'in-force' }
      : { kind: 'void', reason, message: expect.stringContaining(message) as string },
  );
});

describe('before a denial, exceptions are read live', () => {
  const denial: Decision = {
    kind: 'deny',
    code: 403,
    reason: 'Forbidden',
    message: 'too large',
    causes: [],
    warnings: [],
    auditAnnotations: {},
  };
  const decide = async (
    readGrants: RequestWorld['readGrants'],
    {
      stored = [],
      spec = {},
    }: { stored?: readonly PolicyException[]; spec?: Partial<AdmissionPolicySpec> } = {},
  ) => {
    const policy = policyWith(grantsIn(stored), spec);
    const check = confirmingExceptions(
      (asked, [given], context) =>
        given !== undefined && exemptionOf(given, asked, context).names.length > 0
          ? { kind: 'allow', patch: [], warnings: [], auditAnnotations: {} }
          : denial,
      ({ namespace }) => namespace,
    );
    const world = { readGrants } as RequestWorld; // the check reads nothing else
    const { kind } = await check(request(), [policy], {
      world,
      now: BEFORE,
      signal: new AbortController().signal,
    });
    return kind;
  };

  test('one that the store does not have yet allows', async () => {
    expect(await decide(() => Promise.resolve(grantsIn([exception()])))).toBe('allow');
  });

  test('without one, the denial stands', async () => {
    expect(await decide(() => Promise.resolve(grantsIn([])))).toBe('deny');
    expect(
      await decide(() => Promise.resolve(grantsIn([exception({ expiresAt: '2026-11-01T00:00:00Z' })]))),
    ).toBe('deny');
  });

  test('if that fails, the client tries again', async () => {
    expect(await decide(() => Promise.reject(new Error('down')))).toBe('retry');
  });

  test('an allowed request causes no read, and neither does a policy that accepts no exceptions', async () => {
    const read = vi.fn(() => Promise.resolve(grantsIn([])));
    expect(await decide(read, { stored: [exception()] })).toBe('allow');
    expect(await decide(read, { spec: { policyExceptions: 'Refuse' } })).toBe('deny');
    expect(await decide(read, { spec: { enforcement: 'Audit' } })).toBe('deny');
    expect(read).not.toHaveBeenCalled();
  });
});
