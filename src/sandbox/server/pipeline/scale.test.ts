import { placeOf } from '../../machinery/storage/stored.ts';
import type { ResourceVerb } from '../../machinery/request.ts';
import { expect, test } from 'vitest';

import type { JsonObject, JsonValue } from '../../../json/json.ts';
import { ofJson, toJson, type ApiObject } from '../../machinery/api-object.ts';
import { typeOf } from '../../../../test/support/sandbox/built-in-objects.ts';
import {
  createWebhookAdmission,
  entry,
  patch as answerWith,
  type Answer,
} from '../../../../test/support/sandbox/webhooks.ts';
import type { Api, ApiRequest } from './context.ts';
import { handleScale, hasScale } from './scale.ts';

const DEPLOYMENTS = typeOf('apps/v1 Deployment');
const KEY = { namespace: 'shop', name: 'web' };

const deployment = (spec: JsonObject): ApiObject =>
  ofJson({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: {
      ...KEY,
      uid: 'u',
      generation: 1,
      creationTimestamp: '2026-01-01T00:00:00Z',
      managedFields: [
        {
          manager: 'creator',
          operation: 'Update',
          apiVersion: 'apps/v1',
          fieldsType: 'FieldsV1',
          fieldsV1: { 'f:spec': { 'f:replicas': {} } },
        },
      ],
    },
    spec: {
      selector: { matchLabels: { app: 'web' } },
      template: {
        metadata: { labels: { app: 'web' } },
        spec: { containers: [{ name: 'main', image: 'web:1', imagePullPolicy: 'Always' }] },
      },
      ...spec,
    },
    status: { replicas: 2 },
  });

/** A Deployment with a scale subresource, and a webhook for it. */
function createScaled(spec: JsonObject = { replicas: 3 }, answer: Answer = () => ({ allowed: true })) {
  const court = createWebhookAdmission({ hook: answer });
  const { storage, registry, admission, notes } = court;
  storage.create(placeOf(DEPLOYMENTS), deployment(spec));
  const api: Api = {
    registry,
    storage,
    admission,
    convert: (objects) => Promise.resolve(objects),
    now: () => new Date('2026-01-02T03:04:05Z'),
    newUid: () => 'uid',
    newSuffix: () => 'xxxxx',
    issueToken: () => '',
    authorize: () => ({ allowed: true, reason: '' }),
    escalationProblem: () => undefined,
  };
  const ask = async (verb: ResourceVerb, body?: JsonValue, contentType = 'application/json') => {
    const info = {
      kind: 'resource',
      verb,
      group: 'apps',
      version: 'v1',
      resource: 'deployments',
      subresource: 'scale',
      path: '',
      ...KEY,
    } as const;
    const request: ApiRequest = {
      method: '',
      info,
      query: new URLSearchParams(),
      accept: undefined,
      contentType,
      userAgent: 'tester/1',
      body: Buffer.from(body === undefined ? '' : JSON.stringify(body)),
      user: { username: 'alice', groups: [] },
      notes,
    };
    if (!hasScale(DEPLOYMENTS)) throw new Error('Deployments must have a scale subresource');
    const answered = await handleScale(api, request, info, DEPLOYMENTS);
    if (answered.kind !== 'object') throw new Error('a Scale must be an object');
    return toJson(answered.object);
  };
  const stored = () => storage.get(placeOf(DEPLOYMENTS), KEY);
  return { ...court, ask, stored };
}

const MERGE = 'application/merge-patch+json';
const replicas = (count: number) => ({ spec: { replicas: count } });

test('a Scale shows the desired and the actual replicas', async () => {
  const { ask, stored } = createScaled();
  expect(await ask('get')).toEqual({
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: {
      ...KEY,
      uid: 'u',
      resourceVersion: stored()?.metadata.resourceVersion,
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: { replicas: 3 },
    status: { replicas: 2, selector: 'app=web' },
  });
});

test('an update changes only the replicas', async () => {
  const { ask, stored } = createScaled();
  const { spec: before } = toJson(stored() ?? deployment({}));
  const scale = await ask('get');
  expect(await ask('update', { ...scale, ...replicas(5), status: { replicas: 9 } })).toMatchObject(
    replicas(5),
  );
  expect(stored()).toMatchObject({ metadata: { generation: 2 }, status: { replicas: 2 } });
  expect(stored()?.spec).toEqual({ ...(before as JsonObject), replicas: 5 });
});

test.each([
  ['a merge patch', replicas(0), MERGE],
  ['a strategic merge patch', replicas(0), 'application/strategic-merge-patch+json'],
  ['a JSON patch', [{ op: 'replace', path: '/spec/replicas', value: 0 }], 'application/json-patch+json'],
])('%s changes the replicas', async (_what, body, contentType) => {
  const { ask, stored } = createScaled();
  // Go omits a zero.
  expect((await ask('patch', body, contentType)).spec).toEqual({});
  expect(stored()?.spec).toMatchObject({ replicas: 0 });
});

test('the client that scales becomes the manager of the replicas through the subresource', async () => {
  const { ask, stored } = createScaled();
  await ask('patch', replicas(4), MERGE);
  expect(stored()?.metadata.managedFields).toMatchObject([
    { manager: 'tester', subresource: 'scale', fieldsV1: { 'f:spec': { 'f:replicas': {} } } },
  ]);
});

test.each([
  ['a negative number', replicas(-1), 422, 'must be greater than or equal to 0'],
  ['an outdated version', { metadata: { resourceVersion: '1' } }, 409, 'has been modified'],
  ['another object', { metadata: { name: 'other' } }, 400, 'does not match the name on the URL'],
])('a patch to %s is rejected', async (_what, body, code, message) => {
  const { ask } = createScaled();
  await expect(ask('patch', body, MERGE)).rejects.toMatchObject({
    status: { code, message: expect.stringContaining(message) as string },
  });
});

test('an object without replicas has no Scale', async () => {
  await expect(createScaled({}).ask('get')).rejects.toMatchObject({
    status: { code: 500, message: expect.stringContaining('".spec.replicas" does not exist') as string },
  });
});

test('a webhook for the subresource sees Scales and may change them', async () => {
  const { ask, install, asked, stored } = createScaled({ replicas: 3 }, () =>
    answerWith({ op: 'replace', path: '/spec/replicas', value: 7 }),
  );
  const rule = { operations: ['UPDATE'], apiGroups: ['apps'], apiVersions: ['v1'], scope: '*' };
  install('Mutating', [entry({ rules: [{ ...rule, resources: ['deployments/scale'] }] })]);
  expect(await ask('patch', replicas(5), MERGE)).toMatchObject(replicas(7));
  expect(stored()?.spec).toMatchObject({ replicas: 7 });
  expect(asked[0]?.request).toMatchObject({
    kind: { group: 'autoscaling', version: 'v1', kind: 'Scale' },
    resource: { group: 'apps', version: 'v1', resource: 'deployments' },
    subResource: 'scale',
    object: { kind: 'Scale', ...replicas(5) },
    oldObject: { kind: 'Scale', ...replicas(3) },
  });
});
