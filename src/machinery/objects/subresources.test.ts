import { expect, test } from 'vitest';

import { typeOf } from '../../../test/support/sandbox/built-in-objects.ts';
import { ofJson } from '../api-object.ts';
import { apiVersionOf } from '../resource-type.ts';
import { restrictToEndpoint } from './subresources.ts';

test.each([
  ['apps/v1 Deployment', { a: 'old' }],
  ['v1 Pod', { a: 'new' }],
])('a status write of a %s leaves the labels %j', (kind, labels) => {
  const type = typeOf(kind);
  const stored = (value: string) =>
    ofJson({
      apiVersion: apiVersionOf(type),
      kind: type.kind,
      metadata: { name: 'a', labels: { a: value }, annotations: { b: value } },
      spec: { replicas: value.length },
      status: { replicas: 1 },
    });
  expect(restrictToEndpoint(stored('new'), stored('old'), type, 'status')).toMatchObject({
    metadata: { labels, annotations: { b: 'new' } },
  });
});
