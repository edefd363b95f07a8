import type { ResourceType } from '../resource-type.ts';
import { AGE, builtInKind } from './built-in-kind.ts';
import { items } from './reading.ts';
import { BOOLEAN, keyedList, listOf, LOCAL_REFERENCE, OBJECT_REFERENCE } from './schema-words.ts';

/** v1 ServiceAccount. */
export const SERVICE_ACCOUNT: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  resource: 'serviceaccounts',
  namespaced: true,
  shortNames: ['sa'],
  description: 'Who a program is to the API.',
  fields: {
    secrets: keyedList(OBJECT_REFERENCE, ['name']),
    imagePullSecrets: listOf(LOCAL_REFERENCE),
    automountServiceAccountToken: BOOLEAN,
  },
  columns: [
    {
      name: 'Secrets',
      type: 'string',
      description: 'How many Secrets its pods may use.',
      value: (account) => items(account, 'secrets').length,
    },
    AGE,
  ],
});
