import { expect, test } from 'vitest';

import { requestOf } from '../../../test/support/admission/handler.ts';
import type { JsonObject } from '../../json/json.ts';
import { containing, silent } from '../../../test/support/runtime/fixtures.ts';
import { createPolicyWarnings, type PolicyWarningsOptions } from './policy-warnings.ts';

const GROUP = 'infra.example.com';
const served = { group: GROUP, version: 'v1', resource: 'servers', kind: 'Server', namespaced: true };
const spec = { type: 'object', properties: { tenant: { type: 'string' } } };
const live = new AbortController().signal;

const policyWith = (path: string, resource = 'servers') => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'AdmissionPolicy',
  metadata: { name: 'servers' },
  spec: { match: { apiGroups: [GROUP], resources: [resource] }, validate: { immutable: [path] } },
});

const scene = (change: Partial<PolicyWarningsOptions> = {}) =>
  createPolicyWarnings({
    discovery: {
      resolve: () => Promise.resolve(served),
      servedIn: () => Promise.resolve([served]),
      groups: () => Promise.resolve([GROUP]),
      serverVersion: () => Promise.resolve({ major: 1, minor: 37, gitVersion: 'v1.37.2' }),
    },
    schemas: () => Promise.resolve([{ type: 'object', properties: { spec } }]),
    environment: { ownNamespace: 'gatehouse-system' },
    strict: false,
    log: silent,
    ...change,
  });
const creation = (object: JsonObject) => requestOf({ operation: 'CREATE', object });

test('a broken policy is stored with a warning, and a valid one without', async () => {
  expect(await scene()(creation(policyWith('spec.tennant')), live)).toMatchObject({
    kind: 'allow',
    warnings: ['not enforced: spec.validate.immutable[0]: spec has no field tennant: did you mean tenant?'],
  });
  expect(await scene()(creation(policyWith('spec.tenant')), live)).toMatchObject({
    kind: 'allow',
    warnings: [],
  });
});

test('--strict-policies refuses a broken policy, and not one that waits for its kind', async () => {
  const strict = scene({ strict: true });
  expect(await strict(creation(policyWith('spec.tennant')), live)).toMatchObject({
    kind: 'deny',
    code: 403,
    message: containing('did you mean tenant?'),
    causes: [{ field: 'spec.validate.immutable[0]' }],
  });
  expect(await strict(creation(policyWith('spec.tenant', 'racks')), live)).toMatchObject({
    kind: 'allow',
    warnings: [expect.stringContaining(`not enforced: spec.match: the API server serves no racks.${GROUP}`)],
  });
});

test.each(['metadata', 'status'])('an update of the %s of a broken policy is not checked', async (what) => {
  const request = {
    ...creation(policyWith('spec.tennant')),
    operation: 'UPDATE' as const,
    oldObject: policyWith('spec.tennant'),
    subResource: what === 'status' ? 'status' : '',
  };
  expect(await scene({ strict: true })(request, live)).toMatchObject({ kind: 'allow', warnings: [] });
});

test('a check that cannot finish blocks nothing, not even with --strict-policies', async () => {
  const never = () => new Promise<never>(() => undefined);
  const aborted = AbortSignal.timeout(20);
  const slow = scene({
    strict: true,
    discovery: { resolve: never, servedIn: never, groups: never, serverVersion: never },
    schemas: never,
  });
  expect(await slow(creation(policyWith('spec.tennant')), aborted)).toMatchObject({
    kind: 'allow',
    warnings: ['the policy could not be checked in time: see its status.conditions'],
  });
  const away = () => Promise.reject(new Error('away'));
  const failing = scene({ strict: true, schemas: away });
  expect(await failing(creation(policyWith('spec.tennant')), live)).toMatchObject({ kind: 'allow' });
});
