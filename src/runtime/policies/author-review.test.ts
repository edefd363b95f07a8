import { beforeEach, expect, test } from 'vitest';

import { requestOf } from '../../../test/support/admission/handler.ts';
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import type { JsonObject } from '../../json/json.ts';
import type { AccessQuestion, AccessSubject } from '../../kube/access.ts';
import { createAuthorReview, createPolicyWarnings, type PolicyWarningsOptions } from './author-review.ts';
import { createReadRecords, READS_REVIEWED } from './read-records.ts';
import { containing, silent } from '../../../test/support/runtime/fixtures.ts';

const signal = new AbortController().signal;
const records = createReadRecords(() => ({ key: 'a2V5', earlier: '' }));
const user: AccessSubject = { username: 'ana', uid: '7', groups: ['dev'], extra: { scope: ['x'] } };
const match = { apiGroups: ['infra.example.com'], resources: ['servers'] };
const secret = { params: { apiGroup: '', resource: 'secrets', name: 'db', namespace: 'vault' } };

let asked: { readonly subject: AccessSubject; readonly question: AccessQuestion }[];
let may: boolean;

beforeEach(() => {
  asked = [];
  may = false;
});

const review = createAuthorReview(
  (subject, question) => {
    asked.push({ subject, question });
    return Promise.resolve(may);
  },
  records,
  'gatehouse-system',
);

const policy = (spec: Partial<AdmissionPolicySpec>, metadata: object = {}): JsonObject =>
  ({ metadata: { name: 'p', ...metadata }, spec: { match, ...spec } }) as unknown as JsonObject;
const annotated = (record: string) => ({ annotations: { [READS_REVIEWED]: record, other: 'x' } });
const recordOf = (spec: Partial<AdmissionPolicySpec>) => records.recordOf('p', { match, ...spec }) ?? '';
const creation = (object: JsonObject) =>
  requestOf({ operation: 'CREATE', name: 'p', userInfo: user, object });
const update = (object: JsonObject, oldObject: JsonObject) =>
  requestOf({ operation: 'UPDATE', name: 'p', userInfo: user, object, oldObject });
const write = (object: JsonObject, old?: JsonObject) =>
  review(old === undefined ? creation(object) : update(object, old), signal);

test('more reads than the limit cause no question', async () => {
  may = true;
  const resources = Array.from({ length: 65 }, (_, index) => `kind${index}`);
  const validate = { rules: [{ expression: 'true' }] };
  const decision = await write(policy({ match: { ...match, resources }, validate }));
  expect(decision).toMatchObject({ kind: 'deny', message: containing('at most 64') });
  expect(asked).toEqual([]);
});

test('an unchanged reviewed policy keeps its record, and its writer does not need the permissions', async () => {
  const old = policy(secret, annotated(recordOf(secret)));
  for (const object of [policy(secret), policy({ ...secret, enforcement: 'Warn' }, annotated('forged'))])
    expect(JSON.stringify(await write(object, old))).toContain(recordOf(secret));
  const unfinalized = policy(secret, { ...annotated(recordOf(secret)), finalizers: [] });
  expect(await write(unfinalized, old)).toMatchObject({ kind: 'allow', patch: [] });
  expect(await write(policy({}))).toMatchObject({ kind: 'allow', patch: [] }); // it reads nothing
  expect(asked).toEqual([]);
});

test('any change of what a policy discloses is reviewed again, even with the same reads', async () => {
  const old = policy(secret, annotated(recordOf(secret)));
  const mutations = [{ name: 'a', expression: '{"a": params.data.password}' }];
  const object = policy({ ...secret, mutations }, annotated(recordOf(secret)));
  expect((await write(object, old)).kind).toBe('deny');
  const question = { verb: 'get', group: '', resource: 'secrets', namespace: 'vault', name: 'db' };
  expect(asked).toEqual([{ subject: user, question }]);
  may = true;
  expect(JSON.stringify(await write(object, old))).toContain(recordOf({ ...secret, mutations }));
});

const GROUP = 'infra.example.com';
const served = { group: GROUP, version: 'v1', resource: 'servers', kind: 'Server', namespaced: true };
const spec = { type: 'object', properties: { tenant: { type: 'string' } } };

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
    schemas: () =>
      Promise.resolve([
        { schema: { type: 'object', properties: { spec } }, scale: '', group: GROUP, resource: 'servers' },
      ]),
    environment: { ownNamespace: 'gatehouse-system' },
    strict: false,
    log: silent,
    ...change,
  });

test('--strict-policies refuses a broken policy, and not one that waits for its kind', async () => {
  const strict = scene({ strict: true });
  expect(await strict(creation(policyWith('spec.tennant')), signal)).toMatchObject({
    kind: 'deny',
    code: 403,
    message: containing('did you mean tenant?'),
    causes: [{ field: 'spec.validate.immutable[0]' }],
  });
  expect(await strict(creation(policyWith('spec.tenant', 'racks')), signal)).toMatchObject({
    kind: 'allow',
    warnings: [expect.stringContaining(`not enforced: spec.match: the API server serves no racks.${GROUP}`)],
  });
});

test('an update of the metadata of a broken policy is not checked', async () => {
  const broken = policyWith('spec.tennant');
  const decision = await scene({ strict: true })(update(broken, broken), signal);
  expect(decision).toMatchObject({ kind: 'allow', warnings: [] });
});

test('a check that cannot finish blocks nothing, not even with --strict-policies', async () => {
  const never = () => new Promise<never>(() => undefined);
  const aborted = AbortSignal.timeout(20);
  const discovery = { resolve: never, servedIn: never, groups: never, serverVersion: never };
  const slow = scene({ strict: true, discovery, schemas: never });
  expect(await slow(creation(policyWith('spec.tennant')), aborted)).toMatchObject({
    kind: 'allow',
    warnings: ['the policy could not be checked in time: see its status.conditions'],
  });
  const away = () => Promise.reject(new Error('away'));
  const failing = scene({ strict: true, schemas: away });
  expect(await failing(creation(policyWith('spec.tennant')), signal)).toMatchObject({ kind: 'allow' });
});
