import { expect, test } from 'vitest';

import type { JsonObject } from '../../json/json.ts';
import { ofJson, toJson, withMeta, type ApiObject } from '../api-object.ts';
import { createConverter } from './convert.ts';
import { definition, VERSION } from '../../../test/support/sandbox/crd.ts';

const VERSIONS = [VERSION, { ...VERSION, name: 'v2', storage: false }];
const CLIENT_CONFIG = { url: 'https://127.0.0.1:1/convert' };
const WEBHOOK = definition({
  versions: VERSIONS,
  conversion: {
    strategy: 'Webhook',
    webhook: { clientConfig: CLIENT_CONFIG, conversionReviewVersions: ['v9', 'v1', 'v1beta1'] },
  },
});
const V2 = 'infra.example.com/v2';

const server = (name: string, apiVersion = 'infra.example.com/v1'): ApiObject =>
  ofJson({
    apiVersion,
    kind: 'Server',
    metadata: { name, namespace: 'prod', uid: `uid-of-${name}`, resourceVersion: '7', labels: { a: 'b' } },
    spec: { color: 'blue' },
  });

/** The object as the webhook receives it, without its resourceVersion. */
const unversioned = (name: string): ApiObject => withMeta(server(name), { resourceVersion: undefined });

const asV2 = (object: ApiObject): JsonObject => ({
  ...toJson(object),
  apiVersion: V2,
  spec: { colour: 'blue' },
});

/** A webhook that answers with `response`, and a converter that calls it. */
function asking(response: (objects: readonly ApiObject[]) => JsonObject, review: JsonObject = {}) {
  const asked: { clientConfig: JsonObject; review: JsonObject }[] = [];
  const convert = createConverter(
    (clientConfig, question) => {
      asked.push({ clientConfig, review: question });
      const { objects } = question.request as unknown as { objects: readonly ApiObject[] };
      return Promise.resolve({
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'ConversionReview',
        response: { uid: 'uid-1', result: { status: 'Success' }, ...response(objects) },
        ...review,
      });
    },
    () => 'uid-1',
  );
  return { asked, convert };
}

test('one webhook call converts all objects, in the first review version that both sides support', async () => {
  const { asked, convert } = asking((objects) => ({ convertedObjects: objects.map(asV2) }));
  const objects = [server('a'), server('b', V2), server('c')];
  const converted = await convert(objects, WEBHOOK, V2);
  expect(converted).toEqual([asV2(server('a')), server('b', V2), asV2(server('c'))]);
  await convert([server('b', V2)], WEBHOOK, V2); // without a call
  expect(asked).toEqual([
    {
      clientConfig: CLIENT_CONFIG,
      review: {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'ConversionReview',
        request: { uid: 'uid-1', desiredAPIVersion: V2, objects: [unversioned('a'), unversioned('c')] },
      },
    },
  ]);
});

const HOOK = 'conversion webhook for infra.example.com/v1, Kind=Server';
const answered = (change: (object: ApiObject) => JsonObject) => (objects: readonly ApiObject[]) => ({
  convertedObjects: objects.map(change),
});

test.each([
  ['a failure', () => ({ result: { status: 'Failed', message: 'no way' } }), ' failed: no way'],
  [
    'the old version',
    answered(toJson),
    ' returned invalid object at index 0: invalid groupVersion (expected infra.example.com/v2, received infra.example.com/v1)',
  ],
])('an answer with %s is rejected', async (_what, response, message) => {
  const { convert } = asking(response);
  await expect(convert([server('a')], WEBHOOK, V2)).rejects.toMatchObject({
    status: { code: 500, message: `${HOOK}${message}` },
  });
});
