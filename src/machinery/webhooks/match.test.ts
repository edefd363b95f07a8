import type { AdmissionAttributes } from './admission-review.ts';
import { expect, test } from 'vitest';

import type { JsonObject } from '../../json/json.ts';
import { typeOf } from '../../../test/support/sandbox/built-in-objects.ts';
import { isExempt, matchingType } from './match.ts';
import {
  attributes,
  configMap,
  CONFIG_MAPS,
  createWebhookStorage,
  hook,
} from '../../../test/support/sandbox/webhooks.ts';

const world = createWebhookStorage();
const NAMESPACES = typeOf('v1 Namespace');

/** The version in which a webhook with these changes sees the request. */
const seen = (changes: JsonObject, request: Partial<AdmissionAttributes> = {}): string | undefined =>
  matchingType(hook(changes), attributes(request), world)?.version;

const rules = (...changes: readonly JsonObject[]): JsonObject => ({
  rules: changes.map((change) => ({
    operations: ['*'],
    apiGroups: ['*'],
    apiVersions: ['*'],
    resources: ['*'],
    scope: '*',
    ...change,
  })),
});

const RED = { namespaceSelector: { matchLabels: { team: 'red' } } };

test('a namespaceSelector checks the new state of a Namespace, and the old state on deletion', () => {
  const red = { ...configMap({ name: 'shop', labels: { team: 'red' } }), kind: 'Namespace' };
  const request = { type: NAMESPACES, name: 'shop' };
  expect(seen({ ...rules({}), ...RED }, { ...request, object: red })).toBe('v1');
  const { object: oldObject = red, ...gone } = attributes({ ...request, object: red });
  const deletion = { ...gone, operation: 'DELETE', oldObject } as const;
  expect(matchingType(hook({ ...rules({}), ...RED }), deletion, world)).toBeDefined();
});

test('webhook configurations are exempt, so that an invalid one can be removed', () => {
  expect(isExempt(typeOf('admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration'))).toBe(true);
  expect(isExempt(typeOf('admissionregistration.k8s.io/v1 MutatingWebhookConfiguration'))).toBe(true);
  expect(isExempt(CONFIG_MAPS)).toBe(false);
});
