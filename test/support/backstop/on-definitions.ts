import type { Resource } from '../../../src/kube/object.ts';
import { apiServices, customResourceDefinitions, services } from '../../../src/kube/well-known.ts';
import { ANY, versionOf } from '../definitions.ts';
import { ASKS, BUNDLE, creates, idOf, merges, meta, TENANT } from './attack.ts';
import type { Attempt, Json, Strings } from './attack.ts';

const theirs = { service: { namespace: TENANT, name: 'web' } };
const CONVERSION = {
  strategy: 'Webhook',
  webhook: { conversionReviewVersions: ['v1'], clientConfig: theirs },
};
const definition = (plural: string, annotations: Strings): readonly [Resource, Json] => [
  customResourceDefinitions,
  {
    ...meta(`${plural}.attack.example.com`, annotations),
    spec: {
      group: 'attack.example.com',
      scope: 'Namespaced',
      conversion: CONVERSION,
      names: {
        plural,
        singular: plural.slice(0, -1),
        kind: plural.toUpperCase(),
        listKind: `${plural.toUpperCase()}List`,
      },
      versions: [versionOf('v1', { type: 'object' })],
    },
  },
];
/** The API server itself creates the APIServices of groups that have a definition. */
const API_GROUP = 'apis.attack.example.com';
const apiService = (version: string, annotations: Strings): readonly [Resource, Json] => [
  apiServices,
  {
    ...meta(`${version}.${API_GROUP}`, annotations),
    spec: {
      group: API_GROUP,
      version,
      groupPriorityMinimum: 100,
      versionPriority: 100,
      service: { namespace: TENANT, name: 'web' },
    },
  },
];
const RECORDED = { 'gatehouse.dev/owner-references': 'recorded' };
const NOBODY = { apiVersion: 'v1', kind: 'Namespace', name: 'gone', uid: 'c0ffee' };
const ORPHANS = { metadata: { ownerReferences: [NOBODY] } };
const client = (change: object) => ({ spec: { conversion: { webhook: { clientConfig: change } } } });
const asking = { metadata: { annotations: ASKS }, ...client({ caBundle: BUNDLE }) };
const crdAttack = (name: string, annotations: Strings, patch: object): Attempt => ({
  name,
  before: definition(idOf(name), annotations),
  write: merges(customResourceDefinitions, `${idOf(name)}.attack.example.com`, patch),
});
const apiAttack = (name: string, version: string, annotations: Strings, patch: object): Attempt => ({
  name,
  before: apiService(version, annotations),
  write: merges(apiServices, `${version}.${API_GROUP}`, patch),
});
const service = (name: string): readonly [Resource, Json] => [
  services,
  { ...meta(name, {}, TENANT), spec: { selector: { app: 'web' }, ports: [{ port: 443 }] } },
];

export const ON_DEFINITIONS: readonly Attempt[] = [
  crdAttack('a bundle of a conversion that does not ask', {}, client({ caBundle: BUNDLE })),
  crdAttack('a bundle and the request in one write', {}, asking),
  crdAttack('the address of a conversion that asks', ASKS, client({ service: { name: 'thief' } })),
  crdAttack('no conversion', ASKS, {
    spec: { conversion: { strategy: 'None', webhook: null } },
  }),
  crdAttack('other versions', ASKS, { spec: { versions: [versionOf('v1', ANY)] } }),
  crdAttack('a finalizer of a definition', ASKS, {
    metadata: { finalizers: ['example.com/thief'] },
  }),
  crdAttack('an owner of a definition that does not exist', RECORDED, ORPHANS),
  { name: 'a definition', write: creates(...definition('createds', ASKS)) },
  apiAttack('an owner of an API that does not exist', 'v9', RECORDED, ORPHANS),
  apiAttack('a bundle of an API that does not ask', 'v1', {}, { spec: { caBundle: BUNDLE } }),
  apiAttack('an API that leads elsewhere', 'v2', ASKS, {
    spec: { service: { name: 'thief' }, caBundle: BUNDLE },
  }),
  apiAttack('an API without verification', 'v3', ASKS, { spec: { insecureSkipTLSVerify: true } }),
  {
    name: 'a Service that selects other pods',
    before: service('selecting'),
    write: merges(services, 'selecting', { spec: { selector: { app: 'thief' } } }, TENANT),
  },
  {
    name: 'another annotation of a Service',
    before: service('annotated'),
    write: merges(
      services,
      'annotated',
      { metadata: { annotations: { 'example.com/load-balancer': 'internet' } } },
      TENANT,
    ),
  },
];
