import { beforeEach, expect, test } from 'vitest';

import { containing } from '../../../test/support/runtime/fixtures.ts';
import { requestOf } from '../../../test/support/admission/handler.ts';
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import type { JsonObject } from '../../json/json.ts';
import type { AccessQuestion, AccessSubject } from '../../kube/access.ts';
import { createAuthorReview } from './author-review.ts';
import { createReadRecords, READS_REVIEWED } from './read-records.ts';

const signal = new AbortController().signal;
const records = createReadRecords(() => ({ key: 'a2V5', earlier: '' }));
const user: AccessSubject = { username: 'ana', uid: '7', groups: ['dev'], extra: { scope: ['x'] } };
const match = { apiGroups: ['infra.example.com'], resources: ['servers'] };
const secret: Partial<AdmissionPolicySpec> = {
  params: { apiGroup: '', resource: 'secrets', name: 'db', namespace: 'vault' },
};

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
const write = (object: JsonObject, oldObject?: JsonObject) =>
  review(
    requestOf({
      operation: oldObject === undefined ? 'CREATE' : 'UPDATE',
      name: 'p',
      userInfo: user,
      object,
      ...(oldObject === undefined ? {} : { oldObject }),
    }),
    signal,
  );
const set = (record: string) => ({ op: expect.any(String) as string, value: record });

test('asks for the author with uid, groups and extra, and refuses what the author may not read', async () => {
  expect(await write(policy(secret))).toMatchObject({
    kind: 'deny',
    code: 403,
    reason: 'Forbidden',
    causes: [{ field: 'spec.params', reason: 'FieldValueForbidden' }],
  });
  expect(asked).toEqual([
    {
      subject: user,
      question: { verb: 'get', group: '', resource: 'secrets', namespace: 'vault', name: 'db' },
    },
  ]);
});

test('records the review, and replaces a forged record', async () => {
  may = true;
  for (const metadata of [{}, annotated('forged'), { annotations: {} }])
    expect(JSON.stringify(await write(policy(secret, metadata)))).toContain(recordOf(secret));
  expect(await write(policy(secret, annotated('forged')))).toMatchObject({ patch: [set(recordOf(secret))] });
});

test('a policy that reads nothing causes no question', async () => {
  expect(await write(policy({}))).toMatchObject({ kind: 'allow', patch: [] });
  expect(asked).toEqual([]);
});

test('a reviewed policy that stays the same needs no permission, and keeps its record', async () => {
  const old = policy(secret, annotated(recordOf(secret)));
  for (const object of [
    policy(secret),
    policy({ ...secret, enforcement: 'Warn' }, annotated('forged')),
    policy(secret, { ...annotated(recordOf(secret)), finalizers: [] }),
  ]) {
    const decision = await write(object, old);
    expect(decision.kind).toBe('allow');
    if (object.metadata !== old.metadata && JSON.stringify(object).includes(recordOf(secret))) continue;
    expect(JSON.stringify(decision)).toContain(recordOf(secret));
  }
  expect(asked).toEqual([]);
});

test('any change of what a policy discloses is reviewed again, also when the reads stay the same', async () => {
  const old = policy(secret, annotated(recordOf(secret)));
  const mutations = [{ name: 'a', expression: '{"a": params.data.password}' }];
  const object = policy({ ...secret, mutations }, annotated(recordOf(secret)));
  expect((await write(object, old)).kind).toBe('deny');
  may = true;
  expect(JSON.stringify(await write(object, old))).toContain(recordOf({ ...secret, mutations }));
});

test('a policy without a valid record can be labelled by users who may not read, and gets no record then', async () => {
  const old = policy(secret, annotated('forged'));
  expect(await write(policy(secret, { labels: { a: 'b' } }), old)).toMatchObject({
    kind: 'allow',
    patch: [],
  });
  may = true;
  expect(JSON.stringify(await write(policy(secret), old))).toContain(recordOf(secret));
});

test('no policy reads a Secret of Gatehouse', async () => {
  may = true;
  const params = { apiGroup: '', resource: 'secrets', name: 'db', namespace: 'gatehouse-system' };
  expect(await write(policy({ params }))).toMatchObject({ kind: 'deny', code: 403 });
  expect(asked).toEqual([]);
});

test('more reads than the limit cause no question', async () => {
  may = true;
  const resources = Array.from({ length: 65 }, (_, index) => `kind${index}`);
  const decision = await write(
    policy({ match: { ...match, resources }, validate: { rules: [{ expression: 'true' }] } }),
  );
  expect(decision).toMatchObject({ kind: 'deny', message: containing('at most 64') });
  expect(asked).toEqual([]);
});
