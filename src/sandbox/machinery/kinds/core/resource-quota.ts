import type { ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { listOf, mapOf, object, STRING, STRINGS, withDefault } from '../schema-builders.ts';

const SCOPES = object({
  matchExpressions: listOf(object({ scopeName: STRING, operator: STRING, values: STRINGS })),
});

/** v1 ResourceQuota: stored but not enforced. */
export const RESOURCE_QUOTA: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'ResourceQuota',
  resource: 'resourcequotas',
  namespaced: true,
  shortNames: ['quota'],
  description: 'How much the objects of a namespace may request.',
  fields: {
    spec: withDefault(object({ hard: mapOf(STRING), scopes: STRINGS, scopeSelector: SCOPES }), {}),
    status: withDefault(object({ hard: mapOf(STRING), used: mapOf(STRING) }), {}),
  },
  columns: [AGE],
  hasStatus: true,
});
